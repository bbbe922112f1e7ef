//! Published versions in rows: what is written reads back, and of changes at once one is written.

use std::collections::{BTreeMap, BTreeSet};

use accounts::contract::{Dice, either};
use jiff::Timestamp;

use super::at;
use crate::ModelId;
use crate::published::{PublishedChange, PublishedModels, PublishedVersion};

/// Runs the suite on two replicas over one fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn published(one: &dyn PublishedModels, other: &dyn PublishedModels) {
    a_change_is_written_once_and_behind_the_one_before(one, other).await;
    versions_are_written_over_and_forgotten(one, other).await;
    of_changes_at_once_one_is_written(one, other).await;
    for seed in 1..=SEEDS {
        changes_of_two_agree_with_a_model(one, other, seed).await;
    }
}

/// How many histories run, and how many steps each of them has.
const SEEDS: u64 = 4;
const STEPS: usize = 40;

/// What is true of the rows, in the plainest way.
#[derive(Clone, Debug)]
struct Model {
    revision: u64,
    versions: BTreeMap<(ModelId, u32), PublishedVersion>,
}

impl Model {
    fn save(&mut self, change: &PublishedChange) -> bool {
        if change.after != self.revision {
            return false;
        }
        self.revision += 1;
        for forgotten in &change.forget {
            self.versions.remove(forgotten);
        }
        for version in &change.write {
            let key = (version.model.clone(), version.version);
            self.versions.insert(key, version.clone());
        }
        true
    }
}

fn version(model: &str, version: u32, text: &str) -> PublishedVersion {
    let calls = ["bfl/flux-2", "easel/b"];
    let calls = calls.map(|id| id.parse::<ModelId>().expect("an id"));
    PublishedVersion {
        model: model.parse().expect("an id"),
        version,
        text: text.into(),
        calls: BTreeSet::from(calls),
        published_at: at(1),
        withdrawn_at: None,
    }
}

fn change(after: u64, write: Vec<PublishedVersion>) -> PublishedChange {
    PublishedChange {
        after,
        write,
        forget: Vec::new(),
    }
}

async fn save(store: &dyn PublishedModels, change: &PublishedChange) -> bool {
    store.save(change).await.expect("an answer")
}

async fn rows(store: &dyn PublishedModels) -> (u64, Vec<PublishedVersion>) {
    let loaded = store.load().await.expect("an answer");
    let revision = store.revision().await.expect("an answer");
    assert_eq!(loaded.revision(), revision);
    (revision, loaded.versions().cloned().collect())
}

async fn a_change_is_written_once_and_behind_the_one_before(
    one: &dyn PublishedModels,
    other: &dyn PublishedModels,
) {
    assert_eq!(rows(one).await, (0, Vec::new()));
    let first = PublishedVersion {
        calls: BTreeSet::new(),
        ..version("easel/a", 1, "{\"ä\": \"one\"}")
    };
    let second = version("easel/a", 2, &"y".repeat(2 << 20));
    assert!(!save(one, &change(1, vec![first.clone()])).await, "too new");
    assert_eq!(rows(other).await, (0, Vec::new()), "nothing was written");
    assert!(save(one, &change(0, vec![first.clone()])).await);
    assert!(!save(other, &change(0, vec![second.clone()])).await, "old");
    assert_eq!(rows(other).await, (1, vec![first.clone()]));
    assert!(save(other, &change(1, vec![second.clone()])).await);
    assert_eq!(rows(one).await, (2, vec![first, second]));
}

async fn versions_are_written_over_and_forgotten(
    one: &dyn PublishedModels,
    other: &dyn PublishedModels,
) {
    let (_, all) = rows(one).await;
    let later = Timestamp::from_microsecond(1_700_000_000_123_456).expect("in range");
    let withdrawn = PublishedVersion {
        withdrawn_at: Some(later),
        ..all[1].clone()
    };
    let third = version("easel/a.b", 1, "three");
    let changed = PublishedChange {
        forget: vec![(all[0].model.clone(), 1)],
        ..change(2, vec![withdrawn.clone(), third.clone()])
    };
    assert!(save(one, &changed).await);
    assert_eq!(rows(other).await, (3, vec![withdrawn, third]));
}

async fn of_changes_at_once_one_is_written(one: &dyn PublishedModels, other: &dyn PublishedModels) {
    for round in 0..10 {
        let (revision, before) = rows(one).await;
        let of = |who: &str| {
            let new = version(&format!("easel/{who}-{round}"), 1, who);
            change(revision, vec![new])
        };
        let (ours, theirs) = (of("ours"), of("theirs"));
        let (first, second) = tokio::join!(save(one, &ours), save(other, &theirs));
        assert!(first != second, "one of both, and not {first} and {second}");
        let (next, after) = rows(other).await;
        assert_eq!((next, after.len()), (revision + 1, before.len() + 1));
    }
}

/// Two replicas save changes at once, some of them behind a change that is not the newest any more.
async fn changes_of_two_agree_with_a_model(
    one: &dyn PublishedModels,
    other: &dyn PublishedModels,
    seed: u64,
) {
    let (revision, all) = rows(one).await;
    let first = version("easel/first", u32::try_from(seed).expect("few"), "kept");
    let forget = all.iter().map(|it| (it.model.clone(), it.version));
    // Every change writes something: a store may know its number by that alone.
    let alone = PublishedChange {
        forget: forget.collect(),
        ..change(revision, vec![first])
    };
    let mut model = Model {
        revision,
        versions: BTreeMap::new(),
    };
    assert!(model.save(&alone) && save(other, &alone).await);
    let mut dice = Dice::new(seed);
    for step in 0..STEPS {
        let changes = ["a", "b"].map(|who| {
            let name = format!("easel/{}", ["x", "y", "z"][dice.roll(3)]);
            let number = u32::try_from(1 + dice.roll(3)).expect("few");
            let written = version(&name, number, &format!("{who} in {step}"));
            let known: Vec<&(ModelId, u32)> = model.versions.keys().collect();
            let forget = dice.pick(&known).filter(|_| dice.roll(3) == 0);
            let forget = forget.filter(|(id, of)| *id != written.model || *of != number);
            PublishedChange {
                forget: forget.into_iter().cloned().collect(),
                ..change(model.revision - dice.roll(2) as u64, vec![written])
            }
        });
        let answers = tokio::join!(save(one, &changes[0]), save(other, &changes[1]));
        let act = |model: &mut Model, handle: usize| model.save(&changes[handle]);
        either(&mut model, act, &answers);
        let expected: Vec<PublishedVersion> = model.versions.values().cloned().collect();
        for store in [one, other] {
            assert_eq!(rows(store).await, (model.revision, expected.clone()));
        }
    }
}
