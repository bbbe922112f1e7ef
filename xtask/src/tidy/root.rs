//! The top level is a table of contents: only what the plan of the house names, and everything that must be there.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// What may lie at the top level.
const TOP_LEVEL: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "bins",
    "crates",
    "deny.toml",
    "deploy",
    "docs",
    "examples",
    "rust-toolchain.toml",
    "tests",
    "xtask",
];

/// What other checks and newcomers rely on.
const REQUIRED: &[&str] = &[
    ".ci/run",
    "Cargo.lock",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/STYLE.md",
    "rust-toolchain.toml",
];

/// The start of paths that exist on one machine only; spelled in two halves, so that this file passes.
const MACHINE_PATH: &str = concat!("/wo", "rk/");

/// Checks the top level, the required files, and that no text names a path of one machine.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in workspace.tree.paths() {
        let top = path.split('/').next().unwrap_or(path);
        if !TOP_LEVEL.contains(&top) {
            let advice = "move it into one of the folders, or ignore it in .gitignore";
            findings.push(Finding::new(
                path,
                1,
                format!("the top level has no `{top}`"),
                advice,
            ));
        }
    }
    for path in REQUIRED.iter().filter(|path| !workspace.tree.exists(path)) {
        findings.push(Finding::new(
            *path,
            1,
            "a required file is missing",
            "write it",
        ));
    }
    for (path, text) in workspace.tree.texts() {
        for (index, _) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.contains(MACHINE_PATH))
        {
            findings.push(Finding::new(
                path,
                index + 1,
                format!("no text names `{MACHINE_PATH}`, a path of one machine"),
                "write the path from the root of the repository",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<String> {
        let required = REQUIRED.iter().map(|path| (*path, ""));
        let files: Vec<_> = required.chain(files.iter().copied()).collect();
        check(&Workspace::of(&files))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn the_plan_passes_and_anything_else_at_the_top_fails() {
        assert_eq!(rules(&[("docs/A.md", "")]), Vec::<String>::new());
        assert_eq!(
            rules(&[("notes.txt", "")]),
            ["the top level has no `notes.txt`"]
        );
        assert_eq!(
            rules(&[("common/src/lib.rs", "")]),
            ["the top level has no `common`"]
        );
    }

    #[test]
    fn a_required_file_that_is_missing_fails() {
        let missing = check(&Workspace::of(&[]));
        let missing: Vec<_> = missing
            .iter()
            .map(|finding| finding.path.as_str())
            .collect();
        assert_eq!(missing, REQUIRED);
    }

    #[test]
    fn a_path_of_one_machine_fails() {
        let text = format!("see {MACHINE_PATH}notes");
        assert_eq!(rules(&[("docs/A.md", &text)]).len(), 1);
        assert_eq!(
            rules(&[("docs/A.md", "see network/")]),
            Vec::<String>::new()
        );
    }
}
