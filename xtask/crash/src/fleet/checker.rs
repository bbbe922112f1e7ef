//! Judges a history: pure, so that its tests can show it every kind of history that must not be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::audit::{Bill, Change};
use super::history::{Event, Observation, is_over};

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Something that was acknowledged is not there.
    Lost,
    /// Something was done twice, or is two things.
    Doubled,
    /// A call was billed twice, never, or otherwise than the partner says.
    Bill,
    /// More at a time than the limit.
    Overshoot,
    /// A later answer takes back what an earlier one said.
    Backwards,
    /// The database took a write of a claim that did not count any more.
    Zombie,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Lost,
        Self::Doubled,
        Self::Bill,
        Self::Overshoot,
        Self::Backwards,
        Self::Zombie,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "done twice",
            Self::Bill => "billed wrongly",
            Self::Overshoot => "limits overshot",
            Self::Backwards => "taken back",
            Self::Zombie => "writes of zombies",
        }
    }
}

/// Something that must not be, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) kind: Kind,
    pub(super) what: String,
}

/// A submission that the partner has read.
#[derive(Debug, Clone)]
pub(super) struct Dispatched {
    /// The key of its call, which begins with the account and a dash.
    pub(super) key: String,
    /// The generation, in digits alone.
    pub(super) generation: String,
    pub(super) cents: i64,
    pub(super) result: Vec<u8>,
    /// From when to when the partner worked on it; open while nobody fetched the result.
    pub(super) began: Instant,
    pub(super) ended: Option<Instant>,
    /// Of a task that the program has no handle of: when it ended the call with an unknown outcome.
    pub(super) given_up: Option<Instant>,
}

/// Everything that is judged.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) events: Vec<Event>,
    pub(super) changes: Vec<Change>,
    pub(super) dispatched: Vec<Dispatched>,
    pub(super) bills: Vec<Bill>,
    /// How many jobs of an account may run at a time, and how many of its calls.
    pub(super) running_jobs: usize,
    pub(super) calls_in_flight: usize,
}

/// Everything that must not be.
pub(super) fn check(facts: &Facts) -> Vec<Violation> {
    let mut found = Vec::new();
    submissions(facts, &mut found);
    statuses(facts, &mut found);
    reads(facts, &mut found);
    calls(facts, &mut found);
    in_flight(facts, &mut found);
    writes(facts, &mut found);
    found
}

fn report(found: &mut Vec<Violation>, kind: Kind, what: String) {
    found.push(Violation { kind, what });
}

/// A key is one job, and an acknowledged job is there and over in the end.
fn submissions(facts: &Facts, found: &mut Vec<Violation>) {
    let mut of_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut finals: HashMap<&str, &str> = HashMap::new();
    let mut acknowledged: BTreeSet<&str> = BTreeSet::new();
    for event in &facts.events {
        match &event.told {
            Observation::Submitted { key, job } => {
                of_key.entry(key).or_default().insert(job);
                acknowledged.insert(job);
            }
            Observation::Final { job, status } => {
                finals.insert(job, status);
            }
            Observation::Missing { job } => {
                report(found, Kind::Lost, format!("job {job} was missing"))
            }
            Observation::Seen { .. }
            | Observation::Cancelled { .. }
            | Observation::Uploaded { .. }
            | Observation::Read { .. }
            | Observation::Called { .. } => {}
        }
    }
    for (key, jobs) in of_key {
        if jobs.len() > 1 {
            report(found, Kind::Doubled, format!("key {key} is {jobs:?}"));
        }
    }
    for job in acknowledged {
        match finals.get(job) {
            Some(status) if is_over(status) => {}
            status => report(
                found,
                Kind::Lost,
                format!("job {job} was acknowledged and is {status:?} in the end"),
            ),
        }
    }
}

/// A job as an answer showed it.
struct Seen<'a> {
    began: Duration,
    ended: Duration,
    status: &'a str,
    outputs: &'a [String],
}

