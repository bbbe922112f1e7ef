//! Which worker takes a job, and why the others do not. Pure.
//!
//! A job goes where its model files were used last, unless waiting for that worker costs more than loading them elsewhere:
//! every job ahead counts ten, every second of waiting one, and a cold worker thirty. So nobody waits longer than thirty
//! seconds for a warm worker while a cold one is free.

use std::time::Duration;

use crate::definitions::{Lack, in_words};

/// What a job ahead counts.
const AHEAD: u64 = 10;

/// What a cold worker counts, for a job that names model files.
const COLD: u64 = 30;

/// A worker, as the choice sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Whether it may have the job at all: it answers, and has what the job needs.
    pub(crate) is_fit: bool,
    /// Whether it just failed at this job: it is asked again only if no other one is fit.
    pub(crate) is_avoided: bool,
    /// Jobs that it has now.
    pub(crate) ahead: u64,
    /// Whether it may have one more.
    pub(crate) has_place: bool,
    /// Whether the job before this one uses the same model files; always for a job that names none.
    pub(crate) is_warm: bool,
    /// Grows with every use of model files at any worker; 0 if it used none.
    pub(crate) used: u64,
}

/// What is to be done with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The worker at this position takes it.
    Take(usize),
    /// It waits for a worker.
    Wait,
}

/// Chooses a worker for a job that has waited for so long, as one of `waiting` with the same model files.
pub(crate) fn choose(
    candidates: impl IntoIterator<Item = Candidate>,
    waiting: u64,
    waited: Duration,
) -> Choice {
    // What each would cost; among equal ones that whose models were not needed for longest.
    let cost = |worker: &Candidate| {
        let cost = AHEAD * worker.ahead + if worker.is_warm { 0 } else { COLD };
        (worker.is_avoided, cost, worker.used)
    };
    let is_better = |one: &Candidate, than: &Option<(usize, Candidate)>| {
        than.as_ref().is_none_or(|(_, than)| cost(one) < cost(than))
    };
    let (mut best, mut free) = (None, None);
    for (position, worker) in candidates.into_iter().enumerate() {
        if !worker.is_fit {
            continue;
        }
        if is_better(&worker, &best) {
            best = Some((position, worker));
        }
        if worker.has_place && is_better(&worker, &free) {
            free = Some((position, worker));
        }
    }
    let (Some((_, best)), Some((position, free))) = (best, free) else {
        return Choice::Wait;
    };
    let pressure = AHEAD * waiting.saturating_sub(1) + waited.as_secs();
    // Among equally warm ones nothing is gained by waiting.
    let is_soon_enough = best.has_place || free.is_warm || pressure >= COLD;
    match is_soon_enough && free.is_avoided == best.is_avoided {
        true => Choice::Take(position),
        false => Choice::Wait,
    }
}

/// Why a worker does not take a job now, of what is against it whatever the job is, what it lacks, and whether it has a place;
/// `None` if it could.
pub(crate) fn explain(unfit: Option<String>, lacks: &[Lack], has_place: bool) -> Option<String> {
    match unfit {
        Some(why) => Some(why),
        None if !lacks.is_empty() => Some(format!("missing {}", in_words(lacks))),
        None if !has_place => Some("full".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(ahead: u64, is_warm: bool) -> Candidate {
        Candidate {
            is_fit: true,
            is_avoided: false,
            ahead,
            has_place: ahead < 2,
            is_warm,
            used: 0,
        }
    }

    fn chosen(workers: &[Candidate]) -> Choice {
        choose(workers.iter().copied(), 1, Duration::ZERO)
    }

    #[test]
    fn a_warm_worker_is_preferred_and_a_free_one_among_equals() {
        assert_eq!(
            chosen(&[worker(0, false), worker(1, true)]),
            Choice::Take(1)
        );
        assert_eq!(chosen(&[worker(1, true), worker(0, true)]), Choice::Take(1));
        assert_eq!(chosen(&[worker(2, true), worker(1, true)]), Choice::Take(1));
        assert_eq!(chosen(&[]), Choice::Wait);
    }

    #[test]
    fn a_cold_worker_is_warmed_when_waiting_costs_more_than_loading() {
        let workers = [worker(2, true), worker(0, false)];
        let after = |waiting, seconds| choose(workers, waiting, Duration::from_secs(seconds));
        assert_eq!(after(1, 0), Choice::Wait);
        assert_eq!(after(1, 29), Choice::Wait);
        assert_eq!(after(1, 30), Choice::Take(1));
        assert_eq!(after(4, 0), Choice::Take(1));
    }

    #[test]
    fn a_worker_that_failed_is_asked_again_only_if_no_other_one_is_fit() {
        let failed = Candidate {
            is_avoided: true,
            ..worker(0, true)
        };
        let unfit = Candidate {
            is_fit: false,
            ..worker(0, true)
        };
        assert_eq!(chosen(&[failed, worker(1, false)]), Choice::Take(1));
        assert_eq!(chosen(&[failed, worker(2, true)]), Choice::Wait);
        assert_eq!(chosen(&[failed, unfit]), Choice::Take(0));
        assert_eq!(chosen(&[unfit]), Choice::Wait);
    }

    #[test]
    fn every_worker_that_is_not_used_says_why() {
        let lacks = [Lack::Class("KSampler".to_owned())];
        let why = |unfit: Option<&str>, lacks, has_place| {
            explain(unfit.map(str::to_owned), lacks, has_place)
        };
        assert_eq!(
            why(None, &lacks, true).as_deref(),
            Some("missing class KSampler")
        );
        let away = Some("unreachable since 12:00");
        assert_eq!(why(away, &lacks, true).as_deref(), away);
        assert_eq!(why(None, &[], false).as_deref(), Some("full"));
        assert_eq!(why(None, &[], true), None);
    }

    #[test]
    fn a_thousand_workers_are_looked_through_at_once() {
        let workers: Vec<Candidate> = (0..1000).map(|at| worker(at % 3, at == 600)).collect();
        assert_eq!(chosen(&workers), Choice::Take(600));
    }
}
