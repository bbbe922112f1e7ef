//! Histories of one process, drawn at random: rows answer as the twin in memory does, also to what jobs do with records.

use accounts::Fingerprint;
use asset_store::{InsertRule, KeyClaim, MemoryRecords, ReleasedBlobs};
use jiff::SignedDuration;
use proptest::prelude::*;
use uuid::Uuid;

use super::super::rows::NewRecord;
use super::*;

/// One call, its arguments drawn from so few that calls meet. Times are seconds from now on.
#[derive(Clone, Debug)]
enum Call {
    Insert {
        record: Drawn,
        rule: InsertRule,
        key: Option<(u8, u8)>,
        bounded: bool,
    },
    Output(Drawn),
    EndOutput(u8, i64),
    Release(u8),
    Hold(u8, u8, bool),
    Remove(u8, u8),
    Expire,
    JobBytes(u8, u8),
    Look(u8),
    Wait(i64),
}

/// A record by its account, its content, its name and when it ends.
#[derive(Clone, Copy, Debug)]
struct Drawn(u8, u8, u8, Option<i64>);

const CONTENTS: u8 = 3;

/// Numbers of calls and so of records.
const CALLS: u8 = 50;

fn call() -> impl Strategy<Value = Call> {
    let drawn = || {
        let ends = proptest::option::weighted(0.9, 1..40_i64);
        (0..2_u8, 0..CONTENTS, 0..3_u8, ends).prop_map(|(a, b, c, ends)| Drawn(a, b, c, ends))
    };
    let rule = prop_oneof![
        Just(InsertRule::Upload),
        Just(InsertRule::FreeName),
        Just(InsertRule::FromHash)
    ];
    let key = proptest::option::of((0..3_u8, 0..2_u8));
    prop_oneof![
        5 => (drawn(), rule, key, any::<bool>()).prop_map(|(record, rule, key, bounded)| {
            Call::Insert { record, rule, key, bounded }
        }),
        2 => drawn().prop_map(Call::Output),
        1 => (0..CALLS, 1..40_i64).prop_map(|(id, ends)| Call::EndOutput(id, ends)),
        1 => (0..3_u8).prop_map(Call::Release),
        3 => (0..CALLS, 0..3_u8, any::<bool>()).prop_map(|(id, hold, held)| Call::Hold(id, hold, held)),
        2 => (0..2_u8, 0..CALLS).prop_map(|(of, id)| Call::Remove(of, id)),
        1 => Just(Call::Expire),
        1 => (0..2_u8, 1..9_u8).prop_map(|(of, bytes)| Call::JobBytes(of, bytes)),
        3 => (0..2_u8).prop_map(Call::Look),
        2 => (1..20_i64).prop_map(Call::Wait),
    ]
}

fn at(seconds: i64) -> Timestamp {
    let start = Timestamp::from_second(1_790_000_000).expect("in range");
    start + SignedDuration::from_secs(seconds)
}

fn id(number: u8) -> AssetId {
    AssetId(Uuid::from_u128(number.into()))
}

fn of(number: u8) -> AccountId {
    format!("a{number}").parse().expect("an id")
}

fn hold(number: u8) -> Hold {
    let job = Uuid::from_u128(7);
    [Hold::Input(job), Hold::Output(job), Hold::Operator][usize::from(number)]
}

fn asset(number: u8, Drawn(account, content, path, ends): Drawn, now: i64) -> Asset {
    Asset {
        id: id(number),
        account: of(account),
        hash: BlobHash::of(&[content]),
        size_bytes: u64::from(content) + 1,
        content_type: "image/png".to_owned(),
        // The first of the paths is no path.
        file_path: (path > 0).then(|| format!("p{path}").parse().expect("a path")),
        tags: vec!["a \"tag\"".to_owned(); usize::from(content)],
        created_at: at(now),
        expires_at: ends.map(|ends| at(now + ends)),
        job_id: None,
    }
}

