//! Whatever is asked in whatever order, a store answers as memory does.
//!
//! The rules beside this file say what each call does alone. Here a seed chooses calls, and both stores get the same ones.

use accounts::contract::Dice;
use asset_store::MemoryRecords;

use super::*;
use crate::{JobError, JobErrorCode, JobQuery, MemoryJobs};

/// How many histories run, and how many calls each of them has.
const SEEDS: u64 = 32;
const CALLS: u8 = 60;

/// How many jobs, from the first call on, later calls mean.
const JOBS: usize = 30;

/// One call; a job is meant by the number of the call that submitted it.
#[derive(Clone, Copy, Debug)]
enum Call {
    Submit {
        /// The digest of a key and the fingerprint of its request.
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

/// Runs the same calls on fresh stores and on memory. `stored_bytes` sums what the rows of a store hold for the account, beside what
/// the store itself has counted.
///
/// # Panics
/// If the store answers a call in another way than memory does, or its count is not that sum.
pub async fn as_memory<S>(
    fresh: impl AsyncFn() -> (Stores, S),
    stored_bytes: impl AsyncFn(&S) -> u64,
) {
    for seed in 1..=SEEDS {
        let (stores, rows) = fresh().await;
        let records = MemoryRecords::new();
        let memory = Arc::new(MemoryJobs::new(records.clone()));
        let memory = Stores {
            jobs: memory.clone(),
            queue: memory,
            records: Arc::new(records),
        };
        let mut dice = Dice::new(seed);
        let mut second = 0;
        for number in 0..CALLS {
            let call = Call::any(&mut dice);
            if let Call::Wait(seconds) = call {
                second += seconds;
            }
            let now = at(second);
            let expected = answer(&memory, call, number, now).await;
            let answered = answer(&stores, call, number, now).await;
            let which = || format!("seed {seed}, call {number}: {call:?}");
            assert_eq!(answered, expected, "{}", which());
            let expected = memory.records.stored_bytes(&ours()).await;
            let counted = stores.records.stored_bytes(&ours()).await;
            let counted = counted.expect("the store answers");
            assert_eq!(expected.expect("memory answers"), counted, "{}", which());
            assert_eq!(stored_bytes(&rows).await, counted, "{}", which());
        }
    }
}

impl Call {
    fn any(dice: &mut Dice) -> Self {
        match dice.roll(23) {
            0..4 => Self::Submit {
                key: (dice.roll(2) == 0).then(|| (below(dice, 3), below(dice, 2))),
                room: 1 + u32::from(below(dice, 2)),
                bound: 1 + u32::from(below(dice, 5)),
            },
            4..8 => Self::Claim,
            8..14 => Self::Event(below(dice, JOBS), Kind::any(dice)),
            14 => Self::Renew(below(dice, JOBS)),
            15 => Self::Reap {
                queued_for: 10 + i64::from(below(dice, 190)),
            },
            16 => Self::Expire,
            17 | 18 => Self::Load(below(dice, JOBS)),
            19 | 20 => Self::List {
                labelled: dice.roll(2) == 0,
                limit: 1 + dice.roll(4),
            },
            _ => Self::Wait(1 + i64::from(below(dice, 39))),
        }
    }
}

impl Kind {
    fn any(dice: &mut Dice) -> Self {
        let all = [
            Self::Cancel,
            Self::Advance,
            Self::Output,
            Self::Finish,
            Self::Fail,
            Self::Stop,
            Self::GiveBack,
        ];
        all[dice.roll(all.len())]
    }
}

fn below(dice: &mut Dice, sides: usize) -> u8 {
    u8::try_from(dice.roll(sides)).expect("few")
}

fn ours() -> AccountId {
    account("a")
}

fn id(number: u8) -> JobId {
    JobId(Uuid::from_u128(number.into()))
}

fn submission(
    number: u8,
    key: Option<(u8, u8)>,
    room: u32,
    bound: u32,
    now: Timestamp,
) -> InsertJob {
    let mut insert = insert_of(number.into(), "a");
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
        fingerprint: Fingerprint([request; 32]),
        expires_at: now,
    });
    insert
}

