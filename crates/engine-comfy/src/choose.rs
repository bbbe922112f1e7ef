//! Which worker takes a job, and why the others do not. Pure.
//!
//! A job goes where its model files were used last, unless waiting for that worker costs more than loading them elsewhere:
//! every job ahead counts ten, every second of waiting one, and a cold worker thirty. So nobody waits longer than thirty
//! seconds for a warm worker while a cold one is free.

use std::time::Duration;

use tokio::time::Instant;

use crate::definitions::{Lack, in_words};

/// What a job ahead counts.
const AHEAD: u64 = 10;

/// What a cold worker counts, for a job that names model files.
const COLD: u64 = 30;

/// A worker, as the choice sees it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Why it gets no job now, whatever the job.
    pub(crate) unfit: Option<String>,
    /// What it lacks of what the job needs.
    pub(crate) lacks: Vec<Lack>,
    /// Jobs that it has now.
    pub(crate) ahead: u64,
    /// Whether it may have one more.
    pub(crate) has_place: bool,
    /// Whether it used the job's model files last; always for a job that names none.
    pub(crate) is_warm: bool,
    /// When it last loaded model files, if it did.
    pub(crate) loaded_at: Option<Instant>,
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
pub(crate) fn choose(candidates: &[Candidate], waiting: u64, waited: Duration) -> Choice {
    let fit = || {
        let candidates = candidates.iter().enumerate();
        candidates.filter(|(_, worker)| worker.unfit.is_none() && worker.lacks.is_empty())
    };
    let cost = |(_, worker): &(usize, &Candidate)| {
        let cost = AHEAD * worker.ahead + if worker.is_warm { 0 } else { COLD };
        // Among equal ones that whose models were not needed for longest.
        (cost, worker.loaded_at)
    };
    let Some((position, best)) = fit().min_by_key(cost) else {
        return Choice::Wait;
    };
    if best.has_place {
        return Choice::Take(position);
    }
    let pressure = AHEAD * waiting.saturating_sub(1) + waited.as_secs();
    let free = fit().filter(|(_, worker)| worker.has_place);
    match free.min_by_key(cost) {
        // Among equally warm ones nothing is gained by waiting.
        Some((position, free)) if free.is_warm || pressure >= COLD => Choice::Take(position),
        Some(_) | None => Choice::Wait,
    }
}

/// Why a worker does not take a job now; `None` if it could.
pub(crate) fn explain(worker: &Candidate) -> Option<String> {
    match &worker.unfit {
        Some(why) => Some(why.clone()),
        None if !worker.lacks.is_empty() => Some(format!("missing {}", in_words(&worker.lacks))),
        None if !worker.has_place => Some("full".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(ahead: u64, is_warm: bool) -> Candidate {
        Candidate {
            unfit: None,
            lacks: Vec::new(),
            ahead,
            has_place: ahead < 2,
            is_warm,
            loaded_at: None,
        }
    }

    fn chosen(workers: &[Candidate]) -> Choice {
        choose(workers, 1, Duration::ZERO)
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
        assert_eq!(chosen(&workers), Choice::Wait);
        assert_eq!(choose(&workers, 1, Duration::from_secs(29)), Choice::Wait);
        assert_eq!(
            choose(&workers, 1, Duration::from_secs(30)),
            Choice::Take(1)
        );
        assert_eq!(choose(&workers, 4, Duration::ZERO), Choice::Take(1));
    }

    #[test]
    fn every_worker_that_is_not_used_says_why() {
        let lacking = Candidate {
            lacks: vec![Lack::Class("KSampler".to_owned())],
            ..worker(0, true)
        };
        let away = Candidate {
            unfit: Some("unreachable since 12:00".to_owned()),
            ..worker(0, true)
        };
        assert_eq!(chosen(&[lacking.clone(), away.clone()]), Choice::Wait);
        assert_eq!(explain(&lacking).as_deref(), Some("missing class KSampler"));
        assert_eq!(explain(&away).as_deref(), Some("unreachable since 12:00"));
        assert_eq!(explain(&worker(2, true)).as_deref(), Some("full"));
        assert_eq!(explain(&worker(1, true)), None);
    }

    #[test]
    fn a_thousand_workers_are_looked_through_at_once() {
        let workers: Vec<Candidate> = (0..1000).map(|at| worker(at % 3, at == 600)).collect();
        assert_eq!(chosen(&workers), Choice::Take(600));
    }
}
