//! Published versions in rows: what is written reads back, and of changes at once one is written.

use std::collections::BTreeSet;

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
