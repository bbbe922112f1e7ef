//! The table of what is decided, and its properties for whatever is seen.

use proptest::prelude::*;

use super::*;
use crate::deployment::{Definition, WorkerCommand};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

const NOW: i64 = 1_000;

fn definition(min: u32, max: u32) -> Definition {
    let command = WorkerCommand {
        arguments: vec!["x".to_owned(), "{port}".to_owned()],
        environment: BTreeMap::new(),
        folder: None,
        models: None,
    };
    Definition {
        bounds: Bounds { min, max },
        ..Definition::of(WorkerSource::Command(command))
    }
}

/// Revision 1 takes jobs, and revision 2 is started beside it where `next` says so.
fn deployment(min: u32, max: u32, next: bool) -> Deployment {
    let name = "d".parse().expect("a name");
    let made = Deployment::new(name, definition(min, max), at(0));
    let (mut deployment, _) = made.expect("it can be used");
    let ready = DeploymentChange::RevisionReady(RevisionNumber(1));
    deployment.apply(ready, at(0)).expect("it is ready");
    if next {
        let mut changed = definition(min, max);
        changed.idle_window_s = 31;
        let applied = deployment.apply(DeploymentChange::Apply(changed), at(NOW - 10));
        applied.expect("it can be used");
    }
    deployment
}

fn ready(number: u32, jobs: u32, idle_for: i64) -> SeenWorker {
    SeenWorker {
        number,
        revision: RevisionNumber(1),
        phase: WorkerPhase::Ready((jobs == 0).then(|| at(NOW - idle_for))),
        is_draining: false,
        jobs,
    }
}

fn starting(number: u32, for_s: i64) -> SeenWorker {
    SeenWorker {
        phase: WorkerPhase::Starting(at(NOW - for_s)),
        ..ready(number, 0, 0)
    }
}

fn of_revision(revision: u32, worker: SeenWorker) -> SeenWorker {
    SeenWorker {
        revision: RevisionNumber(revision),
        ..worker
    }
}

fn steps_with(
    deployment: &Deployment,
    workers: &[SeenWorker],
    load: (u64, u64),
    failures: &[(u32, u32, i64)],
) -> Vec<Step> {
    let failures = failures.iter().map(|(revision, in_row, ago)| {
        let failed = Failures {
            in_row: *in_row,
            last_at: at(NOW - ago),
            why: "it exits".to_owned(),
        };
        (RevisionNumber(*revision), failed)
    });
    decide(&Seen {
        deployment,
        workers,
        load: Load {
            waiting: load.0,
            longest: Duration::from_secs(load.1),
        },
        failures: &failures.collect(),
        is_woken: false,
        places: 2,
        now: at(NOW),
    })
}

fn steps(deployment: &Deployment, workers: &[SeenWorker], load: (u64, u64)) -> Vec<Step> {
    steps_with(deployment, workers, load, &[])
}

const START: Step = Step::Start(RevisionNumber(1));

#[test]
fn workers_follow_the_jobs_that_wait_between_the_least_and_the_most() {
    for ((min, max), workers, load, expected) in [
        // Nothing waits: the least number is kept.
        ((0, 2), vec![], (0, 0), vec![]),
        ((2, 3), vec![], (0, 0), vec![START, START]),
        ((2, 3), vec![ready(1, 0, 99)], (0, 0), vec![START]),
        // The first worker is started at once, another one only for a job that waited.
        ((0, 2), vec![], (1, 0), vec![START]),
        ((0, 2), vec![starting(1, 9)], (9, 9), vec![START]),
        ((0, 3), vec![ready(1, 2, 0)], (1, 4), vec![]),
        ((0, 3), vec![ready(1, 2, 0)], (1, 5), vec![START]),
        ((0, 9), vec![ready(1, 2, 0)], (4, 5), vec![START, START]),
        ((0, 2), vec![ready(1, 2, 0)], (99, 5), vec![START]),
        ((0, 1), vec![ready(1, 2, 0)], (99, 5), vec![]),
        // What starts already is for those that wait.
        ((0, 9), vec![ready(1, 2, 0), starting(2, 1)], (2, 5), vec![]),
        // Idle ones stop after the window, the longest idle first, and never below the least number.
        ((0, 2), vec![ready(1, 0, 29)], (0, 0), vec![]),
        ((0, 2), vec![ready(1, 0, 30)], (0, 0), vec![Step::Stop(1)]),
        (
            (1, 2),
            vec![ready(1, 0, 30), ready(2, 0, 40)],
            (0, 0),
            vec![Step::Stop(2)],
        ),
        (
            (1, 2),
            vec![ready(1, 1, 0), ready(2, 0, 40)],
            (0, 0),
            vec![Step::Stop(2)],
        ),
        (
            (2, 2),
            vec![ready(1, 0, 99), ready(2, 0, 99)],
            (0, 0),
            vec![],
        ),
        ((0, 2), vec![ready(1, 0, 99)], (1, 0), vec![]),
        // Too many end, and never one with a job at once.
        (
            (0, 1),
            vec![ready(1, 1, 0), ready(2, 0, 1)],
            (0, 0),
            vec![Step::Stop(2)],
        ),
        (
            (0, 1),
            vec![ready(1, 1, 0), ready(2, 2, 0)],
            (0, 0),
            vec![Step::Drain(1)],
        ),
    ] {
        let found = steps(&deployment(min, max, false), &workers, load);
        assert_eq!(found, expected, "{min} to {max}: {workers:?} with {load:?}");
    }
}

