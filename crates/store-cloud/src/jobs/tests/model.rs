//! Whatever is asked in whatever order, rows answer as memory does.

use asset_store::MemoryRecords;
use proptest::prelude::*;
use workflow_core::{JobError, MemoryJobs};

use super::*;

/// One call; a job is meant by the number of the call that submitted it.
#[derive(Clone, Debug)]
enum Call {
    Submit {
        key: Option<(u8, u8)>,
        room: u32,
        bound: u32,
    },
    Claim,
    Event(u8, Kind),
    Renew(u8),
    Reap {
        queued_for: i64,
    },
    Expire,
    Load(u8),
    List {
        labelled: bool,
        limit: usize,
    },
    Wait(i64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Cancel,
    Advance,
    Output,
    Finish,
    Fail,
    Stop,
    GiveBack,
}

fn call() -> impl Strategy<Value = Call> {
    let kinds = [
        Kind::Cancel,
        Kind::Advance,
        Kind::Output,
        Kind::Finish,
        Kind::Fail,
        Kind::Stop,
        Kind::GiveBack,
    ];
    let kind = proptest::sample::select(kinds.to_vec());
    let key = proptest::option::of((0..3u8, 0..2u8));
    prop_oneof![
        4 => (key, 1..3u32, 1..6u32).prop_map(|(key, room, bound)| Call::Submit { key, room, bound }),
        4 => Just(Call::Claim),
        6 => (0..30u8, kind).prop_map(|(job, kind)| Call::Event(job, kind)),
        1 => (0..30u8).prop_map(Call::Renew),
        1 => (10..200i64).prop_map(|queued_for| Call::Reap { queued_for }),
        1 => Just(Call::Expire),
        2 => (0..30u8).prop_map(Call::Load),
        1 => (any::<bool>(), 1..5usize).prop_map(|(labelled, limit)| Call::List { labelled, limit }),
        2 => (1..40i64).prop_map(Call::Wait),
    ]
}

fn id(number: u8) -> JobId {
    JobId(Uuid::from_u128(number.into()))
}

fn submission_at(
    number: u8,
    key: Option<(u8, u8)>,
    room: u32,
    bound: u32,
    now: Timestamp,
) -> InsertJob {
    let mut insert = submission(number.into());
    insert.job.created_at = now;
    insert.job.updated_at = now;
    insert.job.retention = SignedDuration::from_secs(60);
    insert.job.expires_at = now + insert.job.retention;
    if number.is_multiple_of(2) {
        insert.job.metadata = [("even".to_owned(), "yes".to_owned())].into();
    }
    insert.body.placement.account_room = room;
    insert.bounds.account = bound;
    // Room for a few bodies and outputs, of every second submission.
    insert.body.placement.stored_bytes =
        bound.is_multiple_of(2).then_some(16 * u64::from(bound) + 2);
    insert.claim = key.map(|(digest, request)| KeyClaim {
        digest: [digest; 32],
        fingerprint: accounts::Fingerprint([request; 32]),
        expires_at: now,
    });
    insert
}

/// What happens to a job as it is kept, saved at once.
async fn happen(store: &dyn JobStore, number: u8, kind: Kind, now: Timestamp) -> String {
    let found = store.load(&acme(), id(number), now).await;
    let Some(job) = found.expect("an answer") else {
        return "absent".to_owned();
    };
    let mut job = Job::clone(&job);
    let (epoch, progress) = (job.epoch, job.progress.clone());
    let broken = JobError::new(JobErrorCode::EngineError, "it broke");
    let event = match kind {
        Kind::Cancel => JobEvent::CancelRequested,
        Kind::Advance | Kind::Output => JobEvent::Advanced { epoch, progress },
        Kind::Finish => JobEvent::Finished { epoch },
        Kind::Fail => JobEvent::Failed {
            epoch,
            error: broken,
        },
        Kind::Stop => JobEvent::Stopped { epoch },
        Kind::GiveBack => JobEvent::GivenBack { epoch },
    };
    if let Err(illegal) = job.apply(event, now) {
        return illegal.to_string();
    }
    let outputs = match kind {
        Kind::Output => vec![output(1_000 + u128::from(number))],
        Kind::Cancel | Kind::Advance | Kind::Finish | Kind::Fail | Kind::Stop | Kind::GiveBack => {
            Vec::new()
        }
    };
    let save = SaveJob {
        outputs,
        ..plain(job)
    };
    format!("{:?}", store.save(save).await)
}

async fn answer<S: JobStore + JobQueue>(
    store: &S,
    records: &dyn AssetRecords,
    call: Call,
    number: u8,
    now: Timestamp,
) -> String {
    let worker = WorkerId(Uuid::from_u128(1));
    let lease = std::time::Duration::from_secs(30);
    match call {
        Call::Submit { key, room, bound } => {
            let insert = submission_at(number, key, room, bound, now);
            format!("{:?}", store.insert(insert, now).await)
        }
        Call::Claim => {
            let request = ClaimRequest {
                worker,
                sets: [needs().id()].into(),
                rooms: Rooms::default(),
                lease,
            };
            format!("{:?}", store.claim(&request, now).await)
        }
        Call::Event(job, kind) => happen(store, job, kind, now).await,
        Call::Renew(job) => {
            let found = store.load(&acme(), id(job), now).await.expect("an answer");
            let epoch = found.map(|job| job.epoch).unwrap_or_default();
            let news = store.renew(worker, &[(id(job), epoch)], lease, now).await;
            format!("{news:?}")
        }
        Call::Reap { queued_for } => {
            let queued_before = now - SignedDuration::from_secs(queued_for);
            let reaped = store.reap(queued_before, now).await;
            let mut reaped = reaped.expect("an answer");
            reaped.sort_unstable_by_key(|job| job.id);
            format!("{reaped:?}")
        }
        Call::Expire => {
            let jobs = store.expire(now, 1_000).await;
            format!("{jobs:?} {:?}", records.expire(now, 1_000).await)
        }
        Call::Load(job) => {
            let loaded = store.load(&acme(), id(job), now).await;
            let body = store.body(&acme(), id(job), now).await;
            let position = store.position(&acme(), id(job)).await;
            format!("{loaded:?} {body:?} {position:?} {:?}", store.depth().await)
        }
        Call::List { labelled, limit } => {
            let even = ("even".to_owned(), "yes".to_owned());
            let query = JobQuery {
                over: None,
                statuses: Vec::new(),
                labels: labelled.then_some(even).into_iter().collect(),
                limit,
                ..query()
            };
            format!("{:?}", store.list(&query, now).await)
        }
        Call::Wait(_) => String::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows_answer_any_calls_as_memory_does(calls in proptest::collection::vec(call(), 1..80)) {
        if !crate::testing::has_postgres() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let database = testing::database().await;
            let (rows, rows_records) = (jobs(&database), PgRecords::new(database.clone()));
            let memory_records = MemoryRecords::new();
            let memory = MemoryJobs::new(memory_records.clone());
            let mut second = 0;
            for (number, call) in (0..).zip(calls) {
                if let Call::Wait(seconds) = call {
                    second += seconds;
                }
                let now = at(second);
                let expected = answer(&memory, &memory_records, call.clone(), number, now).await;
                let answered = answer(&rows, &rows_records, call.clone(), number, now).await;
                prop_assert_eq!(answered, expected, "{:?}", call);
                let expected = memory_records.stored_bytes(&acme()).await.expect("memory");
                let counted = rows_records.stored_bytes(&acme()).await.expect("an answer");
                prop_assert_eq!(counted, expected, "{:?}", call);
                let sum = "SELECT (SELECT coalesce(sum(size_bytes), 0) FROM assets)
                    + (SELECT coalesce(sum(length(workflow) + length(origin)), 0) FROM job_bodies)";
                let connection = database.connection().await.expect("it answers");
                let summed = connection.query_one(&format!("SELECT ({sum})::bigint"), &[]).await;
                let summed: i64 = summed.expect("a sum").get(0);
                prop_assert_eq!(i64::try_from(counted), Ok(summed), "{:?}", call);
            }
            Ok(())
        })?;
    }
}
