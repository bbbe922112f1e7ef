//! The page for operators tells every setting and every metric, and none that is not there.
//!
//! Settings are read where the programs declare their keys, metrics where they are named. Both are looked for in the code
//! of `bins/` and `crates/server-kit/` outside tests; a name counts as told when the page shows it as code in its own backticks.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::source::{Source, words};
use crate::workspace::Workspace;

const PAGE: &str = "docs/OPERATING.md";
/// Where programs declare settings and name metrics.
const PROGRAMS: &[&str] = &["bins/", "crates/server-kit/"];
/// The functions that declare a key of the configuration; the name is their first argument.
const DECLARATIONS: &[&str] = &["value", "unset", "list", "key"];
/// How the names of metrics begin.
const METRICS: &[&str] = &["easel_", "process_"];

/// Compares the page with the code.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(page) = workspace.tree.text(PAGE) else {
        let advice = "tell operators every setting and every metric";
        return vec![Finding::new(PAGE, 1, "a required file is missing", advice)];
    };
    let mut declared = BTreeMap::new();
    for source in &workspace.sources {
        let Some(text) = workspace.tree.text(&source.path) else {
            continue;
        };
        if PROGRAMS
            .iter()
            .any(|folder| source.path.starts_with(folder))
        {
            for (name, line) in settings(source, text)
                .into_iter()
                .chain(metrics(source, text))
            {
                declared.entry(name).or_insert((source.path.as_str(), line));
            }
        }
    }
    let told = told(page);
    let mut findings = Vec::new();
    for (name, (path, line)) in &declared {
        if !told.contains(name.as_str()) {
            let rule = format!("{PAGE} tells every setting and metric, and `{name}` is not in it");
            findings.push(Finding::new(*path, *line, rule, "add its line there"));
        }
    }
    let is_metric = |name: &&&str| METRICS.iter().any(|prefix| name.starts_with(prefix));
    for name in told.iter().filter(is_metric) {
        if !declared.contains_key(*name) {
            let rule = format!("{PAGE} tells metrics that exist, and `{name}` does not");
            findings.push(Finding::new(PAGE, 1, rule, "remove its line"));
        }
    }
    findings
}

/// The names of keys that a file declares, with their lines.
fn settings(source: &Source, text: &str) -> Vec<(String, usize)> {
    if !words(&source.code, "Key")
        .next()
        .is_some_and(|_| source.code.contains("_KEYS"))
    {
        return Vec::new();
    }
    let calls = DECLARATIONS
        .iter()
        .flat_map(|name| words(&source.code, name).map(|offset| offset + name.len()));
    let names = calls
        .filter(|offset| !source.in_tests(*offset))
        .filter_map(|offset| {
            let argument = text.get(offset..)?.strip_prefix('(')?.trim_start();
            let name = argument.strip_prefix('"')?.split('"').next()?;
            Some((name.to_owned(), source.line(offset)))
        });
    names.collect()
}

/// The names of metrics that a file spells, with their lines.
fn metrics(source: &Source, text: &str) -> Vec<(String, usize)> {
    let spelled = METRICS.iter().flat_map(|prefix| {
        let quoted = format!("\"{prefix}");
        let found: Vec<usize> = text
            .match_indices(&quoted)
            .map(|(offset, _)| offset)
            .collect();
        found
    });
    let names = spelled
        .filter(|offset| !source.in_tests(*offset))
        .filter_map(|offset| {
            let name = text[offset + 1..].split('"').next()?;
            let whole = name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            (whole && !name.ends_with('_')).then(|| (name.to_owned(), source.line(offset)))
        });
    names.collect()
}

/// Everything that a page shows as code within a line.
fn told(page: &str) -> BTreeSet<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "use server_kit::Key;\npub const MY_KEYS: &[Key] = &[\n    value(\n        \"listen\",\n        \"A\"),\n    unset(\"token\", \"T\"),\n];\n";
    const SHOWN: &str = "fn f(r: R) { r.register(\"easel_jobs\", \"Jobs\"); }\n#[cfg(test)]\nmod tests { fn g() { h(\"easel_other\"); } }\n";

    fn rules(page: &str) -> Vec<String> {
        let files = [
            ("bins/a/src/config.rs", CONFIG),
            ("bins/a/src/metrics.rs", SHOWN),
            (PAGE, page),
        ];
        check(&Workspace::of(&files))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn a_page_that_tells_everything_passes() {
        assert_eq!(
            rules("| `listen` | `token` | `easel_jobs` |\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_setting_and_a_metric_that_are_not_told_fail() {
        assert_eq!(
            rules("`token`\n"),
            [
                format!("{PAGE} tells every setting and metric, and `easel_jobs` is not in it"),
                format!("{PAGE} tells every setting and metric, and `listen` is not in it"),
            ]
        );
    }

    #[test]
    fn a_metric_that_is_gone_fails() {
        assert_eq!(
            rules("`listen` `token` `easel_jobs` `easel_gone`\n"),
            [format!(
                "{PAGE} tells metrics that exist, and `easel_gone` does not"
            )]
        );
    }

    #[test]
    fn a_repository_without_the_page_fails() {
        assert_eq!(check(&Workspace::of(&[])).len(), 1);
    }
}