/// What jobs write, on each of the stores.
enum Twin<'s> {
    Rows(&'s PgRecords),
    Memory(&'s MemoryRecords),
}

impl Twin<'_> {
    async fn output(&self, asset: Asset) {
        match self {
            Self::Memory(memory) => memory.with(|rows| rows.insert_output(asset)),
            Self::Rows(store) => {
                let mut connection = store.database.connection().await.expect("it answers");
                let rows = connection.transaction().await.expect("it answers");
                let locked = rows::lock_accounts(&rows, &[&asset.account]).await;
                locked.expect("it answers");
                let record = NewRecord { asset, temp: false };
                rows::put(&rows, &[record]).await.expect("it answers");
                rows.commit().await.expect("it answers");
            }
        }
    }

    async fn end_output(&self, id: AssetId, at: Timestamp) {
        match self {
            Self::Memory(memory) => memory.with(|rows| rows.expire_output(id, at)),
            Self::Rows(store) => {
                let mut connection = store.database.connection().await.expect("it answers");
                let rows = connection.transaction().await.expect("it answers");
                rows::expire_at(&rows, &[(id, at)])
                    .await
                    .expect("an answer");
                rows.commit().await.expect("it answers");
            }
        }
    }

    async fn release(&self, hold: Hold) {
        match self {
            Self::Memory(memory) => memory.with(|rows| rows.release(hold)),
            Self::Rows(store) => {
                let connection = store.database.connection().await.expect("it answers");
                let released = rows::release(&connection, &[hold]).await;
                released.expect("it answers");
            }
        }
    }

    async fn job_bytes(&self, account: &AccountId, bytes: u8) {
        match self {
            Self::Memory(memory) => memory.with(|rows| rows.add_stored(account, bytes.into())),
            Self::Rows(store) => {
                let mut connection = store.database.connection().await.expect("it answers");
                let rows = connection.transaction().await.expect("it answers");
                let locked = rows::lock_accounts(&rows, &[account]).await;
                locked.expect("it answers");
                let added = rows::add_stored(&rows, &[(account, bytes.into())]).await;
                added.expect("it answers");
                rows.commit().await.expect("it answers");
            }
        }
    }
}

/// What a store answers to the call of this number.
async fn answer<S>(store: &S, twin: Twin<'_>, call: Call, number: u8, now: i64) -> String
where
    S: AssetRecords + FileNames + ReleasedBlobs,
{
    match call {
        Call::Insert {
            record,
            rule,
            key,
            bounded,
        } => {
            let claim = key.map(|(digest, request)| KeyClaim {
                digest: [digest; 32],
                fingerprint: Fingerprint([request; 32]),
                expires_at: at(now + 30),
            });
            let insert = InsertAsset {
                asset: asset(number, record, now),
                rule,
                claim,
                most_bytes: bounded.then_some(12),
            };
            format!("{:?}", store.insert(insert, at(now)).await)
        }
        Call::Output(record) => {
            let job_id = Some(Uuid::from_u128(7));
            let asset = asset(number, record, now);
            twin.output(Asset { job_id, ..asset }).await;
            String::new()
        }
        Call::EndOutput(output, ends) => {
            twin.end_output(id(output), at(now + ends)).await;
            String::new()
        }
        Call::Release(which) => {
            twin.release(hold(which)).await;
            String::new()
        }
        Call::Hold(asset, which, held) => {
            format!("{:?}", store.hold(id(asset), hold(which), held).await)
        }
        Call::Remove(account, asset) => {
            format!("{:?}", store.remove(&of(account), id(asset), at(now)).await)
        }
        // Which of several go first is free: all of them do.
        Call::Expire => format!("{:?}", store.expire(at(now), 1_000).await),
        Call::JobBytes(account, bytes) => {
            twin.job_bytes(&of(account), bytes).await;
            String::new()
        }
        Call::Look(account) => look(store, &of(account), at(now)).await,
        Call::Wait(_) => String::new(),
    }
}

/// Everything that can be read of an account.
async fn look<S>(store: &S, account: &AccountId, now: Timestamp) -> String
where
    S: AssetRecords + FileNames + ReleasedBlobs,
{
    let mut seen = vec![format!("{:?}", store.stored_bytes(account).await)];
    let mut queries = Vec::new();
    for path in ["p1", "p2"] {
        let path = || path.parse().expect("a path");
        queries.push(AssetQuery::Path(path()));
        queries.push(AssetQuery::Upload(path()));
        queries.push(AssetQuery::Output(path()));
    }
    let hashes: Vec<BlobHash> = (0..CONTENTS).map(|n| BlobHash::of(&[n])).collect();
    queries.extend(hashes.iter().map(|hash| AssetQuery::Hash(*hash)));
    for query in queries {
        seen.push(format!("{:?}", store.find(account, &query, now).await));
    }
    for number in 0..CALLS {
        seen.push(format!("{:?}", store.get(account, id(number), now).await));
    }
    for made_by_jobs in [true, false] {
        let named = store.named(account, made_by_jobs, 5, now).await;
        seen.push(format!("{named:?}"));
    }
    seen.push(format!("{:?}", store.unreferenced(&hashes).await));
    seen.push(format!("{:?}", store.among(&hashes).await));
    seen.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_answer_any_calls_as_memory_does(
        calls in proptest::collection::vec(call(), 1..usize::from(CALLS)),
    ) {
        if !crate::testing::has_postgres() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let rows = PgRecords::new(testing::database().await);
            let memory = MemoryRecords::new();
            let mut now = 0;
            for (number, call) in (0..).zip(calls) {
                if let Call::Wait(seconds) = call {
                    now += seconds;
                }
                let twin = Twin::Memory(&memory);
                let expected = answer(&memory, twin, call.clone(), number, now).await;
                let answered = answer(&rows, Twin::Rows(&rows), call.clone(), number, now).await;
                prop_assert_eq!(answered, expected, "{:?}", call);
            }
            Ok(())
        })?;
    }
}
