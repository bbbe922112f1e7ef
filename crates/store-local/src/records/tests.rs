//! The contract of records on SQLite, and histories compared with the twin in memory.

use std::sync::{Arc, Mutex};

use asset_store::{
    Admission, HOLD, InsertRule, KeyClaim, MemoryRecords, SweepName, SweepStates, contract,
};
use jiff::SignedDuration;
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::Store;

fn records() -> (TempDir, SqliteRecords) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(root.path()).expect("a fresh store");
    (root, store.records())
}

#[tokio::test]
async fn records_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::asset_records(|| {
        let (root, records) = records();
        roots.lock().expect("no panic").push(root);
        Arc::new(records)
    })
    .await;
}

#[tokio::test]
async fn names_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::file_names(|| {
        let (root, records) = records();
        roots.lock().expect("no panic").push(root);
        let records = Arc::new(records);
        (records.clone(), records)
    })
    .await;
}

#[tokio::test]
async fn sweeps_in_rows_keep_the_contract() {
    let roots = Mutex::new(Vec::new());
    contract::sweeps(|| {
        let (root, records) = records();
        roots.lock().expect("no panic").push(root);
        Arc::new(records)
    })
    .await;
}

#[tokio::test]
async fn the_scrub_in_rows_keeps_the_contract() {
    let (_root, records) = records();
    contract::scrub_states(&records).await;
}

#[tokio::test]
async fn a_hold_outlives_the_process() {
    let (root, records) = records();
    let admit = async |records: &SqliteRecords, second| {
        let now = Timestamp::from_second(second).expect("in range");
        let admission = records.admit(SweepName::Assets, now, SignedDuration::ZERO);
        admission.await.expect("an answer")
    };
    let day = 24 * 3600;
    let admitted = Admission::Admitted { confirmed: false };
    assert_eq!(admit(&records, 0).await, admitted);
    drop(records);
    for start in 1..3 {
        let store = Store::open(root.path()).expect("the store again");
        let admission = admit(&store.records(), 400 * day + start).await;
        assert_eq!(admission, Admission::Held { left: HOLD });
    }
}

#[tokio::test]
async fn a_finer_time_reads_back_as_it_was_answered() {
    let (_root, records) = records();
    let nanos = Timestamp::new(1_790_000_000, 123_456_789).expect("in range");
    let asset = Asset {
        created_at: nanos,
        expires_at: Some(Timestamp::MAX),
        ..asset(1, 0, 0, 0)
    };
    let insert = InsertAsset {
        asset: asset.clone(),
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    let outcome = records.insert(insert, nanos).await.expect("an answer");
    let InsertOutcome::Created { asset: made, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let read = records.get(&asset.account, asset.id, nanos).await;
    assert_eq!(read.expect("an answer"), Some(made));
}

#[tokio::test]
async fn records_outlive_the_process() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let asset = asset(1, 0, 0, 50);
    let insert = InsertAsset {
        asset: asset.clone(),
        rule: InsertRule::Upload,
        claim: None,
        most_bytes: None,
    };
    let store = Store::open(root.path()).expect("a fresh store");
    store
        .records()
        .insert(insert, at(0))
        .await
        .expect("an answer");
    drop(store);
    let store = Store::open(root.path()).expect("the store again");
    let read = store.records().get(&asset.account, asset.id, at(0)).await;
    assert_eq!(read.expect("an answer"), Some(asset));
}

/// One call, its arguments drawn from so few that calls meet.
#[derive(Clone, Debug)]
enum Call {
    Insert {
        account: u8,
        hash: u8,
        path: u8,
        rule: InsertRule,
        expires: i64,
        key: Option<(u8, u8)>,
    },
    Get(u8, u8),
    FindHash(u8, u8),
    FindPath(u8, u8),
    Hold(u8, u8, bool),
    Remove(u8, u8),
    Expire,
    Unreferenced,
    Wait(i64),
}

fn call() -> impl Strategy<Value = Call> {
    let rule = prop_oneof![
        Just(InsertRule::Upload),
        Just(InsertRule::FreeName),
        Just(InsertRule::FromHash)
    ];
    let key = proptest::option::of((0..3u8, 0..2u8));
    prop_oneof![
        4 => (0..2u8, 0..3u8, 0..3u8, rule, 1..40i64, key).prop_map(
            |(account, hash, path, rule, expires, key)| Call::Insert {
                account, hash, path, rule, expires, key,
            }
        ),
        1 => (0..2u8, 0..20u8).prop_map(|(account, id)| Call::Get(account, id)),
        1 => (0..2u8, 0..3u8).prop_map(|(account, hash)| Call::FindHash(account, hash)),
        1 => (0..2u8, 0..3u8).prop_map(|(account, path)| Call::FindPath(account, path)),
        2 => (0..20u8, 0..3u8, any::<bool>()).prop_map(|(id, hold, held)| Call::Hold(id, hold, held)),
        2 => (0..2u8, 0..20u8).prop_map(|(account, id)| Call::Remove(account, id)),
        1 => Just(Call::Expire),
        1 => Just(Call::Unreferenced),
        2 => (1..20i64).prop_map(Call::Wait),
    ]
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).expect("in range")
}

