//! Judges what clients of a pool were told and what its workers ran: pure, so that its tests can show it everything that must not be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::SystemTime;

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A job that was taken in has no end, or is gone.
    Lost,
    /// A job has two ends or one output too many, or ran twice to success without need.
    Doubled,
    /// A success without its output, with another job's, or that no worker had.
    FalseSuccess,
    /// An output that was announced is not there, or has other bytes.
    OutputLost,
    /// A job ended otherwise than it may.
    WrongEnd,
    /// A prompt was stopped that nobody wished to stop.
    WrongInterrupt,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Lost,
        Self::Doubled,
        Self::FalseSuccess,
        Self::OutputLost,
        Self::WrongEnd,
        Self::WrongInterrupt,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::FalseSuccess => "false successes",
            Self::OutputLost => "announced outputs lost",
            Self::WrongEnd => "wrong ends",
            Self::WrongInterrupt => "wrong interrupts",
        }
    }
}

/// Something that must not be, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) kind: Kind,
    pub(super) what: String,
}

/// A file that a client was told of: its id and its hash.
pub(super) type Output = (String, String);

/// A job as its client knows it. Each saves one file.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) id: String,
    /// The name that it saves under, which no other job has.
    pub(super) name: String,
    /// When it was submitted first.
    pub(super) sent: SystemTime,
    /// Whether its client wished to cancel it.
    pub(super) is_unwanted: bool,
    /// The outputs that events announced.
    pub(super) announced: BTreeSet<Output>,
    /// The ends that it was told of.
    pub(super) ends: BTreeSet<String>,
    /// The job in the end; `None` if it was gone.
    pub(super) last: Option<Last>,
}

/// A job as it is shown in the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Last {
    pub(super) status: String,
    /// The code of its error, if it failed.
    pub(super) code: String,
    pub(super) outputs: BTreeSet<Output>,
    /// By id, what was read of the outputs that it shows or announced; nothing of one that is not there.
    pub(super) contents: HashMap<String, Content>,
}

/// A file that was read.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) hash: String,
    pub(super) text: String,
}

/// A prompt at a worker.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// The name that it saves under.
    pub(super) name: String,
    pub(super) began: SystemTime,
    pub(super) end: Option<&'static str>,
    /// When the worker was killed that had it, if it was.
    pub(super) killed: Option<SystemTime>,
}

/// Everything that is judged.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) jobs: Vec<Job>,
    pub(super) runs: Vec<Run>,
    /// The codes with which jobs may fail here.
    pub(super) may_fail: &'static [&'static str],
    /// Whether only a kill takes a worker's memory, so that a success is there as long as its worker lives.
    pub(super) successes_stay: bool,
    /// Interrupts that hit what nobody asked to interrupt, as the workers count them.
    pub(super) wrong_interrupts: usize,
    /// Names of prompts that others gave the workers.
    pub(super) foreign: BTreeSet<String>,
}

