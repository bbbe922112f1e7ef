//! The rules of [`AssetRecords`].

mod keys;
mod names;
mod quota;

use std::sync::Arc;

use accounts::{AccountId, Fingerprint};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::start;
use crate::{
    Asset, AssetId, AssetQuery, AssetRecords, BlobHash, FileNames, FilePath, Hold, InsertAsset,
    InsertOutcome, InsertRule, KeyClaim, Removal,
};

/// Runs every rule on a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn asset_records(fresh: impl Fn() -> Arc<dyn AssetRecords>) {
    a_record_reads_back_whole(&*fresh()).await;
    another_accounts_record_is_absent(&*fresh()).await;
    an_upload_is_always_a_new_record(&*fresh()).await;
    the_newest_record_of_a_path_or_hash_is_found(&*fresh()).await;
    from_hash_needs_a_live_record_of_the_same_account(&*fresh()).await;
    from_hash_of_the_same_path_gives_the_same_record_and_extends_it(&*fresh()).await;
    an_expired_record_is_absent_before_it_is_swept(&*fresh()).await;
    a_held_record_is_not_removed(&*fresh()).await;
    operators_see_what_keeps_a_record(&*fresh()).await;
    a_removed_record_is_gone(&*fresh()).await;
    a_held_record_is_not_expired(&*fresh()).await;
    expire_takes_at_most_its_limit(&*fresh()).await;
    keys::rules(&fresh).await;
    names::rules(&fresh).await;
    only_hashes_without_any_record_are_unreferenced(&*fresh()).await;
    quota::rules(&fresh).await;
}

