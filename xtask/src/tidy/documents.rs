//! Documents point at what exists: relative links, and the paths that they show as code.

use crate::finding::Finding;
use crate::tree::Tree;
use crate::workspace::Workspace;

/// A piece of code in a document is a path of the repository when it starts with one of these.
const FOLDERS: &[&str] = &["bins/", "crates/", "docs/", "examples/", "tests/", "xtask/"];

/// Checks every Markdown file.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let documents = workspace
        .tree
        .texts()
        .filter(|(path, _)| path.ends_with(".md"));
    documents
        .flat_map(|(path, text)| document(&workspace.tree, path, text))
        .collect()
}

fn document(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let (prose, code) = if fenced {
            (String::new(), line.to_owned())
        } else {
            split_spans(line)
        };
        for target in links(&prose) {
            if !resolve(path, target)
                .is_some_and(|target| target.is_empty() || tree.exists(&target))
            {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("a link points at what exists, and `{target}` does not"),
                    "correct the link, or remove it",
                ));
            }
        }
        for shown in code.split_whitespace().filter_map(as_path) {
            if !tree.exists(&shown) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("a path in a document exists, and `{shown}` does not"),
                    "correct the path, or remove it",
                ));
            }
        }
    }
    findings
}

/// Parts a line into what stands outside backticks and what stands within.
fn split_spans(line: &str) -> (String, String) {
    let (mut prose, mut code) = (String::new(), String::new());
    for (index, part) in line.split('`').enumerate() {
        let side = if index % 2 == 0 {
            &mut prose
        } else {
            &mut code
        };
        side.push_str(part);
        side.push(' ');
    }
    (prose, code)
}

/// Targets of `[text](target)`, `![text](target)` and `[name]: target` that are not addresses.
fn links(prose: &str) -> Vec<&str> {
    let inline = prose.match_indices("](").map(|(at, _)| &prose[at + 2..]);
    let inline = inline.map(|rest| rest.split([')', ' ']).next().unwrap_or_default());
    let is_named = prose.starts_with('[') && !prose.contains("](");
    let named = prose
        .split_once("]: ")
        .filter(|_| is_named)
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let is_address = |target: &&str| target.contains("://") || target.starts_with("mailto:");
    inline
        .chain(named)
        .filter(|target| !is_address(target))
        .collect()
}

/// The target of a link as a path from the root, empty for the document itself; `None` when it leaves the repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() {
        return Some(String::new());
    }
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The path that a word of code shows, its punctuation and line number apart; `<name>` stands for any one part.
fn as_path(word: &str) -> Option<String> {
    let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || "/._-*<>".contains(c)));
    let word = word.trim_start_matches("./").trim_end_matches('.');
    let path = word.split(':').next().unwrap_or_default();
    if !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let any = |part: &str| {
        if part.starts_with('<') {
            "*".to_owned()
        } else {
            part.to_owned()
        }
    };
    Some(path.split('/').map(any).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = [
            ("docs/A.md", text),
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
        ];
        check(&Workspace::of(&files))
            .iter()
            .map(|finding| format!("{} {}", finding.line, finding.rule))
            .collect()
    }

    #[test]
    fn what_exists_passes() {
        let text = "See [it](../README.md#top), [here](#there), [web](https://x.y/z) and ![a](../crates/a \"b\").\n\
                    `crates/a/src/lib.rs:3`, `crates/<name>/src`, `crates/*`, `and/or`, `[no](link.md)`.\n\
                    [name]: ../README.md\n```\n[no](link.md)\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nothing_fails() {
        assert_eq!(
            found("\n[it](README.md)"),
            ["2 a link points at what exists, and `README.md` does not"]
        );
        assert_eq!(
            found("[it](../../x.md)"),
            ["1 a link points at what exists, and `../../x.md` does not"]
        );
        assert_eq!(
            found("[it]: x.md"),
            ["1 a link points at what exists, and `x.md` does not"]
        );
    }

    #[test]
    fn a_path_that_is_not_there_fails_in_spans_and_fences() {
        assert_eq!(
            found("`crates/b/`,"),
            ["1 a path in a document exists, and `crates/b/` does not"]
        );
        assert_eq!(
            found("```\nrun examples/a.json --out out\n```"),
            ["2 a path in a document exists, and `examples/a.json` does not"],
        );
    }
}
