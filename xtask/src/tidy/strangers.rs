//! Modules that do not know each other, and stores that no program knows outside of the file that chooses one.
//!
//! Two modules that name each other have to be read together, and none of them can be left out. A program that names a store in a
//! second place works with that store alone.

use crate::finding::Finding;
use crate::source::{segments_behind, words};
use crate::workspace::Workspace;

/// The sources of a crate, and two of its modules of which none names the other.
const STRANGERS: &[(&str, [&str; 2])] = &[
    ("crates/images/src/", ["codec", "kernel"]),
    ("crates/workflow-http/src/", ["v1", "v2"]),
];

/// The crates that keep an installation.
const STORES: &[&str] = &["store_cloud", "store_local"];

/// The file of a program that chooses a store.
const CHOICE: &str = "/src/store.rs";

/// Checks the modules of both tables.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = modules(workspace);
    findings.extend(programs(workspace));
    findings
}

fn modules(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let place = STRANGERS.iter().find_map(|(folder, pair)| {
            let path = source.path.strip_prefix(folder)?;
            let module = path.split(['/', '.']).next()?;
            let own = pair.iter().position(|name| *name == module)?;
            Some((pair[own], pair[1 - own]))
        });
        let Some((module, other)) = place else {
            continue;
        };
        let roots = ["crate", "super"].into_iter();
        let named = roots.flat_map(|root| segments_behind(&source.code, root));
        let named = named.filter(|(offset, name)| *name == other && !source.in_tests(*offset));
        findings.extend(named.map(|(offset, _)| {
            Finding::new(
                &source.path,
                source.line(offset),
                format!("`{module}` and `{other}` do not know each other"),
                "put what both need above or below the two",
            )
        }));
    }
    findings
}

fn programs(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let is_program = source.path.starts_with("bins/") && source.path.contains("/src/");
        if !is_program || source.path.ends_with(CHOICE) {
            continue;
        }
        let stores = STORES.iter();
        let named = stores
            .flat_map(|store| words(&source.code, store).map(move |offset| (offset, *store)))
            .filter(|(offset, _)| !source.in_tests(*offset));
        findings.extend(named.map(|(offset, store)| {
            Finding::new(
                &source.path,
                source.line(offset),
                format!("a program names `{store}` in its `store.rs` alone"),
                "work with the ports of `Installation`",
            )
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, code: &str) -> Vec<String> {
        check(&Workspace::of(&[(path, code)]))
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn strangers_do_not_name_each_other() {
        for (path, code) in [
            (
                "crates/images/src/codec/png.rs",
                "use crate::{kernel::resize, pixels};\n",
            ),
            (
                "crates/images/src/kernel.rs",
                "fn a() {\n    super::codec::b();\n}\n",
            ),
        ] {
            let found = rules(path, code);
            assert_eq!(found.len(), 1, "{path}");
            assert!(found[0].ends_with("do not know each other"), "{found:?}");
        }
        assert_eq!(
            rules(
                "crates/workflow-http/src/v2/mod.rs",
                "use crate::v1::Page;\n"
            ),
            ["`v2` and `v1` do not know each other"]
        );
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::kernel::resize;\n}\n";
        assert_eq!(rules("crates/images/src/codec/png.rs", tests), [""; 0]);
        for (path, code) in [
            (
                "crates/images/src/codec/png.rs",
                "use crate::pixels::Frame;\n",
            ),
            ("crates/images/src/lib.rs", "use crate::{codec, kernel};\n"),
            ("crates/workflow-http/src/api.rs", "use crate::v1::Page;\n"),
        ] {
            assert_eq!(rules(path, code), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_program_names_a_store_in_one_file() {
        let code = "fn a() -> store_local::LocalStore {\n    b()\n}\n";
        assert_eq!(rules("bins/a/src/store.rs", code), [""; 0]);
        assert_eq!(
            rules("bins/a/src/app.rs", code),
            ["a program names `store_local` in its `store.rs` alone"]
        );
        assert_eq!(rules("crates/a/src/app.rs", code), [""; 0]);
    }
}