#[test]
fn somebody_who_must_know_what_workers_have_wakes_one() {
    let deployment = deployment(0, 2, false);
    let woken = |workers: &[SeenWorker]| {
        decide(&Seen {
            deployment: &deployment,
            workers,
            load: Load::default(),
            failures: &BTreeMap::new(),
            is_woken: true,
            places: 2,
            now: at(NOW),
        })
    };
    assert_eq!(woken(&[]), [START]);
    assert_eq!(woken(&[starting(1, 1)]), []);
}

#[test]
fn a_revision_starts_beside_the_old_one_and_takes_its_place_when_ready() {
    let both = deployment(1, 2, true);
    let old = ready(1, 1, 0);
    assert_eq!(
        steps(&both, &[old], (0, 0)),
        [Step::Start(RevisionNumber(2))]
    );
    let new = of_revision(2, starting(2, 3));
    assert_eq!(steps(&both, &[old, new], (0, 0)), []);
    let new = of_revision(2, ready(2, 0, 0));
    let promoted = DeploymentChange::RevisionReady(RevisionNumber(2));
    assert_eq!(
        steps(&both, &[old, new], (0, 0)),
        [Step::Change(promoted.clone())]
    );
    let mut promoted_to = both.clone();
    promoted_to.apply(promoted, at(NOW)).expect("it is ready");
    assert_eq!(steps(&promoted_to, &[old, new], (0, 0)), [Step::Drain(1)]);
    let draining = SeenWorker {
        is_draining: true,
        ..old
    };
    assert_eq!(steps(&promoted_to, &[draining, new], (0, 0)), []);
    let done = SeenWorker {
        jobs: 0,
        ..draining
    };
    assert_eq!(steps(&promoted_to, &[done, new], (0, 0)), [Step::Stop(1)]);
}

#[test]
fn a_revision_that_is_not_ready_within_its_limit_is_dropped() {
    let mut both = deployment(0, 2, true);
    let new = of_revision(2, starting(2, 9));
    assert_eq!(steps(&both, &[new], (0, 0)), []);
    both.next.as_mut().expect("revision 2").since = at(NOW - 301);
    let dropped = steps_with(&both, &[new], (0, 0), &[(2, 1, 3)]);
    let [Step::Change(DeploymentChange::RevisionFailed(RevisionNumber(2), why))] = &dropped[..]
    else {
        panic!("{dropped:?}");
    };
    assert_eq!(why, "no worker was ready within 300 s: it exits");
}

#[test]
fn failures_are_followed_by_growing_pauses_and_five_of_them_end_it() {
    let failing = deployment(1, 2, false);
    for (in_row, pause) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        let after = |ago| steps_with(&failing, &[], (0, 0), &[(1, in_row, ago)]);
        assert_eq!(
            (after(pause - 1), after(pause)),
            (vec![], vec![START]),
            "{in_row} failures"
        );
    }
    let ended = steps_with(&failing, &[], (0, 0), &[(1, 5, 0)]);
    assert!(
        matches!(
            &ended[..],
            [Step::Change(DeploymentChange::WorkersFailed(_))]
        ),
        "{ended:?}"
    );
    let both = deployment(1, 2, true);
    let ended = steps_with(&both, &[], (0, 0), &[(2, 5, 0)]);
    assert!(
        matches!(
            &ended[..],
            [Step::Change(DeploymentChange::RevisionFailed(..))]
        ),
        "{ended:?}"
    );
    let longest = Failures {
        in_row: 40,
        last_at: at(0),
        why: String::new(),
    };
    assert_eq!(longest.over_at(), at(60));
}

#[test]
fn a_worker_that_hangs_is_started_anew() {
    let current = deployment(1, 1, false);
    assert_eq!(steps(&current, &[starting(1, 300)], (0, 0)), []);
    let late = steps(&current, &[starting(1, 301)], (0, 0));
    assert_eq!(
        late,
        [Step::Fail(1, "it did not answer within 300 s".to_owned())]
    );
    let away = |for_s| SeenWorker {
        phase: WorkerPhase::Away(at(NOW - for_s)),
        ..ready(1, 1, 0)
    };
    assert_eq!(steps(&current, &[away(60)], (0, 0)), []);
    assert_eq!(steps(&current, &[away(61)], (0, 0)).len(), 1);
}

