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
    use super::*;

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
