//! Saving changes of jobs: what arrives together is one transaction of rows, outputs, records and holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use accounts::AccountId;
use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use uuid::Uuid;
use webhooks::EventKind;
use workflow_core::{
    Durability, Job, JobId, JobLog, JobOutput, JobStatus, NewOutput, SaveJob, SaveOutcome,
};

use super::facts::publish;
use super::insert::enqueue;
use super::outputs::Names;
use super::rows::{self, Row};
use super::{Shared, outputs, records, side_tables};
use crate::DatabaseError;
use crate::changes::{Passed, note};
use crate::newest::{newest, places};
use crate::statements::{Values, execute, prepare};
use crate::step::{Commits, Step};

/// The next state of a job whose row is locked.
pub(super) struct NextState {
    /// Where it stood before.
    pub(super) before: JobStatus,
    /// Its row, with the outputs that are new among the others.
    pub(super) row: Row,
    /// How many of its outputs are new: the last ones.
    pub(super) new_outputs: usize,
    /// What its run wrote.
    pub(super) log: Option<JobLog>,
    /// What its run reported before.
    pub(super) reports: Vec<Passed>,
    /// Until when its claim counts, and the number of that claim, if it is claimed now.
    pub(super) claim: Option<(Timestamp, i64)>,
}

impl NextState {
    /// The next revision of a job, as an event made it.
    pub(super) fn of(row: &Row, job: Job) -> Self {
        let mut job = rows::as_it_reads_back(job);
        job.revision += 1;
        Self {
            before: row.job.status,
            row: Row { job, ..row.clone() },
            new_outputs: 0,
            log: None,
            reports: Vec::new(),
            claim: None,
        }
    }

    pub(super) fn outputs(&self) -> &[JobOutput] {
        let outputs = &self.row.job.outputs;
        &outputs[outputs.len() - self.new_outputs..]
    }

    fn was(&self) -> Stage {
        Stage::of(self.before)
    }

    fn is(&self) -> Stage {
        Stage::of(self.row.job.status)
    }
}

/// In which tables a job is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Over,
}

impl Stage {
    fn of(status: JobStatus) -> Self {
        match status {
            JobStatus::Queued => Self::Waiting,
            JobStatus::Running | JobStatus::Canceling => Self::Running,
            JobStatus::Succeeded | JobStatus::Canceled | JobStatus::Failed | JobStatus::Expired => {
                Self::Over
            }
        }
    }
}

/// What becomes of the turns of an account.
#[derive(Default)]
struct Moved {
    /// How many of its jobs wait no more, less those that wait again.
    departed: i64,
    /// How many of them wait again.
    returned: i64,
    /// The number of its newest claim; 0 if none of these is one.
    claim: i64,
}

/// Lets a transaction's commit return before it is on disk.
pub(crate) async fn may_be_lost(transaction: &Transaction<'_>) -> Result<(), DatabaseError> {
    transaction
        .batch_execute("SET LOCAL synchronous_commit = off")
        .await?;
    Ok(())
}

