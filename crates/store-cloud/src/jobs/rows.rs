//! The SQL of the jobs themselves, many at a time: the row that each state is written over.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use jiff::SignedDuration;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use workflow_core::{Epoch, Job, JobBody, JobId, JobStatus, WorkerId};

use super::documents::{self, ErrorDocument, ProgressDocument};
use super::{Shared, sets};
use crate::DatabaseError;
use crate::columns::{from_micros, parse, unreadable, unsigned, whole_micros};
use crate::statements::{Values, execute, prepare, query, whole};
use crate::step::{Commits, Step};

/// A job whose status is none.
#[derive(Debug, thiserror::Error)]
#[error("there is no job status of this name")]
struct UnknownStatus;

/// A job with what is in its row besides.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The job; whether its outputs are there depends on who read it.
    pub(super) job: Job,
    /// The number of its submission.
    pub(super) number: i64,
    /// The name of its requirement set.
    pub(super) requirements: Uuid,
    /// How many jobs of the account may run at once.
    pub(super) account_room: u32,
    /// Most bytes that the account may have stored.
    pub(super) stored_bytes: Option<u64>,
    /// How many bytes of the account its body takes.
    pub(super) body_bytes: i64,
    /// Whether it has outputs, read or not.
    pub(super) has_outputs: bool,
}

impl Row {
    /// The row of a job that is new.
    pub(super) fn of_new(job: &Job, body: &JobBody, number: i64) -> Self {
        let placement = &body.placement;
        Self {
            job: as_it_reads_back(job.clone()),
            number,
            requirements: sets::name(&placement.requirements),
            account_room: placement.account_room,
            stored_bytes: placement.stored_bytes,
            body_bytes: whole(body.stored_bytes()),
            has_outputs: false,
        }
    }
}

/// The columns of `jobs` and of `jobs_over`.
pub(super) const COLUMNS: &str = "id, account, number, requirements, account_room, stored_bytes, body_bytes, revision, \
    status, epoch, worker, lost_claims, created_at, updated_at, started_at, completed_at, expires_at, retention, \
    progress_value, progress, outputs, error, metadata";

/// Rows as parameters of a statement, in the order of [`COLUMNS`].
const UNNEST: &str = "unnest($1::uuid[], $2::text[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], \
    $7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::uuid[], $12::bigint[], $13::bigint[], $14::bigint[], \
    $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::double precision[], $20::text[], $21::bigint[], \
    $22::text[], $23::text[])";

/// The documents of a job's outputs, in the order of their commits.
pub(super) const OUTPUTS: &str = "CASE WHEN outputs = 0 THEN NULL ELSE \
    (SELECT array_agg(document ORDER BY job_outputs.number) FROM job_outputs WHERE job = id) END AS documents";

/// Jobs by id, over or not, with their outputs: as they all were at one moment.
pub(super) async fn load(
    rows: &impl GenericClient,
    ids: &[Uuid],
) -> Result<HashMap<JobId, Row>, DatabaseError> {
    let found = query(rows, &load_sql(), &[&ids]).await?;
    let found = found.iter().map(|row| {
        let row = with_outputs(row)?;
        Ok((row.job.id, row))
    });
    found.collect()
}

/// The same of those who asked, for each of them, by a plan that is kept: planning takes longer than reading. A row that cannot be
/// read is nobody's but those who asked for it.
pub(super) async fn load_each(
    store: &Shared,
    asked: &[JobId],
) -> Result<Vec<Result<Option<Row>, DatabaseError>>, DatabaseError> {
    let mut ids: Vec<Uuid> = asked.iter().map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let step = Step::on(&store.database).await?;
    let found = query(&*step, &load_sql(), &[&ids]).await?;
    drop(step);
    let mut rows = HashMap::with_capacity(found.len());
    for row in &found {
        rows.insert(row.try_get::<_, Uuid>("id")?, row);
    }
    let each = asked.iter().map(|id| {
        let row = rows.get(&id.0);
        row.map(|row| with_outputs(row)).transpose()
    });
    Ok(each.collect())
}

fn load_sql() -> String {
    format!(
        "SELECT {COLUMNS}, {OUTPUTS} FROM jobs WHERE id = ANY($1)
         UNION ALL SELECT {COLUMNS}, {OUTPUTS} FROM jobs_over WHERE id = ANY($1)"
    )
}