fn account(number: u8) -> AccountId {
    format!("a{number}").parse().expect("a valid name")
}

fn hash(number: u8) -> BlobHash {
    BlobHash::of(&[number])
}

fn asset(id: u8, hash_number: u8, path: u8, expires: i64) -> Asset {
    Asset {
        id: AssetId(Uuid::from_u128(id.into())),
        account: account(0),
        hash: hash(hash_number),
        size_bytes: 1,
        content_type: "image/png".to_owned(),
        // The first of the paths is no path.
        file_path: (path > 0).then(|| format!("p{path}").parse().expect("a valid path")),
        tags: Vec::new(),
        created_at: at(0),
        expires_at: Some(at(expires)),
        job_id: None,
    }
}

/// What a store answers to a call. An id is that of the call that made it.
async fn answer(records: &dyn AssetRecords, call: Call, index: u8, clock: &mut i64) -> String {
    let now = at(*clock);
    let id = |number: u8| AssetId(Uuid::from_u128(number.into()));
    match call {
        Call::Insert {
            account: number,
            hash,
            path,
            rule,
            expires,
            key,
        } => {
            let asset = Asset {
                account: account(number),
                ..asset(index, hash, path, *clock + expires)
            };
            let claim = key.map(|(digest, request)| KeyClaim {
                digest: [digest; 32],
                fingerprint: accounts::Fingerprint([request; 32]),
                expires_at: at(*clock + 30),
            });
            let insert = InsertAsset {
                asset,
                rule,
                claim,
                most_bytes: None,
            };
            format!("{:?}", records.insert(insert, now).await)
        }
        Call::Get(number, asset) => {
            format!("{:?}", records.get(&account(number), id(asset), now).await)
        }
        Call::FindHash(number, bytes) => {
            let query = AssetQuery::Hash(hash(bytes));
            format!("{:?}", records.find(&account(number), &query, now).await)
        }
        Call::FindPath(number, path) => {
            let query = AssetQuery::Path(format!("p{path}").parse().expect("a valid path"));
            format!("{:?}", records.find(&account(number), &query, now).await)
        }
        Call::Hold(asset, hold, held) => {
            let job = Uuid::from_u128(7);
            let hold = [Hold::Input(job), Hold::Output(job), Hold::Operator][usize::from(hold)];
            format!("{:?}", records.hold(id(asset), hold, held).await)
        }
        Call::Remove(number, asset) => {
            format!(
                "{:?}",
                records.remove(&account(number), id(asset), now).await
            )
        }
        // Which of several go first is free: all of them do.
        Call::Expire => format!("{:?}", records.expire(now, 1_000).await),
        Call::Unreferenced => {
            let all = [hash(0), hash(1), hash(2)];
            format!("{:?}", records.unreferenced(&all).await)
        }
        Call::Wait(seconds) => {
            *clock += seconds;
            String::new()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_answer_any_calls_as_memory_does(calls in proptest::collection::vec(call(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (_root, rows) = records();
            let memory = MemoryRecords::new();
            let (mut clock, mut twin) = (0, 0);
            for (index, call) in (0..).zip(calls) {
                let expected = answer(&memory, call.clone(), index, &mut twin).await;
                let answered = answer(&rows, call.clone(), index, &mut clock).await;
                prop_assert_eq!(answered, expected, "{:?}", call);
            }
            Ok(())
        })?;
    }
}
