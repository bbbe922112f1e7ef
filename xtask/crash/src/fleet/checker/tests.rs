//! Histories that must not be, each of which the checker has to notice, and one that may be.

use super::*;

fn event(began: u64, ended: u64, told: Observation) -> Event {
    Event {
        began: Duration::from_millis(began),
        ended: Duration::from_millis(ended),
        told,
    }
}

fn seen(began: u64, ended: u64, status: &str, outputs: &[&str]) -> Event {
    let told = Observation::Seen {
        job: "j".to_owned(),
        status: status.to_owned(),
        outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
    };
    event(began, ended, told)
}

fn called(key: &str, status: u16, body: &[u8]) -> Event {
    let told = Observation::Called {
        key: key.to_owned(),
        status,
        body: body.to_vec(),
    };
    event(0, 9, told)
}

fn submitted(key: &str, job: &str) -> Event {
    let (key, job) = (key.to_owned(), job.to_owned());
    event(0, 1, Observation::Submitted { key, job })
}

fn saved(revision: i64, status: &str, epoch: i64) -> Change {
    Change::Saved {
        job: "j".to_owned(),
        revision,
        status: status.to_owned(),
        epoch,
    }
}

fn claimed(job: &str, epoch: i64) -> Change {
    Change::Claimed {
        job: job.to_owned(),
        account: "acme".to_owned(),
        epoch,
    }
}

fn dispatched(key: &str, generation: &str, start: Instant, from: u64, to: u64) -> Dispatched {
    Dispatched {
        key: key.to_owned(),
        generation: generation.to_owned(),
        cents: 7,
        result: b"made".to_vec(),
        began: start + Duration::from_millis(from),
        ended: Some(start + Duration::from_millis(to)),
        given_up: None,
    }
}

fn bill(generation: &str, cents: i64) -> Bill {
    Bill {
        generation: generation.to_owned(),
        cents,
    }
}

/// A history in which nothing is wrong.
fn sound() -> Facts {
    let (job, status) = ("j".to_owned(), "succeeded".to_owned());
    let asset = "f".to_owned();
    let start = Instant::now();
    Facts {
        events: vec![
            submitted("k", "j"),
            submitted("k", "j"),
            seen(2, 3, "running", &[]),
            seen(3, 5, "succeeded", &["o"]),
            // Sent before the end was known.
            seen(4, 6, "running", &[]),
            seen(6, 7, "succeeded", &["o"]),
            event(7, 8, Observation::Final { job, status }),
            event(
                1,
                2,
                Observation::Uploaded {
                    asset: asset.clone(),
                },
            ),
            event(
                8,
                9,
                Observation::Read {
                    asset,
                    is_whole: true,
                },
            ),
            called("acme-1", 200, b"made"),
            called("acme-1", 200, b"made"),
            called("acme-2", 502, b"unknown"),
        ],
        changes: vec![
            saved(0, "queued", 0),
            claimed("j", 1),
            saved(1, "running", 1),
            Change::Left {
                job: "j".to_owned(),
                account: "acme".to_owned(),
            },
            saved(2, "queued", 1),
            claimed("j", 2),
            saved(3, "running", 2),
            saved(4, "succeeded", 2),
        ],
        dispatched: vec![
            dispatched("acme-1", "g1", start, 0, 5),
            dispatched("acme-2", "g2", start, 5, 9),
        ],
        bills: vec![bill("g1", 7)],
        running_jobs: 1,
        calls_in_flight: 1,
    }
}

/// What the checker notices once the sound history was changed.
fn noticed(change: impl FnOnce(&mut Facts)) -> Vec<Kind> {
    let mut facts = sound();
    change(&mut facts);
    let kinds = check(&facts).into_iter().map(|violation| violation.kind);
    BTreeSet::from_iter(kinds).into_iter().collect()
}

#[test]
fn a_sound_history_passes() {
    assert_eq!(check(&sound()), []);
}