/// Runs every rule of [`FileNames`] on a fresh store, given with its records.
///
/// # Panics
/// If the store breaks a rule.
pub async fn file_names(fresh: impl Fn() -> (Arc<dyn AssetRecords>, Arc<dyn FileNames>)) {
    let (records, names) = fresh();
    let job = Some(Uuid::from_u128(9));
    let foreign = Asset {
        account: account("other"),
        ..asset(5, b"5", Some("theirs.png"))
    };
    let made = Asset {
        job_id: job,
        ..asset(4, b"4", Some("same.png"))
    };
    let brief = Asset {
        expires_at: Some(at(10)),
        ..asset(6, b"6", Some("brief.png"))
    };
    let nameless = asset(3, b"3", None);
    let old = asset(1, b"1", Some("same.png"));
    let new = asset(2, b"2", Some("b.png"));
    for asset in [&old, &foreign, &made, &brief, &nameless, &new] {
        insert(&*records, asset, InsertRule::Upload, None, at(0)).await;
    }
    let listed = |made_by_jobs, limit, now| {
        let names = names.clone();
        async move {
            let found = names
                .named(&account("acme"), made_by_jobs, limit, now)
                .await;
            let found = found.expect("the store answers").into_iter();
            found.map(|asset| asset.id.0.as_u128()).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(false, 10, at(1)).await, [2, 6, 1]);
    assert_eq!(listed(false, 10, at(11)).await, [2, 1]);
    assert_eq!(listed(false, 1, at(1)).await, [2]);
    assert_eq!(listed(true, 10, at(1)).await, [4]);
    for (query, id) in [
        (AssetQuery::Upload(path("same.png")), old.id),
        (AssetQuery::Output(path("same.png")), made.id),
    ] {
        let found = records.find(&account("acme"), &query, at(1)).await;
        let found = found.expect("the store answers").map(|asset| asset.id);
        assert_eq!(found, Some(id), "{query:?}");
    }
}

/// Seconds after the start of the suite.
pub(super) fn at(seconds: i64) -> Timestamp {
    let by = SignedDuration::from_secs(seconds);
    start().checked_add(by).expect("in range")
}

pub(super) fn account(name: &str) -> AccountId {
    name.parse().expect("the suite uses valid names")
}

fn path(text: &str) -> FilePath {
    text.parse().expect("the suite uses valid paths")
}

/// A record of `acme` that lives for 100 seconds; the bytes name the content.
pub(super) fn asset(id: u128, bytes: &[u8], file_path: Option<&str>) -> Asset {
    Asset {
        id: AssetId(Uuid::from_u128(id)),
        account: account("acme"),
        hash: BlobHash::of(bytes),
        size_bytes: bytes.len() as u64,
        content_type: "image/png".to_owned(),
        file_path: file_path.map(path),
        tags: Vec::new(),
        created_at: at(0),
        expires_at: Some(at(100)),
        job_id: None,
    }
}

fn claim(digest: u8, request: u8) -> KeyClaim {
    KeyClaim {
        digest: [digest; 32],
        fingerprint: Fingerprint([request; 32]),
        expires_at: at(1_000),
    }
}

async fn insert(
    records: &dyn AssetRecords,
    asset: &Asset,
    rule: InsertRule,
    claim: Option<KeyClaim>,
    now: Timestamp,
) -> InsertOutcome {
    let asset = asset.clone();
    let insert = InsertAsset {
        asset,
        rule,
        claim,
        most_bytes: None,
    };
    records
        .insert(insert, now)
        .await
        .expect("the store answers")
}

pub(super) async fn upload(records: &dyn AssetRecords, asset: &Asset) -> InsertOutcome {
    insert(records, asset, InsertRule::Upload, None, at(0)).await
}

async fn get(records: &dyn AssetRecords, id: AssetId, now: Timestamp) -> Option<Asset> {
    let found = records.get(&account("acme"), id, now).await;
    found.expect("the store answers")
}

async fn find(records: &dyn AssetRecords, query: AssetQuery, now: Timestamp) -> Option<Asset> {
    let found = records.find(&account("acme"), &query, now).await;
    found.expect("the store answers")
}

async fn remove(records: &dyn AssetRecords, id: AssetId) -> Removal {
    let removal = records.remove(&account("acme"), id, at(1)).await;
    removal.expect("the store answers")
}

async fn hold(records: &dyn AssetRecords, id: AssetId, hold: Hold, held: bool) -> bool {
    let held = records.hold(id, hold, held).await;
    held.expect("the store answers")
}

async fn expire(records: &dyn AssetRecords, now: Timestamp, limit: usize) -> usize {
    records.expire(now, limit).await.expect("the store answers")
}

fn created(asset: &Asset, had_bytes: bool) -> InsertOutcome {
    InsertOutcome::Created {
        asset: asset.clone(),
        had_bytes,
    }
}

async fn a_record_reads_back_whole(records: &dyn AssetRecords) {
    let whole = Asset {
        size_bytes: 1 << 40,
        file_path: Some(path("ein Bild/写真.png")),
        tags: vec!["a".to_owned(), "b \"c\"".to_owned()],
        job_id: Some(Uuid::from_u128(9)),
        ..asset(1, b"one", None)
    };
    let bare = Asset {
        expires_at: None,
        ..asset(2, b"two", None)
    };
    for asset in [whole, bare] {
        assert_eq!(upload(records, &asset).await, created(&asset, false));
        assert_eq!(get(records, asset.id, at(1)).await, Some(asset));
    }
}

async fn another_accounts_record_is_absent(records: &dyn AssetRecords) {
    let mine = asset(1, b"bytes", Some("a.png"));
    upload(records, &mine).await;
    let other = account("other");
    let by_id = records.get(&other, mine.id, at(1)).await;
    assert_eq!(by_id.expect("the store answers"), None);
    for query in [AssetQuery::Hash(mine.hash), AssetQuery::Path(path("a.png"))] {
        let found = records.find(&other, &query, at(1)).await;
        assert_eq!(found.expect("the store answers"), None);
    }
    let removal = records.remove(&other, mine.id, at(1)).await;
    assert_eq!(removal.expect("the store answers"), Removal::Absent);
    assert_eq!(get(records, mine.id, at(1)).await, Some(mine.clone()));
    // Nor does it tell: the other account's own upload of the same bytes is new to it.
    let theirs = Asset {
        account: other,
        ..asset(2, b"bytes", None)
    };
    assert_eq!(upload(records, &theirs).await, created(&theirs, false));
}

async fn an_upload_is_always_a_new_record(records: &dyn AssetRecords) {
    let first = asset(1, b"bytes", Some("a.png"));
    let second = asset(2, b"bytes", Some("a.png"));
    assert_eq!(upload(records, &first).await, created(&first, false));
    assert_eq!(upload(records, &second).await, created(&second, true));
    for asset in [first, second] {
        assert_eq!(get(records, asset.id, at(1)).await, Some(asset));
    }
}

async fn the_newest_record_of_a_path_or_hash_is_found(records: &dyn AssetRecords) {
    for (id, bytes, name) in [(3, b"x", "a.png"), (1, b"y", "a.png"), (2, b"x", "b.png")] {
        upload(records, &asset(id, bytes, Some(name))).await;
    }
    let found = |query| async {
        let found = find(records, query, at(1)).await;
        found.map(|asset| asset.id.0.as_u128())
    };
    assert_eq!(found(AssetQuery::Path(path("a.png"))).await, Some(1));
    assert_eq!(found(AssetQuery::Path(path("b.png"))).await, Some(2));
    assert_eq!(found(AssetQuery::Path(path("A.png"))).await, None);
    assert_eq!(found(AssetQuery::Hash(BlobHash::of(b"x"))).await, Some(2));
    assert_eq!(found(AssetQuery::Hash(BlobHash::of(b"y"))).await, Some(1));
    assert_eq!(found(AssetQuery::Hash(BlobHash::of(b"z"))).await, None);
}

async fn from_hash_needs_a_live_record_of_the_same_account(records: &dyn AssetRecords) {
    let theirs = Asset {
        account: account("other"),
        ..asset(1, b"bytes", None)
    };
    upload(records, &theirs).await;
    let asked = asset(2, b"bytes", None);
    let outcome = insert(records, &asked, InsertRule::FromHash, None, at(1)).await;
    assert_eq!(outcome, InsertOutcome::BlobNotFound);
    assert_eq!(get(records, asked.id, at(1)).await, None);

    upload(records, &asset(3, b"bytes", Some("a.png"))).await;
    let outcome = insert(records, &asked, InsertRule::FromHash, None, at(100)).await;
    assert_eq!(outcome, InsertOutcome::BlobNotFound, "its record is over");
    let outcome = insert(records, &asked, InsertRule::FromHash, None, at(99)).await;
    assert_eq!(outcome, created(&asked, true));
    assert_eq!(get(records, asked.id, at(99)).await, Some(asked));
}

async fn from_hash_of_the_same_path_gives_the_same_record_and_extends_it(
    records: &dyn AssetRecords,
) {
    for (id, name) in [(1, Some("a.png")), (2, None)] {
        let held = asset(id, b"bytes", name);
        upload(records, &held).await;
        let asked = Asset {
            expires_at: Some(at(200)),
            ..asset(id + 10, b"bytes", name)
        };
        let extended = Asset {
            expires_at: Some(at(200)),
            ..held.clone()
        };
        let outcome = insert(records, &asked, InsertRule::FromHash, None, at(1)).await;
        assert_eq!(outcome, InsertOutcome::Existing(extended.clone()));
        let sooner = asset(id + 20, b"bytes", name);
        let outcome = insert(records, &sooner, InsertRule::FromHash, None, at(2)).await;
        assert_eq!(outcome, InsertOutcome::Existing(extended.clone()));
        let read = get(records, held.id, at(150)).await;
        assert_eq!(read, Some(extended), "never shortened");
        assert_eq!(get(records, asked.id, at(1)).await, None);
    }
    // A record that never ends stays so.
    let forever = Asset {
        expires_at: None,
        ..asset(3, b"bytes", Some("b.png"))
    };
    upload(records, &forever).await;
    let asked = asset(13, b"bytes", Some("b.png"));
    let outcome = insert(records, &asked, InsertRule::FromHash, None, at(1)).await;
    assert_eq!(outcome, InsertOutcome::Existing(forever));
}

async fn an_expired_record_is_absent_before_it_is_swept(records: &dyn AssetRecords) {
    let asset = asset(1, b"bytes", Some("a.png"));
    upload(records, &asset).await;
    assert!(hold(records, asset.id, Hold::Operator, true).await);
    for (now, there) in [(at(99), true), (at(100), false), (at(101), false)] {
        assert_eq!(get(records, asset.id, now).await.is_some(), there);
        for query in [
            AssetQuery::Hash(asset.hash),
            AssetQuery::Path(path("a.png")),
        ] {
            assert_eq!(find(records, query, now).await.is_some(), there);
        }
    }
    let removal = records.remove(&asset.account, asset.id, at(100)).await;
    assert_eq!(removal.expect("the store answers"), Removal::Absent);
}

async fn a_held_record_is_not_removed(records: &dyn AssetRecords) {
    let asset = asset(1, b"bytes", None);
    upload(records, &asset).await;
    let job = Uuid::from_u128(7);
    let holds = [Hold::Input(job), Hold::Output(job), Hold::Operator];
    for held in holds {
        assert!(hold(records, asset.id, held, true).await);
        assert!(
            hold(records, asset.id, held, true).await,
            "held twice is held"
        );
    }
    for released in holds {
        assert_eq!(remove(records, asset.id).await, Removal::Held);
        assert!(hold(records, asset.id, released, false).await);
        assert!(hold(records, asset.id, released, false).await);
    }
    assert_eq!(remove(records, asset.id).await, Removal::Removed);
}

async fn operators_see_what_keeps_a_record(records: &dyn AssetRecords) {
    let (kept, other) = (asset(1, b"bytes", None), asset(2, b"bytes", None));
    upload(records, &kept).await;
    upload(records, &other).await;
    let look = |id, limit| async move {
        let looked = records.kept(id, limit).await;
        looked.expect("the store answers")
    };
    let free = look(kept.id, 9).await.expect("it is there");
    assert_eq!((&free.asset, &*free.holds), (&kept, &[][..]));
    let job = |n| Uuid::from_u128(n);
    let holds = [
        Hold::Operator,
        Hold::Output(job(8)),
        Hold::Input(job(7)),
        Hold::Input(job(9)),
    ];
    for held in holds.into_iter().rev() {
        assert!(hold(records, kept.id, held, true).await);
    }
    for limit in [0, 1, 3, 4, 9] {
        let seen = look(kept.id, limit).await.expect("it is there");
        assert_eq!(seen.holds, holds[..limit.min(4)], "the first {limit}");
    }
    assert!(hold(records, kept.id, holds[0], false).await);
    // It is past its time, and one looks for what keeps it all the same.
    assert_eq!(expire(records, at(100), 10).await, 1);
    let expired = look(kept.id, 9).await.expect("it is kept");
    assert_eq!((&expired.asset, &*expired.holds), (&kept, &holds[1..]));
    assert_eq!(look(other.id, 9).await, None, "nothing kept it");
}

async fn a_removed_record_is_gone(records: &dyn AssetRecords) {
    let asset = asset(1, b"bytes", Some("a.png"));
    upload(records, &asset).await;
    assert_eq!(remove(records, asset.id).await, Removal::Removed);
    assert_eq!(get(records, asset.id, at(1)).await, None);
    assert_eq!(
        find(records, AssetQuery::Hash(asset.hash), at(1)).await,
        None
    );
    assert_eq!(remove(records, asset.id).await, Removal::Absent);
    assert!(!hold(records, asset.id, Hold::Operator, true).await);
}

async fn a_held_record_is_not_expired(records: &dyn AssetRecords) {
    let held = asset(1, b"one", None);
    let free = asset(2, b"two", None);
    let forever = Asset {
        expires_at: None,
        ..asset(3, b"three", None)
    };
    for asset in [&held, &free, &forever] {
        upload(records, asset).await;
    }
    let input = Hold::Input(Uuid::from_u128(7));
    assert!(hold(records, held.id, input, true).await);
    assert_eq!(expire(records, at(99), 10).await, 0);
    assert_eq!(expire(records, at(100), 10).await, 1);
    // Holds outlast the deadline, and with them the reference to the bytes.
    assert!(hold(records, held.id, input, false).await);
    assert_eq!(expire(records, at(100), 10).await, 1);
    assert!(!hold(records, held.id, input, true).await);
    assert!(get(records, forever.id, at(1_000_000)).await.is_some());
}

async fn expire_takes_at_most_its_limit(records: &dyn AssetRecords) {
    for id in 0..5 {
        upload(records, &asset(id, b"bytes", None)).await;
    }
    for left in [2, 2, 1, 0] {
        assert_eq!(expire(records, at(100), 2).await, left);
    }
}

async fn only_hashes_without_any_record_are_unreferenced(records: &dyn AssetRecords) {
    let one = asset(1, b"one", None);
    let two = asset(2, b"two", None);
    let also_two = Asset {
        account: account("other"),
        ..asset(3, b"two", None)
    };
    for asset in [&one, &two, &also_two] {
        upload(records, asset).await;
    }
    let three = BlobHash::of(b"three");
    let unreferenced = || async {
        let free = records.unreferenced(&[one.hash, two.hash, three]).await;
        free.expect("the store answers")
    };
    assert_eq!(unreferenced().await, [three]);
    remove(records, two.id).await;
    assert_eq!(
        unreferenced().await,
        [three],
        "another account refers to it"
    );
    // An expired record refers to its bytes until it is swept.
    assert_eq!(get(records, one.id, at(100)).await, None);
    assert_eq!(unreferenced().await, [three]);
    assert_eq!(expire(records, at(100), 10).await, 2);
    assert_eq!(unreferenced().await, [one.hash, two.hash, three]);
}