/// Saves changes of jobs, each over the revision that it began with.
pub(super) async fn save(
    store: &Shared,
    saves: Vec<SaveJob>,
) -> Result<Vec<SaveOutcome>, DatabaseError> {
    // An end is told last, and with what its run reported before.
    let whose: Vec<JobId> = saves.iter().map(|save| save.job.id).collect();
    let mut along = store.changes.take_along(whose).await;
    // What is saved with the next is on disk with it: commits get there in their order.
    let commits = match saves.iter().any(|save| save.durability == Durability::Now) {
        true => Commits::Durably,
        false => Commits::Lazily,
    };
    let mut ids: Vec<Uuid> = saves.iter().map(|save| save.job.id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let step = Step::on(&store.database).await?;
    let rows = &*step;
    let mut known = rows::lock_begun(&step, commits, &ids).await?;
    let mut names = Names::of(rows, &saves, &known).await?;
    // The next states without their new outputs, and these.
    let (mut outcomes, mut next, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for save in saves {
        let row = known.get(&save.job.id);
        let Some(row) = row.filter(|row| save.follows(&row.job)) else {
            outcomes.push(Some(SaveOutcome::Conflict));
            continue;
        };
        if save.exceeds(names.stored_bytes(&save.job.account), row.stored_bytes) {
            outcomes.push(Some(SaveOutcome::QuotaExceeded));
            continue;
        }
        let mut outputs: Vec<NewOutput> = Vec::new();
        for output in save.outputs {
            let is_same = |other: &NewOutput| {
                (&other.node_id, other.index) == (&output.node_id, output.index)
            };
            if !save.job.has(&output) && !outputs.iter().any(is_same) {
                names.count(&save.job.account, &output);
                outputs.push(output);
            }
        }
        let mut state = NextState::of(row, save.job);
        state.log = save.log;
        if !next
            .iter()
            .any(|other: &NextState| other.row.job.id == state.row.job.id)
        {
            state.reports = along.of(state.row.job.id);
        }
        state
            .reports
            .extend(save.reports.iter().filter_map(Passed::of));
        known.insert(state.row.job.id, state.row.clone());
        outcomes.push(None);
        next.push(state);
        new.push(outputs);
    }
    let unnamed = next.iter().zip(&new);
    let unnamed =
        unnamed.flat_map(|(state, outputs)| outputs.iter().map(|output| (&state.row.job, output)));
    let unnamed: Vec<(&Job, &NewOutput)> = unnamed.collect();
    let mut paths = names.give(rows, &unnamed).await?.into_iter();
    for (state, outputs) in next.iter_mut().zip(new) {
        state.new_outputs = outputs.len();
        let named = outputs.into_iter().zip(&mut paths);
        let named = named.map(|(output, path)| output.committed(path));
        state.row.job.outputs.extend(named);
    }
    let mut saved = next.iter();
    let outcomes = outcomes.into_iter().map(|refused| match refused {
        Some(refused) => refused,
        None => {
            let saved = saved.next().expect("one for each that is saved");
            SaveOutcome::Saved(Arc::new(saved.row.job.clone()))
        }
    });
    let outcomes = outcomes.collect();
    put(store, rows, &next).await?;
    step.commit().await?;
    along.told(next.iter().map(|state| state.row.job.id));
    if !next.is_empty() {
        store.changes.ring();
    }
    Ok(outcomes)
}

/// Writes the next states of jobs, each with what follows from it.
pub(super) async fn put(
    store: &Shared,
    transaction: &impl GenericClient,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    if next.is_empty() {
        return Ok(());
    }
    let those = |fits: &dyn Fn(&NextState) -> bool| {
        let those = next.iter().filter(|state| fits(state));
        those.map(|state| &state.row).collect::<Vec<&Row>>()
    };
    let live = those(&|state| state.is() != Stage::Over);
    let over_before = those(&|state| state.was() == Stage::Over);
    let settled = next.iter().filter(|state| state.is() == Stage::Over);
    let settled = settled.map(|state| (&state.row.job, state.new_outputs));
    let settled: Vec<(&Job, usize)> = settled.collect();
    let ended = those(&|state| state.is() == Stage::Over && state.was() != Stage::Over);
    let left = those(&|state| state.was() == Stage::Waiting && state.is() != Stage::Waiting);
    let joined = those(&|state| state.was() != Stage::Waiting && state.is() == Stage::Waiting);
    let stopped = those(&|state| state.was() == Stage::Running && state.is() != Stage::Running);
    let changed = next
        .iter()
        .map(|state| (&state.row.job, &state.reports[..]));
    let changed: Vec<(&Job, &[Passed])> = changed.collect();
    let ends: Vec<&Job> = ended.iter().map(|row| &row.job).collect();
    let logs = next.iter().filter_map(|state| {
        let log = state.log.as_ref()?;
        Some((state.row.job.id, log))
    });
    let logs: Vec<_> = logs.collect();
    // Everything that decides is locked, so none of these waits for the answer of another.
    tokio::try_join!(
        records::settle_ends(transaction, &settled),
        move_turns(transaction, next),
        rows::update(transaction, "jobs", &live),
        rows::update(transaction, "jobs_over", &over_before),
        delete(transaction, "DELETE FROM jobs WHERE id = ANY($1)", &ended),
        rows::insert(transaction, "jobs_over", &ended),
        leave_queue(transaction, &left),
        enqueue(transaction, &joined),
        delete(
            transaction,
            "DELETE FROM job_runs WHERE job = ANY($1)",
            &stopped
        ),
        start_runs(transaction, next),
        outputs::put(transaction, next),
        side_tables::put_logs(transaction, &logs),
        note(transaction, &store.changes, &changed),
        publish(transaction, EventKind::JobEnded, &ends),
    )?;
    Ok(())
}

async fn delete(
    transaction: &impl GenericClient,
    sql: &str,
    jobs: &[&Row],
) -> Result<(), DatabaseError> {
    if !jobs.is_empty() {
        let ids: Vec<Uuid> = jobs.iter().map(|row| row.job.id.0).collect();
        execute(transaction, sql, &[&ids]).await?;
    }
    Ok(())
}

async fn leave_queue(transaction: &impl GenericClient, jobs: &[&Row]) -> Result<(), DatabaseError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let (mut sets, mut accounts, mut numbers) = (vec![], vec![], vec![]);
    for row in jobs {
        sets.push(row.requirements);
        accounts.push(row.job.account.as_str());
        numbers.push(row.number);
    }
    // Their jobs are locked, so that the rows stay where they are found.
    let sql = "DELETE FROM job_queue WHERE ctid = ANY(ARRAY(
        SELECT q.ctid FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS n (requirements, account, number)
        CROSS JOIN LATERAL (
            SELECT q.ctid FROM job_queue AS q
            WHERE q.requirements = n.requirements AND q.account = n.account AND q.number = n.number OFFSET 0
        ) AS q))";
    execute(transaction, sql, &[&sets, &accounts, &numbers]).await?;
    Ok(())
}

