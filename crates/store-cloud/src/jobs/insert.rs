//! Taking jobs in: what arrives together is one transaction of rows, bodies, keys and holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use accounts::AccountId;
use asset_store::Hold;
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;
use webhooks::EventKind;
use workflow_core::{InsertFacts, InsertJob, InsertJobOutcome, Job, JobBody};

use super::facts::publish;
use super::looks::COUNTS;
use super::rows::{self, Row};
use super::{Shared, records, side_tables};
use crate::DatabaseError;
use crate::changes::{Passed, note};
use crate::columns::{parse, unsigned};
use crate::newest::{newest, places};
use crate::records::rows::{add_holds, add_stored, lock_accounts};
use crate::statements::{Values, execute, prepare, query, whole};
use crate::step::{Commits, Step};

/// What the transaction knows of the queue, itself included.
struct Facts {
    keys: HashMap<(String, Vec<u8>), side_tables::ClaimedKey>,
    keyed_jobs: HashMap<workflow_core::JobId, Arc<Job>>,
    ids: HashSet<Uuid>,
    queued: HashMap<AccountId, u64>,
    queued_in_all: u64,
    stored_bytes: HashMap<AccountId, u64>,
    missing: HashSet<(AccountId, asset_store::AssetId)>,
    /// Numbers for all of them, whether they are taken in or not.
    numbers: Vec<i64>,
}

/// Takes jobs in, unless [`InsertJob::refusal`] has a reason against one.
pub(super) async fn insert(
    store: &Shared,
    inserts: Vec<(InsertJob, Timestamp)>,
) -> Result<Vec<InsertJobOutcome>, DatabaseError> {
    let now = inserts.iter().map(|(_, now)| *now).max();
    let now = now.unwrap_or_default();
    let inserts: Vec<InsertJob> = inserts.into_iter().map(|(insert, _)| insert).collect();
    let step = Step::on(&store.database).await?;
    let mut facts = facts(&step, &inserts, now).await?;
    let (mut outcomes, mut taken) = (Vec::new(), Vec::new());
    for insert in &inserts {
        let refusal = insert.refusal(&facts.of(insert));
        if refusal.is_none() {
            facts.take(insert);
            taken.push(insert);
        }
        outcomes.push(refusal);
    }
    let numbers = &facts.numbers;
    let mut new = put(store, &*step, &taken, numbers, now).await?.into_iter();
    step.commit().await?;
    let bodies = taken.iter().map(|insert| &insert.body);
    let kept = bodies.map(|body| &body.placement.requirements);
    store.sets.kept(kept, now);
    if !taken.is_empty() {
        store.changes.ring();
    }
    let outcomes = outcomes.into_iter().map(|refusal| match refusal {
        Some(refusal) => refusal,
        None => InsertJobOutcome::Inserted(new.next().expect("one for each that is taken")),
    });
    Ok(outcomes.collect())
}

/// Begins a transaction and finds out what decides about the inserts, with the rows of their accounts locked.
async fn facts(step: &Step, inserts: &[InsertJob], now: Timestamp) -> Result<Facts, DatabaseError> {
    let mut accounts: Vec<&str> = inserts
        .iter()
        .map(|insert| insert.job.account.as_str())
        .collect();
    accounts.sort_unstable();
    accounts.dedup();
    lock(step, &accounts).await?;
    let rows = &**step;
    let claims = inserts.iter().filter_map(|insert| {
        let claim = insert.claim.as_ref()?;
        Some((&insert.job.account, &claim.digest))
    });
    let ids: Vec<Uuid> = inserts.iter().map(|insert| insert.job.id.0).collect();
    let ids: Values<'_> = &[&ids];
    let known = "SELECT job FROM job_bodies WHERE job = ANY($1)";
    let whose = inserts.iter().map(|insert| &insert.job.account);
    let whose: Vec<&AccountId> = whose.collect();
    let numbers = "SELECT nextval('job_numbers') FROM generate_series(1, $1::bigint)";
    let count: Values<'_> = &[&whole(inserts.len())];
    let (keys, taken, (queued, queued_in_all), stored_bytes, numbers) = tokio::try_join!(
        side_tables::claimed_keys(rows, claims, now),
        query(rows, known, ids),
        queued(rows, &accounts),
        lock_accounts(rows, &whose),
        query(rows, numbers, count),
    )?;
    let keyed: Vec<Uuid> = keys.values().map(|key| key.job.0).collect();
    let keyed = match keyed.is_empty() {
        true => HashMap::new(),
        false => rows::load(rows, &keyed).await?,
    };
    let keyed_jobs = keyed.into_iter().map(|(id, row)| (id, Arc::new(row.job)));
    let taken = taken.iter().map(|row| row.try_get(0));
    let numbers = numbers.iter().map(|row| row.try_get(0));
    let mut inputs = HashSet::new();
    for insert in inserts {
        let account = &insert.job.account;
        inputs.extend(insert.inputs.iter().map(|input| (account.clone(), *input)));
    }
    Ok(Facts {
        keys,
        keyed_jobs: keyed_jobs.collect(),
        ids: taken.collect::<Result<_, _>>()?,
        queued,
        queued_in_all,
        stored_bytes,
        missing: records::missing(rows, inputs, now).await?,
        numbers: numbers.collect::<Result<_, _>>()?,
    })
}

