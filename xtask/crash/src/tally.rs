//! What a campaign counts, and the invariants that it may find broken.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::money::Counted;
use super::schedule::LaneInstallation;

/// The kinds of broken invariants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Something acknowledged is not there, or is another thing.
    Lost,
    /// Two jobs where there may be one.
    Duplicated,
    /// Bytes can be read that are not the whole file.
    Partial,
    /// Something deleted is there again.
    Revived,
    /// A terminal job changed its status or has fewer outputs than before.
    Shrunk,
    /// A job does not end.
    Endless,
    /// The ledger, the reports and the partner do not agree.
    Money,
    /// The database is damaged.
    Damaged,
    /// The server does not start, or starts slowly.
    Start,
    /// The server failed without being told to: a 5xx, or it went away.
    Fault,
}

/// One broken invariant, and where.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) kind: Kind,
    /// What exactly.
    pub(super) what: String,
}

/// A violation with everything that one needs to replay it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) seed: u64,
    pub(super) place: LaneInstallation,
    pub(super) cycle: u64,
    pub(super) violation: Violation,
    /// Where the data directory was kept.
    pub(super) kept: String,
}

/// Counts of an installation or of a whole campaign.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) cycles: u64,
    pub(super) kills: u64,
    pub(super) kills_at_start: u64,
    /// By fault point: how often armed, and how often the process ended there.
    pub(super) points: BTreeMap<&'static str, (u64, u64)>,
    pub(super) acknowledged_jobs: u64,
    pub(super) acknowledged_uploads: u64,
    pub(super) acknowledged_deletions: u64,
    pub(super) acknowledged_calls: u64,
    /// Submissions that partners have read.
    pub(super) dispatches: u64,
    pub(super) acknowledged_prompts: u64,
    pub(super) user_files: u64,
    /// How often the reports of money were compared.
    pub(super) money_checks: u64,
    /// What they said at the end of each installation.
    pub(super) money: Counted,
    pub(super) checked_outputs: u64,
    pub(super) database_checks: u64,
    pub(super) slowest_start: Duration,
    pub(super) violations: Vec<Found>,
}

impl Violation {
    pub(super) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            place,
            cycle,
            violation,
            kept,
        } = self;
        write!(
            f,
            "{:?}: {}; seed {seed}, installation {place}, cycle {cycle}; replay with `--seed {seed} --replay {place}`, its directory is {kept}",
            violation.kind, violation.what
        )
    }
}

impl Tally {
    /// Adds the counts of an installation.
    pub(super) fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.kills += other.kills;
        self.kills_at_start += other.kills_at_start;
        for (name, (armed, reached)) in &other.points {
            let point = self.points.entry(name).or_default();
            point.0 += armed;
            point.1 += reached;
        }
        self.acknowledged_jobs += other.acknowledged_jobs;
        self.acknowledged_uploads += other.acknowledged_uploads;
        self.acknowledged_deletions += other.acknowledged_deletions;
        self.acknowledged_calls += other.acknowledged_calls;
        self.dispatches += other.dispatches;
        self.acknowledged_prompts += other.acknowledged_prompts;
        self.user_files += other.user_files;
        self.money_checks += other.money_checks;
        self.money.billed_cents += other.money.billed_cents;
        self.money.unknown += other.money.unknown;
        self.money.unknown_cents += other.money.unknown_cents;
        self.checked_outputs += other.checked_outputs;
        self.database_checks += other.database_checks;
        self.slowest_start = self.slowest_start.max(other.slowest_start);
        self.violations.extend(other.violations.iter().cloned());
    }

    pub(super) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Whether that many installations have violations of this kind.
    pub(super) fn has_everywhere(&self, kind: Kind, installations: usize) -> bool {
        let same = self.violations.iter();
        let same = same.filter(|found| found.violation.kind == kind);
        let mut places: Vec<String> = same.map(|found| found.place.to_string()).collect();
        places.sort_unstable();
        places.dedup();
        places.len() == installations
    }

    fn count(&self, kind: Kind) -> usize {
        let same = |found: &&Found| found.violation.kind == kind;
        self.violations.iter().filter(same).count()
    }

    /// How far the campaign is, in a few words.
    pub(super) fn progress(&self) -> String {
        format!(
            "{} cycles, {} acknowledged jobs, {} violations",
            self.cycles,
            self.acknowledged_jobs,
            self.violations.len()
        )
    }

    /// The whole result in one line.
    pub(super) fn summary(&self, seed: u64) -> String {
        let (lost, duplicated, partial, money) = (
            self.count(Kind::Lost),
            self.count(Kind::Duplicated),
            self.count(Kind::Partial),
            self.count(Kind::Money),
        );
        let other = self.violations.len() - lost - duplicated - partial - money;
        let points: Vec<String> = self
            .points
            .iter()
            .map(|(name, (armed, reached))| format!("{name} {reached}/{armed}"))
            .collect();
        format!(
            "crash: seed={seed} cycles={} kills={} kills_at_start={} points=[{}] acked_jobs={} acked_uploads={} acked_deletions={} \
             acked_calls={} dispatches={} money_checks={} billed_cents={} unknown_outcomes={} unknown_cents={} acked_prompts={} user_files={} \
             checked_outputs={} database_checks={} slowest_start_ms={} \
             lost={lost} duplicated={duplicated} partial={partial} money={money} other={other}",
            self.cycles,
            self.kills,
            self.kills_at_start,
            points.join(", "),
            self.acknowledged_jobs,
            self.acknowledged_uploads,
            self.acknowledged_deletions,
            self.acknowledged_calls,
            self.dispatches,
            self.money_checks,
            self.money.billed_cents,
            self.money.unknown,
            self.money.unknown_cents,
            self.acknowledged_prompts,
            self.user_files,
            self.checked_outputs,
            self.database_checks,
            self.slowest_start.as_millis(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installation(kinds: &[Kind]) -> Tally {
        let found = |kind: &Kind| Found {
            seed: 7,
            place: LaneInstallation {
                lane: 0,
                installation: 1,
            },
            cycle: 3,
            violation: Violation::new(*kind, "a job"),
            kept: "kept".to_owned(),
        };
        Tally {
            cycles: 10,
            points: BTreeMap::from([("blob-sync", (2, 1))]),
            violations: kinds.iter().map(found).collect(),
            ..Tally::default()
        }
    }

    #[test]
    fn installations_add_up() {
        let mut whole = Tally::default();
        whole.add(&installation(&[]));
        assert!(whole.is_clean());
        whole.add(&installation(&[Kind::Lost, Kind::Endless]));
        assert!(!whole.is_clean());
        assert!(whole.has_everywhere(Kind::Lost, 1) && !whole.has_everywhere(Kind::Lost, 2));
        assert!(!whole.has_everywhere(Kind::Money, 1));
        let summary = whole.summary(7);
        for part in [
            "seed=7 cycles=20 ",
            "[blob-sync 2/4]",
            "lost=1 duplicated=0 partial=0 money=0 other=1",
        ] {
            assert!(summary.contains(part), "{summary}");
        }
    }

    #[test]
    fn a_finding_says_how_to_replay_it() {
        let found = installation(&[Kind::Lost]).violations.remove(0).to_string();
        assert!(found.contains("--seed 7 --replay 0.1"), "{found}");
    }
}