/// Begins a transaction that locks jobs, in the order of their ids, and reads them without their outputs.
pub(super) async fn lock_begun(
    step: &Step,
    commits: Commits,
    ids: &[Uuid],
) -> Result<HashMap<JobId, Row>, DatabaseError> {
    let sql =
        |table| format!("SELECT {COLUMNS} FROM {table} WHERE id = ANY($1) ORDER BY id FOR UPDATE");
    let [lock] = prepare(&**step, [&*sql("jobs")]).await?;
    let values: Values<'_> = &[&ids];
    let (begun, found) = tokio::join!(step.begin(commits), step.query(&lock, values));
    begun?;
    let mut found = found?;
    if found.len() < ids.len() {
        found.extend(query(&**step, &sql("jobs_over"), values).await?);
    }
    read_all(&found)
}

/// Locks those jobs in the queue or at work that nobody else has locked, and reads them with their outputs.
pub(super) async fn lock_free(
    rows: &impl GenericClient,
    ids: &[Uuid],
) -> Result<HashMap<JobId, Row>, DatabaseError> {
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ANY($1) FOR UPDATE SKIP LOCKED");
    let mut locked = read_all(&query(rows, &sql, &[&ids]).await?)?;
    let with_outputs = locked.values().filter(|row| row.has_outputs);
    let with_outputs: Vec<Uuid> = with_outputs.map(|row| row.job.id.0).collect();
    if !with_outputs.is_empty() {
        // After the lock, so that those are among them that were committed while this waited for it.
        locked.extend(load(rows, &with_outputs).await?);
    }
    Ok(locked)
}

/// Jobs that are not over, without their outputs.
pub(super) async fn live(
    rows: &impl GenericClient,
    ids: &[Uuid],
) -> Result<HashMap<JobId, Row>, DatabaseError> {
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ANY($1)");
    read_all(&query(rows, &sql, &[&ids]).await?)
}

fn read_all(found: &[tokio_postgres::Row]) -> Result<HashMap<JobId, Row>, DatabaseError> {
    let found = found.iter().map(|row| {
        let row = read(row)?;
        Ok((row.job.id, row))
    });
    found.collect()
}

/// Adds rows of jobs to a table.
pub(super) async fn insert(
    rows: &impl GenericClient,
    table: &str,
    jobs: &[&Row],
) -> Result<(), DatabaseError> {
    if !jobs.is_empty() {
        let sql = format!("INSERT INTO {table} ({COLUMNS}) SELECT * FROM {UNNEST}");
        execute(rows, &sql, &Columns::of(jobs).params()).await?;
    }
    Ok(())
}

/// Writes states of jobs over those before, which the transaction has locked.
pub(super) async fn update(
    rows: &impl GenericClient,
    table: &str,
    jobs: &[&Row],
) -> Result<(), DatabaseError> {
    if !jobs.is_empty() {
        // By the ids besides the join: the plan that is kept reads the whole index in its place where vacuum is held up, since few jobs
        // live then in a long index.
        let sql = format!(
            "UPDATE {table} AS j SET revision = n.revision, status = n.status, epoch = n.epoch, worker = n.worker,
                lost_claims = n.lost_claims, updated_at = n.updated_at, started_at = n.started_at,
                completed_at = n.completed_at, expires_at = n.expires_at, progress_value = n.progress_value,
                progress = n.progress, outputs = n.outputs, error = n.error
             FROM {UNNEST} AS n ({COLUMNS}) WHERE j.id = ANY($1) AND j.id = n.id"
        );
        execute(rows, &sql, &Columns::of(jobs).params()).await?;
    }
    Ok(())
}

/// A job as it will read back.
pub(super) fn as_it_reads_back(job: Job) -> Job {
    Job {
        created_at: whole_micros(job.created_at),
        updated_at: whole_micros(job.updated_at),
        started_at: job.started_at.map(whole_micros),
        completed_at: job.completed_at.map(whole_micros),
        expires_at: whole_micros(job.expires_at),
        retention: SignedDuration::from_micros(micros(job.retention)),
        ..job
    }
}

/// Reads a row of jobs with its outputs.
pub(super) fn with_outputs(row: &tokio_postgres::Row) -> Result<Row, DatabaseError> {
    let mut read = read(row)?;
    let documents: Option<Vec<&str>> = row.try_get("documents")?;
    let outputs = documents.unwrap_or_default().into_iter();
    read.job.outputs = outputs
        .map(documents::read_output)
        .collect::<Result<_, _>>()?;
    Ok(read)
}

