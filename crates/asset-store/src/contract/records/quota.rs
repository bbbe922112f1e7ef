//! The rules of stored bytes: counted with every change, bounded exactly.

use super::*;

pub(super) async fn rules(fresh: impl Fn() -> Arc<dyn AssetRecords>) {
    every_record_counts_until_it_is_gone(&*fresh()).await;
    a_record_that_does_not_fit_keeps_nothing_and_leaves_the_key_free(&*fresh()).await;
    uploads_at_once_never_exceed_the_bound(&*fresh()).await;
    what_makes_no_record_costs_nothing(&*fresh()).await;
}

async fn stored(records: &dyn AssetRecords, name: &str) -> u64 {
    let stored = records.stored_bytes(&account(name)).await;
    stored.expect("the store answers")
}

async fn within(
    records: &dyn AssetRecords,
    asset: Asset,
    rule: InsertRule,
    claim: Option<KeyClaim>,
    most: u64,
) -> InsertOutcome {
    let insert = InsertAsset {
        asset,
        rule,
        claim,
        most_bytes: Some(most),
    };
    let outcome = records.insert(insert, at(1)).await;
    outcome.expect("the store answers")
}

async fn every_record_counts_until_it_is_gone(records: &dyn AssetRecords) {
    assert_eq!(stored(records, "acme").await, 0);
    upload(records, &asset(1, b"12345", None)).await;
    // The same bytes again are bytes again.
    upload(records, &asset(2, b"12345", None)).await;
    let foreign = Asset {
        account: account("other"),
        ..asset(3, b"123", None)
    };
    upload(records, &foreign).await;
    assert_eq!(stored(records, "acme").await, 10);
    assert_eq!(stored(records, "other").await, 3);
    remove(records, AssetId(Uuid::from_u128(1))).await;
    assert_eq!(stored(records, "acme").await, 5);
    hold(records, AssetId(Uuid::from_u128(2)), Hold::Operator, true).await;
    expire(records, at(1_000), 10).await;
    assert_eq!(stored(records, "acme").await, 5, "it is kept");
    assert_eq!(stored(records, "other").await, 0);
    hold(records, AssetId(Uuid::from_u128(2)), Hold::Operator, false).await;
    expire(records, at(1_000), 10).await;
    assert_eq!(stored(records, "acme").await, 0);
}

async fn a_record_that_does_not_fit_keeps_nothing_and_leaves_the_key_free(
    records: &dyn AssetRecords,
) {
    upload(records, &asset(1, b"12345", None)).await;
    let large = asset(2, b"123456", None);
    let claim = Some(claim(7, 1));
    let rule = InsertRule::Upload;
    let refused = within(records, large.clone(), rule, claim.clone(), 10).await;
    assert_eq!(refused, InsertOutcome::QuotaExceeded);
    assert_eq!(get(records, large.id, at(1)).await, None);
    assert_eq!(stored(records, "acme").await, 5);
    let fits = within(records, large.clone(), rule, claim, 11).await;
    assert_eq!(fits, created(&large, false));
    // Nobody else is touched.
    let foreign = Asset {
        account: account("other"),
        ..asset(3, b"12345", None)
    };
    let fits = within(records, foreign.clone(), rule, None, 5).await;
    assert_eq!(fits, created(&foreign, false));
}

async fn uploads_at_once_never_exceed_the_bound(records: &dyn AssetRecords) {
    let uploads = (1..=32).map(|n| {
        let asset = asset(n, b"1234567890", None);
        within(records, asset, InsertRule::Upload, None, 105)
    });
    let outcomes = join_all(uploads).await;
    let made = |outcome: &&InsertOutcome| matches!(outcome, InsertOutcome::Created { .. });
    assert_eq!(outcomes.iter().filter(made).count(), 10);
    assert_eq!(stored(records, "acme").await, 100);
}

async fn what_makes_no_record_costs_nothing(records: &dyn AssetRecords) {
    let first = asset(1, b"12345", Some("a"));
    let rule = InsertRule::Upload;
    within(records, first.clone(), rule, Some(claim(7, 1)), 5).await;
    let again = asset(2, b"12345", Some("a"));
    let replayed = within(records, again.clone(), rule, Some(claim(7, 1)), 0).await;
    assert!(matches!(replayed, InsertOutcome::Replayed(asset) if asset.id == first.id));
    let rule = InsertRule::FromHash;
    let existing = within(records, again.clone(), rule, None, 0).await;
    assert!(matches!(existing, InsertOutcome::Existing(asset) if asset.id == first.id));
    let elsewhere = asset(3, b"12345", Some("b"));
    let refused = within(records, elsewhere, rule, None, 9).await;
    assert_eq!(refused, InsertOutcome::QuotaExceeded);
    assert_eq!(stored(records, "acme").await, 5);
}
