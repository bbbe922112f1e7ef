//! Everything at once by two processes, with what jobs do in transactions of their own: no transaction waits for another in a
//! circle, and the rows agree at the end.

use accounts::Fingerprint;
use accounts::contract::Dice;
use asset_store::{InsertRule, KeyClaim, ReleasedBlobs};
use jiff::SignedDuration;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::super::rows::NewRecord;
use super::*;
use crate::statements::query;

/// Tasks of each process, and what each of them does.
const TASKS: u64 = 4;
const STEPS: usize = 60;

/// Different ids of records and of jobs: so few that all of them meet.
const IDS: usize = 40;

fn at(seconds: usize) -> Timestamp {
    let start = Timestamp::from_second(1_790_000_000).expect("in range");
    start + SignedDuration::from_secs(i64::try_from(seconds).expect("few"))
}

fn record(dice: &mut Dice, now: usize, job_id: Option<Uuid>) -> Asset {
    let bytes = [u8::try_from(dice.roll(5)).expect("few"); 7];
    Asset {
        id: AssetId(Uuid::from_u128(dice.roll(IDS) as u128)),
        account: ["a", "b", "c"][dice.roll(3)].parse().expect("an id"),
        hash: BlobHash::of(&bytes),
        size_bytes: 7,
        content_type: "image/png".to_owned(),
        file_path: Some("p.png".parse().expect("a path")),
        tags: Vec::new(),
        created_at: at(now),
        expires_at: Some(at(now + dice.roll(20))),
        job_id,
    }
}

fn some_ids(dice: &mut Dice) -> Vec<AssetId> {
    let ids = (0..5).map(|_| AssetId(Uuid::from_u128(dice.roll(IDS) as u128)));
    ids.collect()
}

/// What a job's submission does to its inputs.
async fn submit(store: &PgRecords, job: Uuid, inputs: &[AssetId]) -> Result<(), DatabaseError> {
    let mut connection = store.database.connection().await?;
    let rows = connection.transaction().await?;
    let there = rows::keep(&rows, inputs).await?;
    let holds: Vec<_> = there.into_iter().map(|id| (id, Hold::Input(job))).collect();
    rows::add_holds(&rows, &holds).await?;
    rows.commit().await?;
    Ok(())
}

/// What jobs that end do, with outputs of several accounts in any order.
async fn end(store: &PgRecords, job: Uuid, outputs: Vec<Asset>) -> Result<(), DatabaseError> {
    let mut connection = store.database.connection().await?;
    let rows = connection.transaction().await?;
    let accounts: Vec<_> = outputs.iter().map(|output| &output.account).collect();
    rows::lock_accounts(&rows, &accounts).await?;
    for account in accounts {
        rows::next_numbers(&rows, &[(account.as_str(), "ComfyUI", 1)]).await?;
    }
    let records: Vec<_> = outputs
        .iter()
        .map(|asset| NewRecord {
            asset: asset.clone(),
            temp: false,
        })
        .collect();
    rows::put(&rows, &records).await?;
    let ids: Vec<AssetId> = outputs.iter().map(|asset| asset.id).collect();
    let there = rows::keep(&rows, &ids).await?;
    let holds: Vec<_> = there.iter().map(|id| (*id, Hold::Output(job))).collect();
    rows::add_holds(&rows, &holds).await?;
    rows::release(&rows, &[Hold::Input(job)]).await?;
    let deadlines: Vec<_> = there.iter().map(|id| (*id, at(30))).collect();
    rows::expire_at(&rows, &deadlines).await?;
    rows.commit().await?;
    Ok(())
}