/// What happens to a job as it is kept, saved at once.
async fn happen(stores: &Stores, number: u8, kind: Kind, now: Timestamp) -> String {
    let found = stores.jobs.load(&ours(), id(number), now).await;
    let Some(job) = found.expect("the store answers") else {
        return "absent".to_owned();
    };
    let mut job = Job::clone(&job);
    let (epoch, progress) = (job.epoch, job.progress.clone());
    let event = match kind {
        Kind::Cancel => JobEvent::CancelRequested,
        Kind::Advance | Kind::Output => JobEvent::Advanced { epoch, progress },
        Kind::Finish => JobEvent::Finished { epoch },
        Kind::Fail => JobEvent::Failed {
            epoch,
            error: JobError::new(JobErrorCode::EngineError, "it broke"),
        },
        Kind::Stop => JobEvent::Stopped { epoch },
        Kind::GiveBack => JobEvent::GivenBack { epoch },
    };
    if let Err(illegal) = job.apply(event, now) {
        return illegal.to_string();
    }
    let outputs = match kind {
        Kind::Output => vec![picture("9", 0, 1_000 + u128::from(number))],
        Kind::Cancel | Kind::Advance | Kind::Finish | Kind::Fail | Kind::Stop | Kind::GiveBack => {
            Vec::new()
        }
    };
    let save = SaveJob {
        job,
        outputs,
        log: None,
        durability: Durability::Now,
        reports: Vec::new(),
    };
    format!("{:?}", stores.jobs.save(save).await)
}

async fn answer(stores: &Stores, call: Call, number: u8, now: Timestamp) -> String {
    let (jobs, queue) = (&stores.jobs, &stores.queue);
    match call {
        Call::Submit { key, room, bound } => {
            let insert = submission(number, key, room, bound, now);
            format!("{:?}", jobs.insert(insert, now).await)
        }
        Call::Claim => format!("{:?}", queue.claim(&request(1), now).await),
        Call::Event(job, kind) => happen(stores, job, kind, now).await,
        Call::Renew(job) => {
            let found = jobs.load(&ours(), id(job), now).await;
            let epoch = found.expect("the store answers").map(|job| job.epoch);
            let claims = [(id(job), epoch.unwrap_or_default())];
            let lease = request(1).lease;
            format!("{:?}", queue.renew(worker(1), &claims, lease, now).await)
        }
        Call::Reap { queued_for } => {
            let queued_before = now - SignedDuration::from_secs(queued_for);
            let reaped = queue.reap(queued_before, now).await;
            let mut reaped = reaped.expect("the queue answers");
            reaped.sort_unstable_by_key(|job| job.id);
            format!("{reaped:?}")
        }
        Call::Expire => {
            let expired = jobs.expire(now, 1_000).await;
            let records = stores.records.expire(now, 1_000).await;
            format!("{expired:?} {records:?}")
        }
        Call::Load(job) => {
            let loaded = jobs.load(&ours(), id(job), now).await;
            let body = jobs.body(&ours(), id(job), now).await;
            let position = queue.position(&ours(), id(job)).await;
            let depth = queue.depth().await;
            format!("{loaded:?} {body:?} {position:?} {depth:?}")
        }
        Call::List { labelled, limit } => {
            let even = ("even".to_owned(), "yes".to_owned());
            let query = JobQuery {
                over: None,
                statuses: Vec::new(),
                account: ours(),
                labels: labelled.then_some(even).into_iter().collect(),
                after: None,
                limit,
                outputs: usize::MAX,
            };
            format!("{:?}", jobs.list(&query, now).await)
        }
        Call::Wait(_) => String::new(),
    }
}