/// Counts in their accounts which jobs wait no more or again, and keeps the numbers of claims.
async fn move_turns(
    transaction: &impl GenericClient,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    let mut moved: BTreeMap<&AccountId, Moved> = BTreeMap::new();
    for state in next {
        let (departed, returned) = match (state.was(), state.is()) {
            (Stage::Waiting, Stage::Running | Stage::Over) => (1, 0),
            (Stage::Running | Stage::Over, Stage::Waiting) => (-1, 1),
            (Stage::Waiting, Stage::Waiting) | (Stage::Running | Stage::Over, _) => continue,
        };
        let moved = moved.entry(&state.row.job.account).or_default();
        moved.departed += departed;
        moved.returned += returned;
        let claim = state.claim.map_or(0, |(_, number)| number);
        moved.claim = moved.claim.max(claim);
    }
    if moved.is_empty() {
        return Ok(());
    }
    let accounts: Vec<&str> = moved.keys().map(|account| account.as_str()).collect();
    let (mut departed, mut returned, mut claims) = (vec![], vec![], vec![]);
    for moved in moved.values() {
        departed.push(moved.departed);
        returned.push(moved.returned);
        claims.push(moved.claim);
    }
    // Locked in one order, so that two replicas do not wait for each other.
    let lock = format!(
        "SELECT 1 FROM unnest($1::text[]) AS asked (account) CROSS JOIN LATERAL ({} FOR UPDATE) AS r",
        newest("1", "job_turns", "asked.account")
    );
    let asked = "unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS asked (account, departed, returned, claim)";
    let count = format!(
        "UPDATE job_turns AS t SET departed = t.departed + n.departed, returns = t.returns + n.returned,
            last_claim = greatest(t.last_claim, n.claim)
         FROM ({}) AS n WHERE t.ctid = n.place",
        places("job_turns", asked)
    );
    let [lock, count] = prepare(transaction, [&*lock, &*count]).await?;
    let counts: Values<'_> = &[&accounts, &departed, &returned, &claims];
    let locks: Values<'_> = &[&accounts];
    tokio::try_join!(
        transaction.execute(&lock, locks),
        transaction.execute(&count, counts)
    )?;
    Ok(())
}

async fn start_runs(
    transaction: &impl GenericClient,
    next: &[NextState],
) -> Result<(), DatabaseError> {
    let (mut ids, mut accounts, mut epochs) = (vec![], vec![], vec![]);
    let (mut leases, mut claims) = (vec![], vec![]);
    for state in next {
        if let Some((lease_until, claim)) = state.claim {
            let job = &state.row.job;
            ids.push(job.id.0);
            accounts.push(job.account.as_str());
            epochs.push(i64::from(job.epoch.0));
            leases.push(lease_until.as_microsecond());
            claims.push(claim);
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO job_runs (job, account, epoch, lease_until, claim)
        SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])";
    execute(
        transaction,
        sql,
        &[&ids, &accounts, &epochs, &leases, &claims],
    )
    .await?;
    Ok(())
}