async fn run(store: PgRecords, number: u64) {
    let mut dice = Dice::new(number * 7 + 1);
    // No two tasks have a job in common: its row is locked.
    let job = |n: usize| Uuid::from_u128(u128::from(number) * 100 + n as u128);
    for step in 0..STEPS {
        let now = step / 2;
        match dice.roll(8) {
            0 | 1 => {
                let rule = [
                    InsertRule::Upload,
                    InsertRule::FreeName,
                    InsertRule::FromHash,
                ][dice.roll(3)];
                let key = u8::try_from(dice.roll(4)).expect("few");
                let insert = InsertAsset {
                    asset: record(&mut dice, now, None),
                    rule,
                    claim: Some(KeyClaim {
                        digest: [key; 32],
                        fingerprint: Fingerprint([0; 32]),
                        expires_at: at(now + 5),
                    }),
                    most_bytes: Some(200),
                };
                store.insert(insert, at(now)).await.expect("no deadlock");
            }
            2 => {
                let (id, held) = (some_ids(&mut dice)[0], dice.roll(2) == 0);
                let held = store.hold(id, Hold::Operator, held).await;
                held.expect("no deadlock");
            }
            3 => {
                let account = record(&mut dice, now, None).account;
                let id = some_ids(&mut dice)[0];
                let removed = store.remove(&account, id, at(now)).await;
                removed.expect("no deadlock");
            }
            4 => {
                store.expire(at(now), 10).await.expect("no deadlock");
            }
            5 => {
                let hashes: Vec<_> = (0..5).map(|n| BlobHash::of(&[n; 7])).collect();
                store.forget(&hashes).await.expect("no deadlock");
            }
            6 => {
                let inputs = some_ids(&mut dice);
                let submitted = submit(&store, job(dice.roll(3)), &inputs).await;
                submitted.expect("no deadlock");
            }
            _ => {
                let job = job(dice.roll(3));
                let outputs = (0..4).map(|_| record(&mut dice, now, Some(job)));
                let ended = end(&store, job, outputs.collect()).await;
                ended.expect("no deadlock");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_agree_after_a_storm() {
    if !crate::testing::has_postgres() {
        return;
    }
    let url = testing::fresh_database().await;
    let open = async || PgRecords::new(testing::open(&url).await);
    let stores = [open().await, open().await];
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        for (place, store) in (0..).zip(&stores) {
            tasks.spawn(run(store.clone(), number * 2 + place));
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no task panics");
    }
    let connection = stores[0].database.connection().await.expect("it answers");
    for (what, wrong) in [
        (
            "stored bytes",
            "SELECT account FROM stored_bytes WHERE bytes <> (
                SELECT coalesce(sum(size_bytes), 0) FROM assets WHERE assets.account = stored_bytes.account)",
        ),
        (
            "holds",
            "SELECT 'a hold' FROM asset_holds WHERE NOT EXISTS (SELECT FROM assets WHERE id = asset)",
        ),
        (
            "keys",
            "SELECT account FROM asset_keys WHERE NOT EXISTS (SELECT FROM assets WHERE id = asset)",
        ),
    ] {
        let wrong = query(&connection, wrong, &[]).await.expect("it answers");
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_only_showed_is_not_listed() {
    if !crate::testing::has_postgres() {
        return;
    }
    let store = PgRecords::new(testing::database().await);
    let mut dice = Dice::new(1);
    let job = Some(Uuid::from_u128(9));
    let make = |id: u128, dice: &mut Dice| Asset {
        id: AssetId(Uuid::from_u128(id)),
        account: AccountId::local(),
        expires_at: None,
        ..record(dice, 0, job)
    };
    let records = [1, 2].map(|id| NewRecord {
        asset: make(id, &mut dice),
        temp: id == 2,
    });
    let mut connection = store.database.connection().await.expect("it answers");
    let rows = connection.transaction().await.expect("it answers");
    let stored = rows::lock_accounts(&rows, &[&AccountId::local()]).await;
    assert_eq!(stored.expect("it answers")[&AccountId::local()], 0);
    for _ in 0..2 {
        // A repeated output is the same one.
        rows::put(&rows, &records).await.expect("it answers");
    }
    let mut first = Vec::new();
    for asked in [vec![("a", 3)], vec![("b", 1), ("a", 1)], vec![]] {
        let asked = asked.into_iter();
        let asked = asked.map(|(counter, count)| ("local", counter, count));
        let numbers = rows::next_numbers(&rows, &asked.collect::<Vec<_>>()).await;
        first.push(numbers.expect("it answers"));
    }
    assert_eq!(first, [vec![1], vec![1, 4], vec![]]);
    rows::add_stored(
        &rows,
        &[(&AccountId::local(), 5), (&AccountId::local(), -2)],
    )
    .await
    .expect("it answers");
    rows.commit().await.expect("it answers");
    let stored = store.stored_bytes(&AccountId::local()).await;
    assert_eq!(stored.expect("it answers"), 7 + 7 + 3);
    let listed = store.named(&AccountId::local(), true, 9, at(0)).await;
    let listed: Vec<AssetId> = listed.expect("it answers").iter().map(|it| it.id).collect();
    assert_eq!(listed, [records[0].asset.id]);
}
