//! Checks what neither the compiler nor clippy can: who depends on whom, what the domain may touch, what files look
//! like, and that the documents point at what exists.
//!
//! Nothing is left out quietly. A file that a check looks for and that is not there is a finding, and the closing line
//! says how many files were not read because they are not text.

pub mod documents;
pub mod frame;
pub mod homes;
pub mod layers;
pub mod manifests;
pub mod operating;
pub mod purity;
pub mod reach;
pub mod root;
pub mod shape;
pub mod strangers;
pub mod unused;
pub mod words;

use std::io::{self, Write};
use std::path::Path;

use crate::finding::Finding;
use crate::tree::Tree;
use crate::workspace::Workspace;

/// Every check, in the order in which they are run.
const CHECKS: &[fn(&Workspace) -> Vec<Finding>] = &[
    |workspace| workspace.unreadable.clone(),
    layers::check,
    reach::check,
    frame::check,
    strangers::check,
    homes::check,
    manifests::check,
    unused::check,
    purity::check,
    words::check,
    shape::check,
    documents::check,
    operating::check,
    root::check,
];

/// Runs every check over a repository; returns the findings in the order of paths and lines.
#[must_use]
pub fn findings(workspace: &Workspace) -> Vec<Finding> {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(workspace)).collect();
    findings.sort();
    findings
}

/// Checks the repository at `root` and writes a line per finding and a closing line; returns whether it is tidy.
///
/// # Errors
/// When the repository cannot be read or `out` cannot be written.
pub fn run(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let workspace = Workspace::new(Tree::read(root)?);
    let findings = findings(&workspace);
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    let texts = workspace.tree.texts().count();
    writeln!(
        out,
        "tidy: {} findings in {texts} texts and {} packages; {} files are not text and were not read",
        findings.len(),
        workspace.packages.len(),
        workspace.tree.paths().count() - texts,
    )?;
    Ok(findings.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crash::points::{OF_FALLBACKS, OF_RESULTS, OF_THE_QUEUE, OF_WEBHOOKS, POINTS};

    use super::*;
    use crate::source::words;

    /// The names of all fault points in the code that ships.
    fn fault_points() -> BTreeSet<String> {
        let tree = Tree::read(crate::repository_root()).expect("the repository can be read");
        let workspace = Workspace::new(tree);
        let ships = |path: &str| path.starts_with("crates/") || path.starts_with("bins/");
        let mut names = BTreeSet::new();
        for source in workspace
            .sources
            .iter()
            .filter(|source| ships(&source.path))
        {
            let text = workspace.tree.text(&source.path).unwrap_or_default();
            for offset in words(&source.code, "fault_point!") {
                let name = text[offset..].split('"').nth(1);
                names.extend(name.map(str::to_owned));
            }
        }
        names
    }

    #[test]
    fn campaigns_know_every_fault_point_of_the_code_and_no_other() {
        let beside = [OF_THE_QUEUE, OF_FALLBACKS, OF_WEBHOOKS, OF_RESULTS].concat();
        let table = POINTS.iter().chain(&beside);
        let table: BTreeSet<String> = table.map(|name| (*name).to_owned()).collect();
        assert_eq!(table, fault_points());
    }

    #[test]
    fn this_repository_is_tidy() {
        let mut report = Vec::new();
        let tidy = run(crate::repository_root(), &mut report).expect("the repository can be read");
        assert!(tidy, "\n{}", String::from_utf8_lossy(&report));
    }

    #[test]
    fn an_empty_repository_is_not_tidy() {
        assert!(!findings(&Workspace::new(Tree::default())).is_empty());
    }
}
