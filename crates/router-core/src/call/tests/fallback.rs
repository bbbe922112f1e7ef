//! Fallbacks under faults and crashes: runs by seed, each with calls, retries, partners that fail in every way, and routers that
//! die at any moment, over rows that stay.

use std::collections::HashMap;
use std::time::Duration;

use super::world::*;
use crate::{Charge, Failure, GenerationId, Ran, Refusal, RouterError, Usage, UsageQuery};

/// Runs, unless `EASEL_FALLBACK_RUNS` says otherwise.
const RUNS: u64 = 4_000;

/// Numbers by a seed: the same ones again for the same seed.
struct Dice(accounts::contract::Dice);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.roll(sides as usize) as u64
    }

    fn failure(&mut self) -> Failure {
        let message = "as it was rolled".to_owned();
        let ran = [Ran::Nothing, Ran::InVain, Ran::Perhaps][self.roll(3) as usize];
        match self.roll(6) {
            0 => Failure::TimedOut { ran, message },
            1 => Failure::Account { ran, message },
            2 => Failure::Transient { message },
            3 => Failure::Refused {
                refusal: Refusal::Content {
                    code: "no".to_owned(),
                    message,
                },
                charge: Charge::Cents(self.roll(2)),
            },
            _ => Failure::Failed { ran, message },
        }
    }

    fn deed(&mut self) -> Deed {
        match self.roll(8) {
            0 => Deed::Answers,
            1 | 2 => Deed::Accepts(self.roll(4) as u32, Box::new(Ok(()))),
            3 | 4 => Deed::Accepts(self.roll(4) as u32, Box::new(Err(self.failure()))),
            _ => Deed::Fails(self.failure()),
        }
    }
}

/// Whether a failure proves that nothing of the work is left.
fn is_proven(told: &Option<Result<(), Failure>>) -> bool {
    match told {
        Some(Err(
            Failure::Failed { ran, .. }
            | Failure::TimedOut { ran, .. }
            | Failure::Account { ran, .. },
        )) => ran.is_proven(),
        Some(Err(Failure::Transient { .. })) => true,
        Some(
            Ok(())
            | Err(Failure::Refused { .. } | Failure::Policy { .. } | Failure::InStream { .. }),
        )
        | None => false,
    }
}

/// What one call and its retries came to.
async fn run(seed: u64, world: &World) {
    let mut dice = Dice(accounts::contract::Dice::new(seed));
    for place in 0..PARTNERS.len() {
        let deeds: Vec<Deed> = (0..4).map(|_| dice.deed()).collect();
        world.plan(place, deeds);
    }
    let queries = [
        "fallback_provider=other",
        "fallback_provider=other,third",
        "fallback_provider=true",
        "model_provider=other&fallback_provider=own",
        "model_provider=third&fallback_provider=true",
        "model_provider=other",
    ];
    let asked = Ask {
        query: queries[dice.roll(6) as usize],
        key: (dice.roll(4) > 0).then_some("key"),
        body: r#"{"prompt":"cat","seed":1}"#,
    };
    let mut first_answer: Option<bytes::Bytes> = None;
    for attempt in 0..4_u128 {
        let dies_after = (dice.roll(3) > 0).then(|| dice.roll(40) as u32);
        let router = world.router(attempt + 1, dies_after);
        // What the one before left is this one's after the lease.
        world.advance(Duration::from_secs(31));
        let told = world
            .recover(&router)
            .and_then(|()| world.ask(&router, attempt + 1, asked));
        if let Some(told) = &told {
            let result = match &told.result {
                Ok(answer) => Some(answer.body.clone()),
                Err(RouterError::Ended(_) | RouterError::InFlight { .. }) => None,
                Err(other) => panic!("{seed}: {other:?}"),
            };
            if asked.key.is_some() {
                // One key has one result, however often it is asked for.
                match (&first_answer, &result) {
                    (Some(first), result) => assert_eq!(result.as_ref(), Some(first), "{seed}"),
                    (None, Some(_)) => first_answer = result,
                    (None, None) => {}
                }
            }
        }
        drop(router);
    }
    // Whatever is left comes to an end.
    world.advance(Duration::from_secs(31));
    let last = world.router(100, None);
    world.recover(&last).expect("it lives");
    judge(seed, world, asked).await;
}

/// Holds what happened against the rules.
async fn judge(seed: u64, world: &World, asked: Ask<'_>) {
    let sent = world.sent();
    assert_eq!(world.wrong_handles(), 0, "{seed}");
    // Nobody is asked while an attempt before may still come to something: none of the same generation ever, and with a key
    // none at all.
    for (place, one) in sent.iter().enumerate() {
        let before = sent[..place].iter();
        for earlier in before {
            if asked.key.is_some() || earlier.generation == one.generation {
                assert!(
                    is_proven(&earlier.told),
                    "{seed}: {one:?} after {earlier:?}"
                );
            }
        }
    }
    let unfinished = world.calls.unfinished().await.expect("memory answers");
    assert!(unfinished.is_empty(), "{seed}: {unfinished:?}");
    // The ledger is what the generations were billed, each by who served it, once.
    let mut bills: HashMap<GenerationId, u64> = HashMap::new();
    let mut export = world.calls.export(UsageQuery::default());
    let mut billed = 0;
    while let Some(row) = at_once(futures_util::StreamExt::next(&mut export)) {
        let row = row.expect("memory answers");
        let (Some(generation), Some(id), true) =
            (&row.generation, row.call.generation, row.began())
        else {
            continue;
        };
        let charge = generation.charge_cents.unwrap_or(0);
        assert!(
            bills.insert(id, charge).is_none(),
            "{seed}: {id} counts twice"
        );
        billed += charge;
        let attempts = sent.iter().filter(|one| one.generation == id);
        let attempts: Vec<_> = attempts.collect();
        let Some(serving) = generation.serving.as_deref() else {
            panic!("{seed}: it names its providers");
        };
        // The record lists every attempt, in the order in which they were made.
        let mut listed: Vec<&str> = serving
            .failed
            .iter()
            .map(|one| one.model.provider())
            .collect();
        listed.push(serving.model.provider());
        let made: Vec<&str> = attempts.iter().map(|one| one.partner).collect();
        assert!(
            listed.starts_with(&made) && listed.len() <= made.len() + 1,
            "{seed}: {listed:?}, {made:?}"
        );
        if generation.bucket.is_none() {
            let last = attempts.last().expect("it was served");
            assert_eq!(last.partner, serving.model.provider(), "{seed}");
            let price = PARTNERS.iter().find(|(name, _)| *name == last.partner);
            assert_eq!(Some(charge), price.map(|(_, cents)| *cents), "{seed}");
        } else {
            assert!(charge <= 1, "{seed}: a failure was billed {charge}");
        }
    }
    assert_eq!(world.balance().await, (1_000 - billed as i64, 0), "{seed}");
}

#[test]
fn nothing_is_dispatched_twice_without_a_proven_failure_nor_billed_twice() {
    let runs = std::env::var("EASEL_FALLBACK_RUNS").ok();
    let runs = runs.map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let mut world = at_once(World::new());
    for seed in 0..runs {
        world = at_once(world.another());
        at_once(run(seed, &world));
    }
}

#[test]
fn the_dice_reach_every_kind_of_failure() {
    let mut dice = Dice(accounts::contract::Dice::new(1));
    let failures: Vec<Failure> = (0..1_000).map(|_| dice.failure()).collect();
    let proven = failures
        .iter()
        .filter(|one| is_proven(&Some(Err((*one).clone()))));
    assert!((300..800).contains(&proven.count()));
}