#[test]
fn what_was_acknowledged_and_is_gone_is_lost() {
    let lost = [Kind::Lost];
    assert_eq!(noticed(|facts| drop(facts.events.remove(6))), lost);
    let missing = Observation::Missing {
        job: "j".to_owned(),
    };
    assert_eq!(
        noticed(|facts| facts.events.push(event(9, 9, missing))),
        lost
    );
    assert_eq!(noticed(|facts| drop(facts.events.remove(8))), lost);
    let broken = Observation::Read {
        asset: "f".to_owned(),
        is_whole: false,
    };
    assert_eq!(
        noticed(|facts| facts.events.push(event(9, 9, broken))),
        lost
    );
}

#[test]
fn one_key_is_one_job_one_call_and_one_answer() {
    let other = event(
        7,
        8,
        Observation::Final {
            job: "x".to_owned(),
            status: "failed".to_owned(),
        },
    );
    let two = |facts: &mut Facts| facts.events.extend([submitted("k", "x"), other]);
    assert_eq!(noticed(two), [Kind::Doubled]);
    let other = |facts: &mut Facts| facts.events.push(called("acme-2", 500, b"other"));
    assert_eq!(noticed(other), [Kind::Doubled]);
    let again = |facts: &mut Facts| {
        let mut again = facts.dispatched[1].clone();
        again.began = again.ended.unwrap_or(again.began);
        again.generation = "g3".to_owned();
        facts.dispatched.push(again);
    };
    assert_eq!(noticed(again), [Kind::Doubled]);
    assert_eq!(
        noticed(|facts| facts.changes.push(claimed("j", 2)))[0],
        Kind::Doubled
    );
}

#[test]
fn a_bill_is_what_the_partner_says_and_there_is_one() {
    let bills = [
        vec![],
        vec![bill("g1", 7), bill("g1", 7)],
        vec![bill("g1", 8)],
        vec![bill("g1", 7), bill("g2", 7)],
        vec![bill("g1", 7), bill("g9", 1)],
    ];
    for bills in bills {
        assert_eq!(noticed(|facts| facts.bills = bills), [Kind::Bill]);
    }
}

#[test]
fn a_bound_holds_at_every_moment() {
    let calls = |facts: &mut Facts| {
        facts.dispatched[1].began = facts.dispatched[0].began;
    };
    assert_eq!(noticed(calls), [Kind::Overshoot]);
    // A task that nobody has a handle of counts until the program gave it up, and no longer.
    let given_up = |after: u64, ended: Option<u64>| {
        noticed(|facts| {
            let [task, other, ..] = &mut facts.dispatched[..] else {
                panic!("there are two");
            };
            let start = task.began;
            let at = |millis| start + Duration::from_millis(millis);
            (task.ended, task.given_up) = (ended.map(at), Some(at(after)));
            (other.began, other.ended) = (at(10), Some(at(12)));
        })
    };
    for ended in [None, Some(20)] {
        assert_eq!(given_up(9, ended), []);
        assert_eq!(given_up(11, ended), [Kind::Overshoot]);
    }
    let jobs = |facts: &mut Facts| facts.changes.push(claimed("x", 1));
    assert_eq!(noticed(jobs), [Kind::Overshoot]);
}

#[test]
fn an_end_is_for_good() {
    for later in [
        seen(8, 9, "running", &[]),
        seen(8, 9, "succeeded", &["o", "p"]),
        // Two ends cannot both be, whenever they were asked for.
        seen(0, 9, "canceled", &[]),
    ] {
        assert_eq!(noticed(|facts| facts.events.push(later)), [Kind::Backwards]);
    }
}

#[test]
fn a_write_of_a_claim_that_does_not_count_is_a_zombie_s() {
    for late in [
        saved(5, "succeeded", 2),
        saved(4, "failed", 1),
        saved(3, "running", 1),
    ] {
        assert_eq!(noticed(|facts| facts.changes.push(late)), [Kind::Zombie]);
    }
    let lower = |facts: &mut Facts| facts.changes[7] = saved(4, "succeeded", 1);
    assert_eq!(noticed(lower), [Kind::Zombie]);
}