/// What is over stays as it is: for every answer to a request that was sent after that was known.
fn statuses(facts: &Facts, found: &mut Vec<Violation>) {
    let mut of_job: BTreeMap<&str, Vec<Seen<'_>>> = BTreeMap::new();
    for event in &facts.events {
        if let Observation::Seen {
            job,
            status,
            outputs,
        } = &event.told
        {
            let (began, ended) = (event.began, event.ended);
            of_job.entry(job).or_default().push(Seen {
                began,
                ended,
                status,
                outputs,
            });
        }
    }
    for (job, all) in of_job {
        let over = all.iter().filter(|seen| is_over(seen.status));
        let Some(first) = over.min_by_key(|seen| seen.ended) else {
            continue;
        };
        for seen in &all {
            let is_other = (seen.status, seen.outputs) != (first.status, first.outputs);
            if is_other && (seen.began > first.ended || is_over(seen.status)) {
                let what = format!(
                    "job {job} was {} {:?}, and is {} {:?}",
                    first.status, first.outputs, seen.status, seen.outputs
                );
                report(found, Kind::Backwards, what);
            }
        }
    }
}

/// What was acknowledged can be read, byte for byte.
fn reads(facts: &Facts, found: &mut Vec<Violation>) {
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for event in &facts.events {
        if let Observation::Read { asset, is_whole } = &event.told {
            read.insert(asset);
            if !is_whole {
                report(found, Kind::Lost, format!("{asset} is not what it was"));
            }
        }
    }
    for event in &facts.events {
        if let Observation::Uploaded { asset } = &event.told
            && !read.contains(asset.as_str())
        {
            report(found, Kind::Lost, format!("{asset} was never read again"));
        }
    }
}

/// A key is dispatched once, answered alike, and billed as the partner says exactly if it was answered with a result.
fn calls(facts: &Facts, found: &mut Vec<Violation>) {
    let mut answers: BTreeMap<&str, BTreeSet<(u16, &[u8])>> = BTreeMap::new();
    for event in &facts.events {
        if let Observation::Called { key, status, body } = &event.told {
            answers.entry(key).or_default().insert((*status, body));
        }
    }
    let mut of_key: BTreeMap<&str, Vec<&Dispatched>> = BTreeMap::new();
    for dispatch in &facts.dispatched {
        of_key.entry(&dispatch.key).or_default().push(dispatch);
    }
    for (key, answers) in &answers {
        if answers.len() > 1 {
            report(found, Kind::Doubled, format!("call {key} had two answers"));
        }
        for (_, body) in answers.iter().filter(|(status, _)| *status == 200) {
            let made = of_key.get(key).into_iter().flatten();
            if !made.clone().any(|dispatch| dispatch.result == **body) {
                let what = format!("call {key} was answered with no result of the partner");
                report(found, Kind::Lost, what);
            }
        }
    }
    let mut billed: HashMap<&str, Vec<i64>> = HashMap::new();
    for bill in &facts.bills {
        billed.entry(&bill.generation).or_default().push(bill.cents);
    }
    let known: BTreeSet<&str> = facts
        .dispatched
        .iter()
        .map(|dispatch| dispatch.generation.as_str())
        .collect();
    for generation in billed.keys().filter(|name| !known.contains(**name)) {
        let what = format!("generation {generation} was billed and never dispatched");
        report(found, Kind::Bill, what);
    }
    for (key, dispatches) in of_key {
        if dispatches.len() > 1 {
            let what = format!("call {key} was dispatched {} times", dispatches.len());
            report(found, Kind::Doubled, what);
        }
        let is_answered =
            |answers: &BTreeSet<(u16, &[u8])>| answers.iter().any(|(status, _)| *status == 200);
        let has_result = answers.get(key).is_some_and(is_answered);
        for dispatch in dispatches {
            let bills = billed.get(dispatch.generation.as_str());
            let bills = bills.map_or(&[][..], Vec::as_slice);
            let is_right = match has_result {
                true => bills == [dispatch.cents],
                false => bills.is_empty(),
            };
            if !is_right {
                let what = format!(
                    "call {key} costs {} cents, was {} and billed {bills:?}",
                    dispatch.cents,
                    if has_result {
                        "answered"
                    } else {
                        "not answered"
                    },
                );
                report(found, Kind::Bill, what);
            }
        }
    }
}