/// Everything that must not be.
pub(super) fn check(facts: &Facts) -> Vec<Violation> {
    let mut runs: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &facts.runs {
        runs.entry(&run.name).or_default().push(run);
    }
    let mut found = Vec::new();
    for job in &facts.jobs {
        let own = runs.get(job.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mut report = |kind, what: String| {
            let what = format!("job {} ({}): {what}", job.id, job.name);
            found.push(Violation { kind, what });
        };
        end(facts, job, own, &mut report);
        outputs(job, &mut report);
        if facts.successes_stay {
            runs_once(own, &mut report);
        }
        let interrupted = own.iter().any(|run| run.end == Some("interrupted"));
        if interrupted && !job.is_unwanted && facts.successes_stay {
            report(
                Kind::WrongInterrupt,
                "its prompt was interrupted".to_owned(),
            );
        }
    }
    for name in &facts.foreign {
        let own = runs.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        if !own.iter().any(|run| run.end == Some("success")) {
            let what = format!("the foreign prompt {name} did not succeed: {own:?}");
            let kind = Kind::WrongInterrupt;
            found.push(Violation { kind, what });
        }
    }
    if facts.wrong_interrupts > 0 {
        let what = format!("workers counted {}", facts.wrong_interrupts);
        let kind = Kind::WrongInterrupt;
        found.push(Violation { kind, what });
    }
    found
}

/// A job has one end, and a true one.
fn end(facts: &Facts, job: &Job, runs: &[&Run], report: &mut impl FnMut(Kind, String)) {
    let Some(last) = &job.last else {
        return report(Kind::Lost, "it is gone".to_owned());
    };
    let mut ends = job.ends.clone();
    ends.insert(last.status.clone());
    if ends.len() > 1 {
        report(Kind::Doubled, format!("it ended as {ends:?}"));
    }
    match last.status.as_str() {
        "succeeded" => {
            if !runs.iter().any(|run| run.end == Some("success")) {
                let what = format!("no worker ran it to success: {runs:?}");
                report(Kind::FalseSuccess, what);
            }
            let own = format!("\"{}\"", job.name);
            let is_own = |(id, _): &Output| {
                let content = last.contents.get(id);
                content.is_some_and(|content| content.text.contains(&own))
            };
            if !last.outputs.iter().any(is_own) {
                report(Kind::FalseSuccess, format!("without its output: {last:?}"));
            }
        }
        "canceled" if job.is_unwanted => {}
        "failed" if facts.may_fail.contains(&last.code.as_str()) => {}
        "failed" | "canceled" | "expired" => {
            report(Kind::WrongEnd, format!("{} {}", last.status, last.code));
        }
        status => report(Kind::Lost, format!("it is still {status}")),
    }
}

/// What was announced is there, and nothing twice.
fn outputs(job: &Job, report: &mut impl FnMut(Kind, String)) {
    let Some(last) = &job.last else {
        return;
    };
    if last.outputs.len() > 1 {
        report(
            Kind::Doubled,
            format!("it has {} outputs", last.outputs.len()),
        );
    }
    for (id, hash) in job.announced.union(&last.outputs) {
        match last.contents.get(id) {
            Some(content) if content.hash == *hash => {}
            Some(content) => {
                let what = format!("output {id} was {hash} and is {}", content.hash);
                report(Kind::OutputLost, what);
            }
            None => report(Kind::OutputLost, format!("output {id} is not there")),
        }
        if !last.outputs.iter().any(|(shown, _)| shown == id) {
            report(Kind::OutputLost, format!("output {id} is not shown"));
        }
    }
}

/// A job runs again only once the worker was killed that had it.
fn runs_once(runs: &[&Run], report: &mut impl FnMut(Kind, String)) {
    let mut successes: Vec<&&Run> = runs
        .iter()
        .filter(|run| run.end == Some("success"))
        .collect();
    successes.sort_by_key(|run| run.began);
    for pair in successes.windows(2) {
        let killed_before = pair[0].killed.is_some_and(|killed| killed <= pair[1].began);
        if !killed_before {
            report(Kind::Doubled, format!("it succeeded twice: {pair:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HASH: &str = "blake3:aa";

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    fn success(began: u64, killed: Option<u64>) -> Run {
        Run {
            name: "job-1".to_owned(),
            began: at(began),
            end: Some("success"),
            killed: killed.map(at),
        }
    }

    /// A job that succeeded, and all that belongs to it.
    fn sound() -> Facts {
        let output = ("o".to_owned(), HASH.to_owned());
        let content = Content {
            hash: HASH.to_owned(),
            text: "{\"filename_prefix\":\"job-1\"}".to_owned(),
        };
        let last = Last {
            status: "succeeded".to_owned(),
            outputs: [output.clone()].into(),
            contents: [("o".to_owned(), content)].into(),
            ..Last::default()
        };
        let job = Job {
            id: "1".to_owned(),
            name: "job-1".to_owned(),
            sent: at(0),
            is_unwanted: false,
            announced: [output].into(),
            ends: ["succeeded".to_owned()].into(),
            last: Some(last),
        };
        Facts {
            jobs: vec![job],
            runs: vec![success(1, None)],
            may_fail: &["worker_lost"],
            successes_stay: true,
            ..Facts::default()
        }
    }

    fn found(change: impl FnOnce(&mut Facts)) -> Vec<Kind> {
        let mut facts = sound();
        change(&mut facts);
        let kinds: BTreeSet<Kind> = check(&facts).into_iter().map(|found| found.kind).collect();
        kinds.into_iter().collect()
    }

    fn last(facts: &mut Facts) -> &mut Last {
        facts.jobs[0].last.as_mut().expect("it is there")
    }

    fn ended(facts: &mut Facts, status: &str, code: &str) {
        facts.jobs[0].ends = [status.to_owned()].into();
        facts.jobs[0].announced.clear();
        facts.runs.clear();
        *last(facts) = Last {
            status: status.to_owned(),
            code: code.to_owned(),
            ..Last::default()
        };
    }

    #[test]
    fn a_sound_history_has_nothing_wrong() {
        assert_eq!(found(|_| {}), []);
        assert_eq!(found(|facts| ended(facts, "failed", "worker_lost")), []);
        // Its client missed the announcement, which is nobody's fault.
        assert_eq!(found(|facts| facts.jobs[0].announced.clear()), []);
        // A kill took the first success with it.
        let again = |facts: &mut Facts| facts.runs = vec![success(1, Some(2)), success(3, None)];
        assert_eq!(found(again), []);
        let canceled = |facts: &mut Facts| {
            ended(facts, "canceled", "");
            facts.jobs[0].is_unwanted = true;
        };
        assert_eq!(found(canceled), []);
    }

    #[test]
    fn jobs_without_an_end_are_lost() {
        assert_eq!(found(|facts| facts.jobs[0].last = None), [Kind::Lost]);
        for status in ["queued", "running"] {
            let kinds = found(|facts| {
                ended(facts, status, "");
                facts.jobs[0].ends.clear();
            });
            assert_eq!(kinds, [Kind::Lost]);
        }
    }

    #[test]
    fn two_ends_two_outputs_and_two_needless_successes_are_seen() {
        let two_ends = |facts: &mut Facts| facts.jobs[0].ends.extend(["failed".to_owned()]);
        assert_eq!(found(two_ends), [Kind::Doubled]);
        let two_outputs = |facts: &mut Facts| {
            let content = last(facts).contents["o"].clone();
            last(facts).contents.insert("p".to_owned(), content);
            last(facts)
                .outputs
                .insert(("p".to_owned(), HASH.to_owned()));
        };
        assert_eq!(found(two_outputs), [Kind::Doubled]);
        for killed in [None, Some(4)] {
            let again = |facts: &mut Facts| facts.runs = vec![success(1, killed), success(3, None)];
            assert_eq!(found(again), [Kind::Doubled]);
        }
    }

    #[test]
    fn a_success_needs_a_run_and_its_own_output() {
        let nowhere = |facts: &mut Facts| facts.runs.clear();
        assert_eq!(found(nowhere), [Kind::FalseSuccess]);
        let failed = |facts: &mut Facts| facts.runs[0].end = Some("error");
        assert_eq!(found(failed), [Kind::FalseSuccess]);
        let anothers = |facts: &mut Facts| {
            let content = last(facts).contents.get_mut("o").expect("an output");
            content.text = "{\"filename_prefix\":\"job-11\"}".to_owned();
        };
        assert_eq!(found(anothers), [Kind::FalseSuccess]);
        let empty = |facts: &mut Facts| {
            last(facts).outputs.clear();
            facts.jobs[0].announced.clear();
        };
        assert_eq!(found(empty), [Kind::FalseSuccess]);
    }

    #[test]
    fn what_was_announced_must_be_there_as_it_was() {
        let gone = |facts: &mut Facts| {
            ended(facts, "failed", "worker_lost");
            let output = ("o".to_owned(), HASH.to_owned());
            facts.jobs[0].announced.insert(output);
        };
        assert_eq!(found(gone), [Kind::OutputLost]);
        let other = |facts: &mut Facts| {
            let content = last(facts).contents.get_mut("o").expect("an output");
            content.hash = "blake3:bb".to_owned();
        };
        assert_eq!(found(other), [Kind::OutputLost]);
    }

    #[test]
    fn ends_that_nobody_asked_for_are_seen() {
        assert_eq!(
            found(|facts| ended(facts, "canceled", "")),
            [Kind::WrongEnd]
        );
        assert_eq!(
            found(|facts| ended(facts, "failed", "engine_error")),
            [Kind::WrongEnd]
        );
        let hit = |facts: &mut Facts| {
            let mut run = success(0, None);
            run.end = Some("interrupted");
            facts.runs.push(run);
        };
        assert_eq!(found(hit), [Kind::WrongInterrupt]);
        assert_eq!(
            found(|facts| facts.wrong_interrupts = 1),
            [Kind::WrongInterrupt]
        );
        let foreign = |facts: &mut Facts| facts.foreign.extend(["foreign-1".to_owned()]);
        assert_eq!(found(foreign), [Kind::WrongInterrupt]);
    }
}
