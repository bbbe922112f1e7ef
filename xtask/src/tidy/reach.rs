//! What a program links: the packages of the workspace that it reaches with the features that it asks for.
//!
//! A server of one family links nothing of another one. Reads the manifests as Cargo does where a program is built alone:
//! optional dependencies count if a feature turns them on. `.ci/run` asks Cargo the same.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::finding::Finding;
use crate::workspace::{Package, Workspace};

/// A program, and packages that it must not link.
pub const APART: &[(&str, &[&str])] = &[
    (
        "router-server",
        &[
            "engine-native",
            "images",
            "v1-compat",
            "workflow-core",
            "workflow-http",
        ],
    ),
    (
        "workflow-server",
        &["providers", "router-core", "router-http"],
    ),
];

/// The features that are asked of a package; without one it is linked all the same.
type Reached = BTreeMap<String, BTreeSet<String>>;

/// Checks what the programs reach.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let programs = APART
        .iter()
        .filter(|(program, _)| workspace.has_package(program));
    let mut findings = Vec::new();
    for (program, forbidden) in programs {
        let reached = reach(workspace, program);
        let linked = forbidden.iter().filter(|name| reached.contains_key(**name));
        findings.extend(linked.map(|name| {
            Finding::new(
                format!("bins/{program}/Cargo.toml"),
                1,
                format!("`{program}` links no `{name}`"),
                "put what needs it behind a feature that this program does not ask for",
            )
        }));
    }
    findings
}

/// The packages of the workspace that a program links, with their features.
fn reach(workspace: &Workspace, program: &str) -> Reached {
    let shared = shared_dependencies(workspace);
    let mut reached = Reached::new();
    add(&mut reached, program, ["default".to_owned()]);
    // Features only become more: until nothing does.
    loop {
        let before = reached.clone();
        for (name, features) in &before {
            let Some(package) = workspace
                .packages
                .iter()
                .find(|package| package.name == *name)
            else {
                continue;
            };
            for (dependency, features) in asked(package, features, &shared) {
                if workspace.has_package(&dependency) {
                    add(&mut reached, &dependency, features);
                }
            }
        }
        if reached == before {
            return reached;
        }
    }
}

fn add(reached: &mut Reached, package: &str, features: impl IntoIterator<Item = String>) {
    let known = reached.entry(package.to_owned()).or_default();
    known.extend(features);
}

/// What a package with these features asks of its dependencies.
fn asked(package: &Package, features: &BTreeSet<String>, shared: &Table) -> Reached {
    let mut asked = Reached::new();
    let mut switched_on = BTreeSet::new();
    let table = package.manifest.get("features").and_then(Value::as_table);
    let mut open: Vec<&str> = features.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    while let Some(feature) = open.pop() {
        if !seen.insert(feature) {
            continue;
        }
        let lines = table.and_then(|table| table.get(feature)?.as_array());
        for line in lines.into_iter().flatten().filter_map(Value::as_str) {
            if let Some(name) = line.strip_prefix("dep:") {
                switched_on.insert(name);
            } else if let Some((name, feature)) = line.split_once('/') {
                let name = match name.strip_suffix('?') {
                    Some(name) => name,
                    None => {
                        switched_on.insert(name);
                        name
                    }
                };
                add(&mut asked, name, [feature.to_owned()]);
            } else {
                open.push(line);
            }
        }
    }
    let mut linked = Reached::new();
    for (name, value) in dependencies(&package.manifest) {
        let is_optional = value.get("optional").and_then(Value::as_bool) == Some(true);
        if is_optional && !switched_on.contains(name) && !seen.contains(name) {
            continue;
        }
        let inherits = value.get("workspace").and_then(Value::as_bool) == Some(true);
        let root = shared.get(name).filter(|_| inherits);
        // What the root says of default features holds where a member inherits.
        let defaults = root.unwrap_or(value).get("default-features");
        let has_defaults = defaults.and_then(Value::as_bool) != Some(false);
        add(
            &mut linked,
            name,
            has_defaults.then(|| "default".to_owned()),
        );
        for value in root.into_iter().chain([value]) {
            let features = value.get("features").and_then(Value::as_array);
            let features = features.into_iter().flatten().filter_map(Value::as_str);
            add(&mut linked, name, features.map(str::to_owned));
        }
        add(&mut linked, name, asked.remove(name).unwrap_or_default());
    }
    linked
}

/// The lines of a package's tables of dependencies, those for tests apart.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let tables = tables.filter_map(|table| table.get("dependencies")?.as_table());
    tables.flatten().map(|(name, value)| (name.as_str(), value))
}

/// The dependencies of the root manifest.
fn shared_dependencies(workspace: &Workspace) -> Table {
    let root = workspace.tree.text("Cargo.toml").unwrap_or_default();
    let root: Table = root.parse().unwrap_or_default();
    let shared = root
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    shared
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &str = "[package]\nname = \"store\"\n[features]\ndefault = [\"all\"]\nall = [\"jobs\", \"calls\"]\n\
                         jobs = [\"dep:jobs-core\"]\ncalls = [\"bundle/calls\", \"calls-core?/x\"]\n\
                         [dependencies]\njobs-core = { workspace = true, optional = true }\n\
                         calls-core = { workspace = true, optional = true }\nbundle.workspace = true\n";
    const BUNDLE: &str = "[package]\nname = \"bundle\"\n[features]\ncalls = [\"calls-core\"]\n\
                          [dependencies]\ncalls-core = { workspace = true, optional = true }\n\
                          [dev-dependencies]\njobs-core.workspace = true\n";

    fn linked(program: &str) -> Vec<String> {
        let program = format!("[package]\nname = \"program\"\n[dependencies]\n{program}\n");
        let workspace = Workspace::new(crate::tree::Tree::of(&[
            (
                "Cargo.toml",
                "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nstore = { default-features = false }\n",
            ),
            ("crates/program/Cargo.toml", &program),
            ("crates/store/Cargo.toml", STORE),
            ("crates/bundle/Cargo.toml", BUNDLE),
            (
                "crates/jobs-core/Cargo.toml",
                "[package]\nname = \"jobs-core\"\n",
            ),
            (
                "crates/calls-core/Cargo.toml",
                "[package]\nname = \"calls-core\"\n",
            ),
        ]));
        let reached = reach(&workspace, "program").into_keys();
        reached.filter(|name| name != "program").collect()
    }

    #[test]
    fn optional_dependencies_are_linked_with_their_features_alone() {
        let store = "store = { workspace = true }";
        assert_eq!(linked(store), ["bundle", "store"]);
        let jobs = "store = { workspace = true, features = [\"jobs\"] }";
        assert_eq!(linked(jobs), ["bundle", "jobs-core", "store"]);
        let calls = "store = { workspace = true, features = [\"calls\"] }";
        assert_eq!(linked(calls), ["bundle", "calls-core", "store"]);
        let default = "store = { path = \"../store\" }";
        assert_eq!(
            linked(default),
            ["bundle", "calls-core", "jobs-core", "store"]
        );
    }

    #[test]
    fn a_program_that_links_another_family_is_a_finding() {
        let workspace = Workspace::of(&[
            (
                "bins/router-server/Cargo.toml",
                "[package]\nname = \"router-server\"\n[dependencies]\nimages.workspace = true\n",
            ),
            ("crates/images/Cargo.toml", "[package]\nname = \"images\"\n"),
        ]);
        let rules: Vec<_> = check(&workspace).into_iter().map(|one| one.rule).collect();
        assert_eq!(rules, ["`router-server` links no `images`"]);
    }
}
