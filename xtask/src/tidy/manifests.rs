//! Manifests say nothing twice: versions, lints and package fields come from the root.

use std::collections::BTreeMap;

use toml::Value;

use crate::finding::Finding;
use crate::workspace::{Package, Workspace};

/// Fields of `[package]` that come from the root.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// Checks what every manifest takes from the root, and that folders and programs have names of their own.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        inheritance(package, &mut findings);
        let folder = package.folder.rsplit('/').next().unwrap_or_default();
        // Cargo wants the folder of whole-system tests to be called `tests`; its package is called `it`.
        if folder != package.name && folder != "tests" {
            findings.push(Finding::new(
                package.manifest_path(),
                1,
                format!(
                    "a folder is called like its package, and `{}` is not",
                    package.name
                ),
                format!("rename the folder to {}", package.name),
            ));
        }
    }
    programs(workspace, &mut findings);
    findings
}

fn inheritance(package: &Package, findings: &mut Vec<Finding>) {
    let path = package.manifest_path();
    let inherits = |value: Option<&Value>| {
        value.and_then(|value| value.get("workspace")?.as_bool()) == Some(true)
    };
    if !inherits(package.manifest.get("lints")) {
        findings.push(Finding::new(
            &path,
            1,
            "every package keeps the lints of the workspace",
            "add `[lints] workspace = true`",
        ));
    }
    for field in INHERITED {
        if !inherits(
            package
                .manifest
                .get("package")
                .and_then(|table| table.get(*field)),
        ) {
            findings.push(Finding::new(
                &path,
                1,
                format!("`{field}` of every package comes from the root"),
                format!("write `{field}.workspace = true`"),
            ));
        }
    }
    for dependency in package
        .dependencies
        .iter()
        .filter(|dependency| !dependency.inherited)
    {
        findings.push(Finding::new(
            &path,
            dependency.line,
            format!(
                "the version of `{}` stands in the root manifest",
                dependency.name
            ),
            format!("write `{}.workspace = true`", dependency.name),
        ));
    }
}

/// Two programs of one name would overwrite each other in the target directory.
fn programs(workspace: &Workspace, findings: &mut Vec<Finding>) {
    let mut seen = BTreeMap::new();
    for package in &workspace.packages {
        for name in program_names(workspace, package) {
            if let Some(first) = seen.insert(name.clone(), &package.name) {
                findings.push(Finding::new(
                    package.manifest_path(),
                    1,
                    format!(
                        "programs have names of their own, and `{name}` is one of `{first}` too"
                    ),
                    "rename one of the two",
                ));
            }
        }
    }
}

fn program_names(workspace: &Workspace, package: &Package) -> Vec<String> {
    let mut names = Vec::new();
    let mut declared_main = false;
    let programs = package.manifest.get("bin").and_then(Value::as_array);
    for program in programs.into_iter().flatten() {
        names.extend(
            program
                .get("name")
                .and_then(Value::as_str)
                .map(str::to_owned),
        );
        declared_main |= program.get("path").and_then(Value::as_str) == Some("src/main.rs");
    }
    if !declared_main
        && workspace
            .tree
            .text(&format!("{}/src/main.rs", package.folder))
            .is_some()
    {
        names.push(package.name.clone());
    }
    let folder = format!("{}/src/bin/", package.folder);
    let files = workspace
        .tree
        .paths()
        .filter_map(|path| path.strip_prefix(&folder)?.strip_suffix(".rs"));
    names.extend(files.filter(|name| !name.contains('/')).map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                        license.workspace = true\npublish.workspace = true\n[lints]\nworkspace = true\n";

    fn rules(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::of(files))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn what_comes_from_the_root_passes() {
        let manifest =
            format!("[package]\nname = \"a\"\n{GOOD}[dependencies]\nx.workspace = true\n");
        assert_eq!(
            rules(&[("crates/a/Cargo.toml", &manifest)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_own_version_lint_or_dependency_fails() {
        let manifest = format!("[package]\nname = \"a\"\n{GOOD}[dependencies]\nx = \"1\"\n")
            .replace(
                "version.workspace = true\nedition",
                "version = \"1\"\nedition",
            )
            .replace("[lints]\nworkspace = true\n", "");
        assert_eq!(
            rules(&[("crates/a/Cargo.toml", &manifest)]),
            [
                "every package keeps the lints of the workspace",
                "`version` of every package comes from the root",
                "the version of `x` stands in the root manifest",
            ],
        );
    }

    #[test]
    fn a_folder_is_called_like_its_package() {
        let manifest = format!("[package]\nname = \"a\"\n{GOOD}");
        assert_eq!(
            rules(&[("crates/b/Cargo.toml", &manifest)]),
            ["a folder is called like its package, and `a` is not"],
        );
    }

    #[test]
    fn two_programs_of_one_name_fail() {
        let a = format!("[package]\nname = \"a\"\n{GOOD}");
        let b = format!(
            "[package]\nname = \"b\"\n{GOOD}[[bin]]\nname = \"a\"\npath = \"src/main.rs\"\n"
        );
        let files = [
            ("bins/a/Cargo.toml", a.as_str()),
            ("bins/a/src/main.rs", ""),
            ("bins/b/Cargo.toml", b.as_str()),
            ("bins/b/src/main.rs", ""),
        ];
        assert_eq!(
            rules(&files),
            ["programs have names of their own, and `a` is one of `a` too"]
        );
    }
}