/// Calls of an account that the partner works on, and claims of an account, stay within their bounds.
fn in_flight(facts: &Facts, found: &mut Vec<Violation>) {
    let mut moments: Vec<(Instant, bool, &Dispatched)> = Vec::new();
    for dispatch in &facts.dispatched {
        // A program that cannot ask after a task cannot keep its room until the partner is done with it, only until it gives it up.
        let ends = [dispatch.ended, dispatch.given_up];
        if let Some(ended) = ends.into_iter().flatten().min() {
            // An end at the instant of a beginning comes first.
            moments.push((dispatch.began, true, dispatch));
            moments.push((ended, false, dispatch));
        }
    }
    moments.sort_unstable_by_key(|(at, begins, _)| (*at, *begins));
    let calls = moments.iter().map(|(_, begins, dispatch)| Moment {
        account: dispatch.key.split('-').next().unwrap_or_default(),
        name: &dispatch.generation,
        begins: *begins,
    });
    peaks(calls, facts.calls_in_flight, "calls", found);
    let claims = facts.changes.iter().filter_map(|change| match change {
        Change::Claimed { account, job, .. } => Some((account, job, true)),
        Change::Left { account, job } => Some((account, job, false)),
        Change::Saved { .. } => None,
    });
    let claims = claims.map(|(account, name, begins)| Moment {
        account,
        name,
        begins,
    });
    peaks(claims, facts.running_jobs, "jobs", found);
}

/// The beginning or the end of something that takes room of an account.
struct Moment<'a> {
    account: &'a str,
    name: &'a str,
    begins: bool,
}

fn peaks<'a>(
    moments: impl Iterator<Item = Moment<'a>>,
    bound: usize,
    what: &str,
    found: &mut Vec<Violation>,
) {
    // One claim of a job may begin before the one before has left.
    let mut now: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut peak: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for moment in moments {
        let names = now.entry(moment.account).or_default();
        if moment.begins {
            names.push(moment.name);
        } else if let Some(place) = names.iter().position(|name| *name == moment.name) {
            names.remove(place);
        }
        let peak = peak.entry(moment.account).or_default();
        if names.len() > peak.len() {
            peak.clone_from(names);
        }
    }
    for (account, names) in peak.into_iter().filter(|(_, names)| names.len() > bound) {
        let what = format!(
            "{account} had {} {what} at a time, {names:?}; {bound} are allowed",
            names.len()
        );
        report(found, Kind::Overshoot, what);
    }
}

/// Each claim of a job has an epoch of its own, its revisions follow one another, and nothing follows its end.
fn writes(facts: &Facts, found: &mut Vec<Violation>) {
    let mut claimed: BTreeSet<(&str, i64)> = BTreeSet::new();
    let mut last: HashMap<&str, (i64, &str, i64)> = HashMap::new();
    for change in &facts.changes {
        match change {
            Change::Claimed { job, epoch, .. } => {
                if !claimed.insert((job, *epoch)) {
                    let what = format!("job {job} was claimed twice with epoch {epoch}");
                    report(found, Kind::Doubled, what);
                }
            }
            Change::Saved {
                job,
                revision,
                status,
                epoch,
            } => {
                let before = last.insert(job, (*revision, status, *epoch));
                let Some((known, was, counts)) = before else {
                    continue;
                };
                let is_next = *revision == known + 1 && *epoch >= counts && !is_over(was);
                if !is_next {
                    let what = format!(
                        "job {job} was {was} at revision {known} of epoch {counts}, then {status} at {revision} of {epoch}"
                    );
                    report(found, Kind::Zombie, what);
                }
            }
            Change::Left { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
