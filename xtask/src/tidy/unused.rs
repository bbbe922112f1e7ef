//! A dependency that no line of code names is not one.
//!
//! Looks for the name of the crate in the code of the package, which is what an edge is: a manifest alone could keep an
//! allowed edge alive for ever. Versions in the root that no package takes are found in the same way.

use toml::Table;

use crate::finding::Finding;
use crate::source::words;
use crate::workspace::{Package, Workspace, parse};

/// Finds dependencies without a use and versions without a taker.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        for dependency in &package.dependencies {
            let name = dependency.name.replace('-', "_");
            let named = |code: &str| words(code, &name).next().is_some();
            if !workspace
                .sources_of(package)
                .any(|source| named(&source.code))
            {
                findings.push(Finding::new(
                    package.manifest_path(),
                    dependency.line,
                    format!(
                        "`{}` depends on `{}` and never names it",
                        package.name, dependency.name
                    ),
                    "remove the line",
                ));
            }
        }
    }
    for name in root_versions(workspace) {
        let takes = |package: &Package| {
            package.name == name
                || package
                    .dependencies
                    .iter()
                    .any(|dependency| dependency.name == name)
        };
        if !workspace.packages.iter().any(takes) {
            findings.push(Finding::new(
                "Cargo.toml",
                1,
                format!("the root holds a version of `{name}` that no package takes"),
                "remove its line",
            ));
        }
    }
    findings
}

fn root_versions(workspace: &Workspace) -> Vec<String> {
    let root = workspace
        .tree
        .text("Cargo.toml")
        .and_then(|text| parse("Cargo.toml", text).ok());
    let versions = root
        .as_ref()
        .and_then(|root| root.get("workspace")?.get("dependencies")?.as_table());
    versions
        .into_iter()
        .flat_map(Table::keys)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::of(files))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    const MANIFEST: (&str, &str) = (
        "crates/a/Cargo.toml",
        "[package]\nname = \"a\"\n[dependencies]\nhttp-body.workspace = true\n",
    );

    #[test]
    fn a_dependency_that_the_code_names_passes() {
        assert_eq!(
            rules(&[MANIFEST, ("crates/a/src/lib.rs", "use http_body::Body;")]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_comment_or_a_longer_name_is_no_use() {
        let code = "// http_body\nuse http_body_util::Full;";
        assert_eq!(
            rules(&[MANIFEST, ("crates/a/src/lib.rs", code)]),
            ["`a` depends on `http-body` and never names it"],
        );
    }

    #[test]
    fn a_version_that_nobody_takes_fails() {
        let root =
            "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nfail = \"1\"\n";
        assert_eq!(
            rules(&[("Cargo.toml", root)]),
            ["the root holds a version of `fail` that no package takes"],
        );
    }
}