/// Begins a transaction that locks the rows of accounts, and makes those that are missing.
async fn lock(step: &Step, accounts: &[&str]) -> Result<(), DatabaseError> {
    // A lock alone leaves no version of a row behind. All rows or none are locked by it: everybody locks them in one order.
    let newest = newest("1", "job_accounts", "asked.account");
    let lock = format!(
        "SELECT 1 FROM unnest($1::text[]) AS asked (account) CROSS JOIN LATERAL ({newest} FOR NO KEY UPDATE) AS r
         WHERE $2 = (
            SELECT count(*) FROM unnest($1::text[]) AS asked (account) CROSS JOIN LATERAL ({newest}) AS r
         )"
    );
    let [lock] = prepare(&**step, [&*lock]).await?;
    let count = whole(accounts.len());
    let values: Values<'_> = &[&accounts, &count];
    let (begun, locked) = tokio::join!(step.begin(Commits::Durably), step.query(&lock, values));
    begun?;
    if locked?.len() < accounts.len() {
        let make =
            "INSERT INTO job_accounts AS a (account, entered) SELECT *, 0 FROM unnest($1::text[])
            ON CONFLICT (account) DO UPDATE SET entered = a.entered";
        execute(&**step, make, &[&accounts]).await?;
    }
    Ok(())
}

/// Queued jobs of accounts, and of all accounts. Other replicas' submissions that are not committed do not count in the latter.
async fn queued(
    transaction: &impl GenericClient,
    accounts: &[&str],
) -> Result<(HashMap<AccountId, u64>, u64), DatabaseError> {
    let sql = format!(
        "{COUNTS}, in_all AS (SELECT coalesce(sum(waiting), 0)::bigint AS waiting FROM counts)
         SELECT asked.account, greatest(a.entered - coalesce(t.departed, 0), 0), in_all.waiting
         FROM in_all CROSS JOIN unnest($1::text[]) AS asked (account)
         CROSS JOIN LATERAL ({}) AS a LEFT JOIN LATERAL ({}) AS t ON true",
        newest("r.entered", "job_accounts", "asked.account"),
        newest("r.departed", "job_turns", "asked.account")
    );
    let found = query(transaction, &sql, &[&accounts]).await?;
    let (mut queued, mut in_all) = (HashMap::new(), 0);
    for row in &found {
        queued.insert(parse(row.try_get(0)?)?, unsigned(row.try_get(1)?)?);
        in_all = unsigned(i64::max(row.try_get(2)?, 0))?;
    }
    Ok((queued, in_all))
}

impl Facts {
    fn of(&self, insert: &InsertJob) -> InsertFacts {
        let account = &insert.job.account;
        let known_key = insert.claim.as_ref().and_then(|claim| {
            let key = self.keys.get(&key_of(account, &claim.digest))?;
            let job = self.keyed_jobs.get(&key.job)?;
            Some((key.fingerprint, Arc::clone(job)))
        });
        let is_missing =
            |input: &&asset_store::AssetId| self.missing.contains(&(account.clone(), **input));
        InsertFacts {
            known_key,
            id_is_taken: self.ids.contains(&insert.job.id.0),
            queued: self.queued.get(account).copied().unwrap_or(0),
            queued_in_all: self.queued_in_all,
            stored_bytes: self.stored_bytes.get(account).copied().unwrap_or(0),
            missing_input: insert.inputs.iter().find(is_missing).copied(),
        }
    }

    /// Takes note of a job that is taken in.
    fn take(&mut self, insert: &InsertJob) {
        let (job, account) = (&insert.job, &insert.job.account);
        if let Some(claim) = &insert.claim {
            let key = side_tables::ClaimedKey {
                fingerprint: claim.fingerprint,
                job: job.id,
            };
            self.keys.insert(key_of(account, &claim.digest), key);
            let job = Arc::new(rows::as_it_reads_back(job.clone()));
            self.keyed_jobs.insert(job.id, job);
        }
        self.ids.insert(job.id.0);
        *self.queued.entry(account.clone()).or_default() += 1;
        self.queued_in_all += 1;
        *self.stored_bytes.entry(account.clone()).or_default() += insert.body.stored_bytes();
    }
}