#[test]
fn what_an_operator_stopped_ends_its_jobs_first() {
    let mut stopped = deployment(2, 2, true);
    stopped
        .apply(DeploymentChange::Stop, at(NOW))
        .expect("it runs");
    let workers = [
        ready(1, 1, 0),
        ready(2, 0, 0),
        of_revision(2, starting(3, 1)),
    ];
    let expected = [Step::Drain(1), Step::Stop(2), Step::Stop(3)];
    assert_eq!(steps(&stopped, &workers, (9, 9)), expected);
}

#[test]
fn workers_with_addresses_are_connected_to_and_never_stopped() {
    let urls = ["http://a", "http://b"].map(str::to_owned).to_vec();
    let name = "d".parse().expect("a name");
    let made = Deployment::new(name, Definition::of(WorkerSource::Urls(urls)), at(NOW));
    let (mut elsewhere, _) = made.expect("it can be used");
    assert_eq!(steps(&elsewhere, &[], (0, 0)), [START, START]);
    elsewhere
        .apply(DeploymentChange::RevisionReady(RevisionNumber(1)), at(NOW))
        .expect("it is ready");
    let away = SeenWorker {
        phase: WorkerPhase::Away(at(0)),
        ..ready(1, 0, 0)
    };
    assert_eq!(steps(&elsewhere, &[away, ready(2, 0, 999)], (9, 99)), []);
}

fn any_worker(number: u32) -> impl Strategy<Value = SeenWorker> {
    let phase = prop_oneof![
        (0_i64..400).prop_map(|ago| WorkerPhase::Starting(at(NOW - ago))),
        (0_i64..60).prop_map(|ago| WorkerPhase::Ready(Some(at(NOW - ago)))),
        (0_i64..90).prop_map(|ago| WorkerPhase::Away(at(NOW - ago))),
    ];
    (phase, 1_u32..4, any::<bool>(), 0_u32..3).prop_map(
        move |(phase, revision, is_draining, jobs)| SeenWorker {
            number,
            revision: RevisionNumber(revision),
            phase,
            is_draining,
            jobs,
        },
    )
}

fn any_workers() -> impl Strategy<Value = Vec<SeenWorker>> {
    (0_u32..8).prop_flat_map(|count| (0..count).map(any_worker).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn whatever_is_seen_no_job_is_cut_off_and_the_bounds_hold(
        (min, spare) in (0_u32..4, 0_u32..4),
        next in any::<bool>(),
        workers in any_workers(),
        load in (0_u64..50, 0_u64..20),
    ) {
        let max = (min + spare).max(1);
        let deployment = deployment(min, max, next);
        let found = steps(&deployment, &workers, load);
        let of = |number: &u32| workers.iter().find(|worker| worker.number == *number).expect("it was seen");
        let live = |revision: u32| workers.iter().filter(move |it| it.revision.0 == revision && !it.is_draining).count();
        let starts = |revision: u32| found.iter().filter(|step| **step == Step::Start(RevisionNumber(revision))).count();
        let mut stopped = 0;
        for step in &found {
            match step {
                Step::Stop(number) => {
                    prop_assert_eq!(of(number).jobs, 0);
                    stopped += usize::from(of(number).revision.0 == 1 && !of(number).is_draining);
                }
                Step::Drain(number) => prop_assert!(!of(number).is_draining),
                Step::Fail(number, _) => prop_assert!(!matches!(of(number).phase, WorkerPhase::Ready(_))),
                Step::Start(revision) => prop_assert!(revision.0 <= 2),
                Step::Change(_) => prop_assert_eq!(found.len(), 1),
            }
        }
        let (max, min) = (max as usize, min as usize);
        prop_assert!(starts(1) == 0 || live(1) + starts(1) <= max);
        prop_assert!(starts(2) == 0 || live(2) + starts(2) <= min.max(1));
        prop_assert!(starts(1) == 0 || stopped == 0, "one is stopped while another one is started");
        if stopped > 0 {
            prop_assert!(live(1) - stopped >= min);
        }
    }

    #[test]
    fn steps_that_are_taken_lead_to_rest(
        (min, spare) in (0_u32..4, 0_u32..4),
        workers in any_workers(),
    ) {
        let deployment = deployment(min, (min + spare).max(1), false);
        let mut workers = workers;
        for _ in 0..20 {
            let found = steps(&deployment, &workers, (0, 0));
            if found.is_empty() {
                break;
            }
            for step in found {
                match step {
                    Step::Stop(number) | Step::Fail(number, _) => workers.retain(|it| it.number != number),
                    Step::Drain(number) => {
                        // Its jobs end.
                        for worker in workers.iter_mut().filter(|it| it.number == number) {
                            (worker.is_draining, worker.jobs) = (true, 0);
                        }
                    }
                    Step::Start(_) => {
                        let number = 100 + workers.iter().map(|it| it.number).max().unwrap_or(0);
                        workers.push(ready(number, 0, 0));
                    }
                    Step::Change(_) => prop_assert!(false, "nothing changes the row"),
                }
            }
        }
        prop_assert_eq!(steps(&deployment, &workers, (0, 0)), vec![]);
        let serving = workers.iter().filter(|it| it.revision.0 == 1 && !it.is_draining).count();
        prop_assert!(serving >= min as usize);
    }
}
