//! The fault points of the server, by name.
//!
//! A point is a `fault_point!` in an adapter or a program, compiled in by the feature `failpoints` alone. A campaign
//! arms one of them through `FAILPOINTS`: it lets some hits pass and panics at the next, and a program with the feature
//! aborts at such a panic, whichever thread it is in: nothing is unwound, flushed or answered.

/// Every fault point that a campaign reaches, by the file that has it.
pub const POINTS: &[&str] = &[
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
pub const OF_THE_QUEUE: &[&str] = &["call-enqueue", "call-enqueued"];

/// Those of calls that are served by another partner after a failure, which no campaign makes yet. `router::serving` kills the
/// server around them instead.
pub const OF_FALLBACKS: &[&str] = &["call-serve", "call-served"];

/// Those of webhooks, of which no campaign has any. The tests `webhooks` kill the server at random moments instead.
pub const OF_WEBHOOKS: &[&str] = &["webhook-note", "webhook-written"];

/// Those of results that are kept, which no campaign does. The tests `router::kept` kill the server around them instead.
pub const OF_RESULTS: &[&str] = &["result-note"];

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
    use super::*;

    #[test]
    fn a_point_is_armed_for_one_of_its_hits() {
        assert_eq!(armed("a", 0), "a=panic");
        assert_eq!(armed("a", 3), "a=3*off->panic");
    }
}
