//! What a Rust file looks like: it opens by saying what it is for, and it ends before one loses the thread.

use crate::finding::Finding;
use crate::workspace::Workspace;

/// Most lines of a file, its tests apart.
const MOST_LINES: usize = 500;
/// Most lines of a program's `main.rs`; everything that can be tested lives in the library.
const MOST_MAIN_LINES: usize = 40;

/// Checks the first line and the length of every Rust file, and that the README of a crate is whole.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = readmes(workspace);
    for source in &workspace.sources {
        let path = source.path.as_str();
        if !source.comments.starts_with("//!") {
            findings.push(Finding::new(
                path,
                1,
                "every file opens with `//!`",
                "say in a sentence what it is for, then what surprises",
            ));
        }
        // A host that shows how to embed is one file to be read.
        let is_program = path.ends_with("/src/main.rs") && !path.starts_with("examples/");
        let (lines, most) = if is_program {
            (source.code.lines().count(), MOST_MAIN_LINES)
        } else {
            (source.lines_without_tests(), MOST_LINES)
        };
        if lines > most {
            findings.push(Finding::new(
                path,
                most + 1,
                format!("a file like this has at most {most} lines without its tests, and it has {lines}"),
                "find the seam and make two files of it",
            ));
        }
    }
    findings
}

/// A crate is a product: strangers read its README first, and its host compiles because the crate's documentation has it.
fn readmes(workspace: &Workspace) -> Vec<Finding> {
    let is_product = |folder: &str| folder.starts_with("crates/") || folder.starts_with("bins/");
    let products = workspace.packages.iter();
    let products = products.filter(|package| is_product(&package.folder));
    let mut findings = Vec::new();
    for package in products {
        let readme = format!("{}/README.md", package.folder);
        let Some(text) = workspace.tree.text(&readme) else {
            let advice = "say what the crate is, show a host that compiles, and list its features";
            findings.push(Finding::new(readme, 1, "every crate has a README", advice));
            continue;
        };
        for part in ["```rust", "## Features"] {
            if !text.contains(part) {
                let advice =
                    "say what the crate is, show a host that compiles, and list its features";
                let rule = format!("the README of a crate has `{part}`");
                findings.push(Finding::new(&readme, 1, rule, advice));
            }
        }
        let library = format!("{}/src/lib.rs", package.folder);
        let text = workspace.tree.text(&library).unwrap_or_default();
        if !text.contains("include_str!(\"../README.md\")") {
            let advice = "add `#![doc = include_str!(\"../README.md\")]`";
            let rule = "the documentation of a crate has its README, whose host is tested so";
            findings.push(Finding::new(library, 1, rule, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<String> {
        check(&Workspace::of(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn a_crate_has_a_readme_with_a_host() {
        let rules = |readme: &str, library: &str| {
            let files = [
                ("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
                ("crates/a/README.md", readme),
                ("crates/a/src/lib.rs", library),
            ];
            readmes(&Workspace::of(&files)).len()
        };
        let readme = "# a\n```rust\n```\n## Features\nNone.\n";
        let library = "//! Purpose.\n#![doc = include_str!(\"../README.md\")]\n";
        assert_eq!(rules(readme, library), 0);
        assert_eq!(rules("# a\n", library), 2);
        assert_eq!(rules(readme, "//! Purpose.\n"), 1);
        let without = Workspace::of(&[("crates/a/Cargo.toml", "[package]\nname = \"a\"\n")]);
        assert_eq!(readmes(&without).len(), 1);
    }

    #[test]
    fn a_file_opens_with_its_purpose() {
        assert_eq!(
            rules("crates/a/src/lib.rs", "//! Purpose.\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            rules("crates/a/src/lib.rs", "/// Not.\n"),
            ["every file opens with `//!`"]
        );
    }

    #[test]
    fn five_hundred_lines_are_enough() {
        let fits = format!("//! Long.\n{}", "fn a() {}\n".repeat(499));
        assert_eq!(rules("crates/a/src/lib.rs", &fits), Vec::<String>::new());
        let tested = format!("{fits}#[cfg(test)]\nmod tests {{\n}}\n");
        assert_eq!(rules("crates/a/src/lib.rs", &tested), Vec::<String>::new());
        assert_eq!(
            rules("crates/a/src/lib.rs", &format!("{fits}fn b() {{}}\n")).len(),
            1
        );
    }

    #[test]
    fn a_program_starts_in_forty_lines() {
        let fits = format!("//! Program.\n{}", "fn a() {}\n".repeat(39));
        assert_eq!(rules("bins/a/src/main.rs", &fits), Vec::<String>::new());
        assert_eq!(
            rules("bins/a/src/main.rs", &format!("{fits}\nfn b() {{}}\n")).len(),
            1
        );
    }
}
