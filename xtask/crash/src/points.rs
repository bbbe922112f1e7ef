//! The fault points of the server, by name.
//!
//! A point is a `fault_point!` in an adapter or a program, compiled in by the feature `failpoints` alone. A campaign
//! arms one of them through `FAILPOINTS`: it lets some hits pass and panics at the next, and a program with the feature
//! aborts at such a panic, whichever thread it is in: nothing is unwound, flushed or answered.

/// Every fault point that a campaign reaches, by the file that has it.
pub(super) const POINTS: &[&str] = &[
    "asset-expire",
    "asset-insert",
    "asset-remove",
    "blob-create",
    "blob-delete",
    "blob-folder-open",
    "blob-folder-sync",
    "blob-journaled",
    "blob-placed",
    "blob-rename",
    "blob-sync",
    "blob-write",
    "call-accept",
    "call-accepted",
    "call-claim",
    "call-dispatch",
    "call-dispatched",
    "call-flush",
    "call-flushed",
    "call-log-sync",
    "call-log-write",
    "call-recover",
    "call-settle",
    "call-settled",
    "database-checkpoint",
    "database-commit",
    "database-committed",
    "job-cancel",
    "job-claim",
    "job-claimed",
    "job-end",
    "job-expire",
    "job-insert",
    "job-inserted",
    "job-output",
    "job-progress",
    "job-take-up",
    "replay-append",
    "replay-folder-sync",
    "replay-placed",
    "replay-sync",
];

/// Those of queued calls, which no campaign submits yet. `router::queue` kills the server at random moments instead.
#[cfg(test)]
const OF_THE_QUEUE: &[&str] = &["call-enqueue", "call-enqueued"];

/// Those that are reached where models are called.
pub(super) fn is_of_calls(point: &str) -> bool {
    point.starts_with("call-") || point.starts_with("replay-")
}

/// Those that are reached where something expires.
pub(super) const SWEEP: &[&str] = &["asset-expire", "blob-delete", "job-expire"];

/// Those that a cycle reaches once or twice, if at all.
const RARE: &[&str] = &[
    "asset-remove",
    "call-accept",
    "call-accepted",
    "call-flush",
    "call-flushed",
    "call-recover",
    "database-checkpoint",
    "job-cancel",
    "job-take-up",
    "replay-placed",
];

/// Whether a cycle reaches a point now and then only.
pub(super) fn is_rare(point: &str) -> bool {
    RARE.contains(&point) || SWEEP.contains(&point)
}

/// The value of `FAILPOINTS` that ends the process at the hit of `point` that follows `passing` others.
pub(super) fn armed(point: &str, passing: u64) -> String {
    match passing {
        0 => format!("{point}=panic"),
        _ => format!("{point}={passing}*off->panic"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::source::words;
    use crate::tree::Tree;
    use crate::workspace::Workspace;

    /// The names of all points in the code that ships.
    fn in_the_code() -> BTreeSet<String> {
        let tree = Tree::read(crate::repository_root()).expect("the repository can be read");
        let workspace = Workspace::new(tree);
        let ships = |path: &str| path.starts_with("crates/") || path.starts_with("bins/");
        let mut names = BTreeSet::new();
        for source in workspace
            .sources
            .iter()
            .filter(|source| ships(&source.path))
        {
            let text = workspace.tree.text(&source.path).unwrap_or_default();
            for offset in words(&source.code, "fault_point!") {
                let name = text[offset..].split('"').nth(1);
                names.extend(name.map(str::to_owned));
            }
        }
        names
    }

    #[test]
    fn the_table_lists_every_point_of_the_code_and_no_other() {
        let table = POINTS.iter().chain(OF_THE_QUEUE);
        let table: BTreeSet<String> = table.map(|name| (*name).to_owned()).collect();
        assert_eq!(table, in_the_code());
    }

    #[test]
    fn a_point_is_armed_for_one_of_its_hits() {
        assert_eq!(armed("a", 0), "a=panic");
        assert_eq!(armed("a", 3), "a=3*off->panic");
    }
}