fn key_of(account: &AccountId, digest: &[u8; 32]) -> (String, Vec<u8>) {
    (account.to_string(), digest.to_vec())
}

/// Adds jobs with all that comes with them.
async fn put(
    store: &Shared,
    transaction: &impl GenericClient,
    taken: &[&InsertJob],
    numbers: &[i64],
    now: Timestamp,
) -> Result<Vec<Arc<Job>>, DatabaseError> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let mut new = Vec::with_capacity(taken.len());
    for (insert, number) in taken.iter().zip(numbers) {
        new.push(Row::of_new(&insert.job, &insert.body, *number));
    }
    let new_rows: Vec<&Row> = new.iter().collect();
    let bodies = taken.iter().map(|insert| &insert.body);
    let with_bodies: Vec<(&Row, &JobBody)> = new.iter().zip(bodies.clone()).collect();
    let requirements = bodies.map(|body| &body.placement.requirements).collect();
    let mut holds = Vec::new();
    for insert in taken {
        let hold = Hold::Input(insert.job.id.0);
        holds.extend(insert.inputs.iter().map(|input| (*input, hold)));
    }
    let bytes = new.iter().map(|row| (&row.job.account, row.body_bytes));
    let bytes: Vec<(&AccountId, i64)> = bytes.collect();
    let jobs: Vec<&Job> = new.iter().map(|row| &row.job).collect();
    let new_jobs: Vec<(&Job, &[Passed])> = jobs.iter().map(|job| (*job, &[][..])).collect();
    // Everything that decides is locked, so none of these waits for the answer of another.
    tokio::try_join!(
        add_stored(transaction, &bytes),
        add_holds(transaction, &holds),
        store.sets.put(transaction, requirements, now),
        rows::insert(transaction, "jobs", &new_rows),
        side_tables::put_bodies(transaction, &with_bodies),
        side_tables::put_labels(transaction, &new_rows),
        side_tables::claim_keys(transaction, taken),
        enqueue(transaction, &new_rows),
        enter(transaction, &new),
        note(transaction, &store.changes, &new_jobs),
        publish(transaction, EventKind::JobCreated, &jobs),
    )?;
    Ok(new.into_iter().map(|row| Arc::new(row.job)).collect())
}

/// Puts jobs into the queue.
pub(super) async fn enqueue(
    transaction: &impl GenericClient,
    jobs: &[&Row],
) -> Result<(), DatabaseError> {
    let (mut sets, mut accounts, mut numbers) = (vec![], vec![], vec![]);
    let (mut ids, mut rooms, mut ages) = (vec![], vec![], vec![]);
    for row in jobs {
        sets.push(row.requirements);
        accounts.push(row.job.account.as_str());
        numbers.push(row.number);
        ids.push(row.job.id.0);
        rooms.push(i64::from(row.account_room));
        ages.push(row.job.created_at.as_microsecond());
    }
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO job_queue (requirements, account, number, job, account_room, created_at)
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[])";
    execute(
        transaction,
        sql,
        &[&sets, &accounts, &numbers, &ids, &rooms, &ages],
    )
    .await?;
    Ok(())
}

/// Counts jobs in their accounts; one that is new there has its turn by the number of its first job.
async fn enter(transaction: &impl GenericClient, new: &[Row]) -> Result<(), DatabaseError> {
    let mut by_account: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for row in new {
        let entered = by_account.entry(row.job.account.as_str());
        entered.or_insert((0, row.number)).0 += 1;
    }
    let (accounts, entered): (Vec<&str>, Vec<(i64, i64)>) = by_account.into_iter().unzip();
    let (counts, numbers): (Vec<i64>, Vec<i64>) = entered.into_iter().unzip();
    let asked = "unnest($1::text[], $2::bigint[]) AS asked (account, entered)";
    let count = format!(
        "UPDATE job_accounts AS a SET entered = a.entered + n.entered FROM ({}) AS n WHERE a.ctid = n.place",
        places("job_accounts", asked)
    );
    let begin = format!(
        "INSERT INTO job_turns (account, departed, last_claim)
         SELECT asked.account, 0, asked.number FROM unnest($1::text[], $2::bigint[]) AS asked (account, number)
         LEFT JOIN LATERAL ({}) AS r ON true WHERE r.departed IS NULL ON CONFLICT (account) DO NOTHING",
        newest("r.departed", "job_turns", "asked.account")
    );
    let [count, begin] = prepare(transaction, [&*count, &*begin]).await?;
    let (counts, numbers): (Values<'_>, Values<'_>) =
        (&[&accounts, &counts], &[&accounts, &numbers]);
    tokio::try_join!(
        transaction.execute(&count, counts),
        transaction.execute(&begin, numbers)
    )?;
    Ok(())
}