/// Reads a row of jobs, all but its outputs.
fn read(row: &tokio_postgres::Row) -> Result<Row, DatabaseError> {
    let time = |column: &str| from_micros(row.try_get(column)?);
    let maybe_time = |column: &str| {
        let micros: Option<i64> = row.try_get(column)?;
        micros.map(from_micros).transpose()
    };
    let error: Option<&str> = row.try_get("error")?;
    let error = error.map(documents::read::<ErrorDocument>).transpose()?;
    let progress: ProgressDocument = documents::read(row.try_get("progress")?)?;
    let status = JobStatus::from_name(row.try_get("status")?);
    let stored_bytes: Option<i64> = row.try_get("stored_bytes")?;
    let job = Job {
        id: JobId(row.try_get("id")?),
        account: parse(row.try_get("account")?)?,
        revision: unsigned(row.try_get("revision")?)?,
        status: status.ok_or_else(|| unreadable(UnknownStatus))?,
        epoch: Epoch(unsigned(row.try_get("epoch")?)?),
        worker: row.try_get::<_, Option<Uuid>>("worker")?.map(WorkerId),
        lost_claims: unsigned(row.try_get("lost_claims")?)?,
        created_at: time("created_at")?,
        updated_at: time("updated_at")?,
        started_at: maybe_time("started_at")?,
        completed_at: maybe_time("completed_at")?,
        expires_at: time("expires_at")?,
        retention: SignedDuration::from_micros(row.try_get("retention")?),
        progress: progress.with(row.try_get("progress_value")?),
        outputs: Vec::new(),
        error: error.map(Into::into),
        metadata: documents::read(row.try_get("metadata")?)?,
    };
    Ok(Row {
        job,
        number: row.try_get("number")?,
        requirements: row.try_get("requirements")?,
        account_room: unsigned(row.try_get("account_room")?)?,
        stored_bytes: stored_bytes.map(i64::cast_unsigned),
        body_bytes: row.try_get("body_bytes")?,
        has_outputs: row.try_get::<_, i64>("outputs")? > 0,
    })
}

fn micros(span: SignedDuration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Rows by column.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    accounts: Vec<&'a str>,
    requirements: Vec<Uuid>,
    /// Columns 3, 5, 7, 8, 10, 12, 13, 14, 17, 18 and 21.
    numbers: [Vec<i64>; 11],
    /// Columns 6, 15 and 16.
    maybe: [Vec<Option<i64>>; 3],
    statuses: Vec<&'a str>,
    workers: Vec<Option<Uuid>>,
    values: Vec<f64>,
    progress: Vec<String>,
    errors: Vec<Option<String>>,
    metadata: Vec<String>,
}

impl<'a> Columns<'a> {
    fn of(rows: &[&'a Row]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            let job = &row.job;
            columns.ids.push(job.id.0);
            columns.accounts.push(job.account.as_str());
            columns.requirements.push(row.requirements);
            let numbers = [
                row.number,
                i64::from(row.account_room),
                row.body_bytes,
                whole(job.revision),
                i64::from(job.epoch.0),
                i64::from(job.lost_claims),
                job.created_at.as_microsecond(),
                job.updated_at.as_microsecond(),
                job.expires_at.as_microsecond(),
                micros(job.retention),
                whole(job.outputs.len()),
            ];
            for (column, number) in columns.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
            let maybe = [
                row.stored_bytes.map(u64::cast_signed),
                job.started_at.map(|time| time.as_microsecond()),
                job.completed_at.map(|time| time.as_microsecond()),
            ];
            for (column, number) in columns.maybe.iter_mut().zip(maybe) {
                column.push(number);
            }
            columns.statuses.push(job.status.name());
            columns.workers.push(job.worker.map(|worker| worker.0));
            columns.values.push(job.progress.value);
            let progress = ProgressDocument::from(&job.progress);
            columns.progress.push(documents::write(&progress));
            let error = job.error.as_ref();
            let error = error.map(|error| documents::write(&ErrorDocument::from(error)));
            columns.errors.push(error);
            columns.metadata.push(documents::write(&job.metadata));
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 23] {
        let [
            number,
            room,
            body_bytes,
            revision,
            epoch,
            lost_claims,
            created_at,
            updated_at,
            expires_at,
            retention,
            outputs,
        ] = &self.numbers;
        let [stored_bytes, started_at, completed_at] = &self.maybe;
        [
            &self.ids,
            &self.accounts,
            number,
            &self.requirements,
            room,
            stored_bytes,
            body_bytes,
            revision,
            &self.statuses,
            epoch,
            &self.workers,
            lost_claims,
            created_at,
            updated_at,
            started_at,
            completed_at,
            expires_at,
            retention,
            &self.values,
            &self.progress,
            outputs,
            &self.errors,
            &self.metadata,
        ]
    }
}
