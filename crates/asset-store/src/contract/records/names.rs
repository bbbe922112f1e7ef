//! The rules of names that one upload has: uploads at the same time never share one.

use super::*;

pub(super) async fn rules(fresh: impl Fn() -> Arc<dyn AssetRecords>) {
    a_free_name_is_given_once(&*fresh()).await;
    the_same_bytes_under_their_name_are_the_same_record_for_longer(&*fresh()).await;
    what_jobs_made_expired_or_is_anothers_takes_no_name(&*fresh()).await;
    uploads_at_once_get_a_name_once(&*fresh()).await;
    what_is_replaced_is_the_newest_of_its_name(&*fresh()).await;
    one_of_many_replaces_a_record(&*fresh()).await;
}

async fn named(
    records: &dyn AssetRecords,
    asset: &Asset,
    claim: Option<KeyClaim>,
    now: Timestamp,
) -> InsertOutcome {
    insert(records, asset, InsertRule::FreeName, claim, now).await
}

async fn a_free_name_is_given_once(records: &dyn AssetRecords) {
    let first = asset(1, b"one", Some("a.png"));
    assert_eq!(
        named(records, &first, None, at(0)).await,
        created(&first, false)
    );
    let other = asset(2, b"two", Some("a.png"));
    let refused = named(records, &other, Some(claim(1, 1)), at(1)).await;
    assert_eq!(refused, InsertOutcome::NameTaken);
    assert_eq!(get(records, other.id, at(1)).await, None, "nothing is kept");
    let elsewhere = asset(3, b"two", Some("b.png"));
    let made = named(records, &elsewhere, Some(claim(1, 2)), at(1)).await;
    assert_eq!(made, created(&elsewhere, false), "the key is free");
    for (id, nameless) in [(4, asset(4, b"one", None)), (5, asset(5, b"two", None))] {
        let made = named(records, &nameless, None, at(1)).await;
        assert_eq!(made, created(&nameless, true), "{id}: no name is none");
    }
    // The newest of a name counts, as it does for who looks it up.
    let replaces = asset(6, b"two", Some("a.png"));
    upload(records, &replaces).await;
    let again = named(records, &asset(7, b"two", Some("a.png")), None, at(1)).await;
    assert_eq!(again, InsertOutcome::Existing(replaces));
    let before = named(records, &asset(8, b"one", Some("a.png")), None, at(1)).await;
    assert_eq!(before, InsertOutcome::NameTaken);
}

async fn the_same_bytes_under_their_name_are_the_same_record_for_longer(
    records: &dyn AssetRecords,
) {
    let first = asset(1, b"bytes", Some("a.png"));
    upload(records, &first).await;
    let extended = Asset {
        expires_at: Some(at(200)),
        ..first.clone()
    };
    let asked = Asset {
        expires_at: Some(at(200)),
        ..asset(2, b"bytes", Some("a.png"))
    };
    let sooner = asset(3, b"bytes", Some("a.png"));
    for asked in [asked, sooner] {
        let outcome = named(records, &asked, None, at(1)).await;
        assert_eq!(outcome, InsertOutcome::Existing(extended.clone()));
        assert_eq!(get(records, asked.id, at(1)).await, None);
    }
    assert_eq!(get(records, first.id, at(150)).await, Some(extended));
    let stored = records.stored_bytes(&account("acme")).await;
    assert_eq!(stored.expect("the store answers"), 5, "counted once");
}

async fn what_jobs_made_expired_or_is_anothers_takes_no_name(records: &dyn AssetRecords) {
    let made = Asset {
        job_id: Some(Uuid::from_u128(9)),
        ..asset(1, b"made", Some("a.png"))
    };
    let theirs = Asset {
        account: account("other"),
        ..asset(2, b"theirs", Some("a.png"))
    };
    let brief = Asset {
        expires_at: Some(at(10)),
        ..asset(3, b"brief", Some("a.png"))
    };
    for asset in [&made, &theirs, &brief] {
        upload(records, asset).await;
    }
    let asked = asset(4, b"asked", Some("a.png"));
    let refused = named(records, &asked, None, at(9)).await;
    assert_eq!(refused, InsertOutcome::NameTaken);
    let outcome = named(records, &asked, None, at(10)).await;
    assert_eq!(outcome, created(&asked, false));
}

async fn uploads_at_once_get_a_name_once(records: &dyn AssetRecords) {
    let bytes: Vec<[u8; 1]> = (0..16).map(|n| [n]).collect();
    let assets: Vec<Asset> = (1..)
        .zip(&bytes)
        .map(|(id, bytes)| asset(id, bytes, Some("race.png")))
        .collect();
    let outcomes = join_all(
        assets
            .iter()
            .map(|asset| named(records, asset, None, at(0))),
    )
    .await;
    let made = |outcome: &&InsertOutcome| matches!(outcome, InsertOutcome::Created { .. });
    let taken = |outcome: &&InsertOutcome| **outcome == InsertOutcome::NameTaken;
    assert_eq!(outcomes.iter().filter(made).count(), 1);
    assert_eq!(outcomes.iter().filter(taken).count(), 15);
}

async fn in_place_of(records: &dyn AssetRecords, replaced: &Asset, asset: &Asset) -> InsertOutcome {
    let rule = InsertRule::InPlaceOf(replaced.id);
    insert(records, asset, rule, None, at(1)).await
}

async fn what_is_replaced_is_the_newest_of_its_name(records: &dyn AssetRecords) {
    let first = asset(1, b"one", Some("a.png"));
    let second = asset(2, b"two", Some("a.png"));
    let third = asset(3, b"three", Some("a.png"));
    upload(records, &first).await;
    let made = in_place_of(records, &first, &second).await;
    assert_eq!(made, created(&second, false));
    let late = in_place_of(records, &first, &third).await;
    assert_eq!(late, InsertOutcome::NameTaken, "another one came before");
    assert_eq!(get(records, third.id, at(1)).await, None, "nothing is kept");
    // The same bytes are the record that is there, and a record of the same bytes may have a newer one in its place.
    let same = in_place_of(records, &first, &asset(4, b"two", Some("a.png"))).await;
    assert_eq!(same, InsertOutcome::Existing(second.clone()));
    let again = asset(5, b"two", Some("a.png"));
    let made = in_place_of(records, &second, &again).await;
    assert_eq!(made, created(&again, true));
    // A name that nothing has is free.
    let elsewhere = asset(6, b"six", Some("b.png"));
    let made = in_place_of(records, &first, &elsewhere).await;
    assert_eq!(made, created(&elsewhere, false));
}

async fn one_of_many_replaces_a_record(records: &dyn AssetRecords) {
    let first = asset(1, b"first", Some("race.png"));
    upload(records, &first).await;
    let bytes: Vec<[u8; 1]> = (0..16).map(|n| [n]).collect();
    let assets: Vec<Asset> = (2..)
        .zip(&bytes)
        .map(|(id, bytes)| asset(id, bytes, Some("race.png")))
        .collect();
    let replacing = assets
        .iter()
        .map(|asset| in_place_of(records, &first, asset));
    let outcomes = join_all(replacing).await;
    let made = |outcome: &&InsertOutcome| matches!(outcome, InsertOutcome::Created { .. });
    assert_eq!(outcomes.iter().filter(made).count(), 1);
}
