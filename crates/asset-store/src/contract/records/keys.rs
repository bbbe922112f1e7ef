//! The rules of idempotency keys.

use super::*;

pub(super) async fn rules(fresh: &impl Fn() -> Arc<dyn AssetRecords>) {
    a_key_replays_the_same_request(&*fresh()).await;
    a_key_is_refused_to_another_request(&*fresh()).await;
    a_key_belongs_to_its_account(&*fresh()).await;
    a_key_ends_with_its_time_or_its_record(&*fresh()).await;
    a_key_claimed_at_once_makes_one_record(&*fresh()).await;
    a_key_is_claimed_from_hash_too(&*fresh()).await;
}

async fn a_key_replays_the_same_request(records: &dyn AssetRecords) {
    let first = asset(1, b"bytes", None);
    let again = asset(2, b"bytes", None);
    let claim = Some(claim(1, 1));
    let outcome = insert(records, &first, InsertRule::Upload, claim.clone(), at(0)).await;
    assert_eq!(outcome, created(&first, false));
    let outcome = insert(records, &again, InsertRule::Upload, claim, at(1)).await;
    assert_eq!(outcome, InsertOutcome::Replayed(first));
    assert_eq!(get(records, again.id, at(1)).await, None);
}

async fn a_key_is_refused_to_another_request(records: &dyn AssetRecords) {
    let first = asset(1, b"one", None);
    let other = asset(2, b"two", None);
    insert(
        records,
        &first,
        InsertRule::Upload,
        Some(claim(1, 1)),
        at(0),
    )
    .await;
    let outcome = insert(
        records,
        &other,
        InsertRule::Upload,
        Some(claim(1, 2)),
        at(1),
    )
    .await;
    assert_eq!(outcome, InsertOutcome::KeyReused(first.id));
    assert_eq!(get(records, other.id, at(1)).await, None);
    let outcome = insert(
        records,
        &other,
        InsertRule::Upload,
        Some(claim(2, 2)),
        at(1),
    )
    .await;
    assert_eq!(outcome, created(&other, false));
}

async fn a_key_belongs_to_its_account(records: &dyn AssetRecords) {
    let mine = asset(1, b"bytes", None);
    let theirs = Asset {
        account: account("other"),
        ..asset(2, b"bytes", None)
    };
    for asset in [mine, theirs] {
        let outcome = insert(
            records,
            &asset,
            InsertRule::Upload,
            Some(claim(1, 1)),
            at(0),
        )
        .await;
        assert_eq!(outcome, created(&asset, false));
    }
}

async fn a_key_ends_with_its_time_or_its_record(records: &dyn AssetRecords) {
    let long = |id| Asset {
        expires_at: Some(at(5_000)),
        ..asset(id, b"bytes", None)
    };
    let upload = |asset: Asset, now| async move {
        insert(records, &asset, InsertRule::Upload, Some(claim(1, 1)), now).await
    };
    assert_eq!(upload(long(1), at(0)).await, created(&long(1), false));
    let outcome = upload(long(2), at(999)).await;
    assert_eq!(outcome, InsertOutcome::Replayed(long(1)));
    // Its time is over at 1,000 seconds, swept or not.
    let renewed = KeyClaim {
        expires_at: at(9_000),
        ..claim(1, 1)
    };
    let outcome = insert(
        records,
        &long(3),
        InsertRule::Upload,
        Some(renewed),
        at(1_000),
    )
    .await;
    assert_eq!(outcome, created(&long(3), true));
    assert_eq!(expire(records, at(1_001), 10).await, 0);
    let outcome = upload(long(4), at(1_001)).await;
    assert_eq!(outcome, InsertOutcome::Replayed(long(3)), "still claimed");
    // A key whose record was deleted, or is over, stands for nothing any more.
    let removal = records
        .remove(&account("acme"), long(3).id, at(1_002))
        .await;
    assert_eq!(removal.expect("the store answers"), Removal::Removed);
    assert_eq!(upload(long(5), at(1_003)).await, created(&long(5), true));
    let outcome = upload(long(6), at(5_000)).await;
    assert_eq!(outcome, created(&long(6), false));
}

async fn a_key_claimed_at_once_makes_one_record(records: &dyn AssetRecords) {
    let uploads = (0..16).map(|id| async move {
        let asset = asset(id, b"bytes", None);
        insert(
            records,
            &asset,
            InsertRule::Upload,
            Some(claim(1, 1)),
            at(0),
        )
        .await
    });
    let outcomes = join_all(uploads).await;
    let made: Vec<&InsertOutcome> = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, InsertOutcome::Created { .. }))
        .collect();
    let [InsertOutcome::Created { asset, .. }] = made[..] else {
        panic!("one of the requests makes the record: {made:?}");
    };
    let replays = InsertOutcome::Replayed(asset.clone());
    let replayed = outcomes.iter().filter(|outcome| **outcome == replays);
    assert_eq!(replayed.count(), outcomes.len() - 1);
}

async fn a_key_is_claimed_from_hash_too(records: &dyn AssetRecords) {
    let held = asset(1, b"bytes", Some("a.png"));
    upload(records, &held).await;
    let from_hash = |id, name, claim| async move {
        let asked = asset(id, b"bytes", Some(name));
        insert(records, &asked, InsertRule::FromHash, Some(claim), at(1)).await
    };
    let outcome = from_hash(2, "a.png", claim(1, 1)).await;
    assert_eq!(outcome, InsertOutcome::Existing(held.clone()));
    let outcome = from_hash(3, "a.png", claim(1, 1)).await;
    assert_eq!(outcome, InsertOutcome::Replayed(held.clone()));
    let outcome = from_hash(4, "b.png", claim(1, 2)).await;
    assert_eq!(outcome, InsertOutcome::KeyReused(held.id));
    // A refusal claims nothing.
    let unknown = asset(5, b"unknown", None);
    let outcome = insert(
        records,
        &unknown,
        InsertRule::FromHash,
        Some(claim(2, 1)),
        at(1),
    )
    .await;
    assert_eq!(outcome, InsertOutcome::BlobNotFound);
    let outcome = insert(
        records,
        &unknown,
        InsertRule::Upload,
        Some(claim(2, 2)),
        at(1),
    )
    .await;
    assert_eq!(outcome, created(&unknown, false));
}
