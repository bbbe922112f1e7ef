//! The frame of the store on a disk (its directory, its rows and the files of its log) knows nothing that stands on it.
//!
//! Otherwise a family could not be left out, and two modules would need each other to be read.

use crate::finding::Finding;
use crate::source::{segments_behind, words};
use crate::workspace::Workspace;

const STORE: &str = "crates/store-local/src/";

/// The modules of the frame. They may name each other, and nothing else of their crate.
const FRAME: &[&str] = &[
    "clock",
    "columns",
    "database",
    "directory",
    "faults",
    "health",
    "log_files",
    "open_error",
    "reserve",
    "wrong_rows",
];

/// Crates that the frame does not know either.
const FAMILIES: &[&str] = &["router_core", "v1_compat", "workflow_core"];

/// Checks the modules of the frame.
#[must_use]
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &workspace.sources {
        let Some(path) = source.path.strip_prefix(STORE) else {
            continue;
        };
        let module = path.split(['/', '.']).next().unwrap_or_default();
        if !FRAME.contains(&module) {
            continue;
        }
        let own = segments_behind(&source.code, "crate").into_iter();
        let own = own.filter(|(_, name)| !FRAME.contains(name));
        let other = FAMILIES
            .iter()
            .flat_map(|name| words(&source.code, name).map(move |offset| (offset, *name)));
        let found = own
            .chain(other)
            .filter(|(offset, _)| !source.in_tests(*offset));
        findings.extend(found.map(|(offset, name)| {
            Finding::new(
                &source.path,
                source.line(offset),
                format!("the frame of store-local knows no `{name}`"),
                "hand it in as an argument, or make it a `Participant`",
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
    fn the_frame_names_itself_alone() {
        let file = "crates/store-local/src/database/writer.rs";
        assert_eq!(rules(file, "use crate::health::Health;\n"), [""; 0]);
        assert_eq!(
            rules(
                file,
                "use crate::calls::CallLog;\nuse router_core::Calls;\n"
            ),
            [
                "the frame of store-local knows no `calls`",
                "the frame of store-local knows no `router_core`"
            ]
        );
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::schema::SCHEMA;\n}\n";
        assert_eq!(rules(file, tests), [""; 0]);
    }

    #[test]
    fn what_stands_on_it_names_what_it_likes() {
        let file = "crates/store-local/src/calls/log.rs";
        assert_eq!(rules(file, "use crate::accounts::Bill;\n"), [""; 0]);
    }
}
