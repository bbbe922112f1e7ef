//! The SQL of jobs and of what lies beside them. A job's outputs have a file of their own.

use accounts::{AccountId, Fingerprint};
use asset_store::KeyClaim;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params, params_from_iter};
use workflow_core::{
    Epoch, Job, JobBody, JobId, JobLog, JobQuery, JobStatus, Placement, Progress, WorkerId,
};

use super::documents::{self, ErrorDocument, PlacementDocument};
use super::outputs;
use crate::columns::{Id, Micros, parse, unreadable, whole_micros};

/// A job whose status is none.
#[derive(Debug, thiserror::Error)]
#[error("there is no job status of this name")]
struct UnknownStatus;

/// A claimed key and the job it stands for.
pub(super) struct ClaimedKey {
    pub(super) fingerprint: Fingerprint,
    pub(super) job: JobId,
}

/// Adds a job with what lies beside it; answers its number.
pub(super) fn insert(rows: &Connection, job: &Job, body: &JobBody) -> rusqlite::Result<i64> {
    let mut insert = rows.prepare_cached(
        "INSERT INTO jobs (id, account, revision, status, epoch, worker, lost_claims, created_at, updated_at,
            started_at, completed_at, expires_at, retention, progress_value, nodes_done, nodes_total, current_node,
            current_node_class, step, steps, message, error, metadata)
         VALUES (:id, :account, 0, :status, :epoch, NULL, 0, :created_at, :updated_at, NULL, NULL, :expires_at,
            :retention, :value, :nodes_done, :nodes_total, NULL, NULL, NULL, NULL, NULL, NULL, :metadata)",
    )?;
    let seq = insert.insert(named_params! {
        ":id": Id(job.id.0),
        ":account": job.account.as_str(),
        ":status": job.status.name(),
        ":epoch": job.epoch.0,
        ":created_at": Micros(job.created_at),
        ":updated_at": Micros(job.updated_at),
        ":expires_at": Micros(job.expires_at),
        ":retention": micros(job.retention),
        ":value": job.progress.value,
        ":nodes_done": job.progress.nodes_done,
        ":nodes_total": job.progress.nodes_total,
        ":metadata": documents::write(&job.metadata),
    })?;
    for (key, value) in &job.metadata {
        rows.prepare_cached(
            "INSERT INTO job_labels (account, key, value, created_at, id, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            job.account.as_str(),
            key,
            value,
            Micros(job.created_at),
            Id(job.id.0),
            seq,
        ])?;
    }
    rows.prepare_cached(
        "INSERT INTO job_bodies (seq, workflow, files, targets, origin, placement) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        seq,
        &body.workflow[..],
        documents::write(&documents::files(&body.files)),
        body.targets.as_ref().map(documents::write),
        &body.origin[..],
        documents::write(&PlacementDocument::from(&body.placement)),
    ])?;
    Ok(seq)
}

/// Writes the state of a job over the revision before it and answers its number; `None` if that is not the one in the row.
pub(super) fn update(rows: &Connection, job: &Job) -> rusqlite::Result<Option<i64>> {
    let progress = &job.progress;
    let mut update = rows.prepare_cached(
        "UPDATE jobs SET revision = :revision, status = :status, epoch = :epoch, worker = :worker,
            lost_claims = :lost_claims, updated_at = :updated_at, started_at = :started_at,
            completed_at = :completed_at, expires_at = :expires_at, progress_value = :value, nodes_done = :nodes_done,
            nodes_total = :nodes_total, current_node = :current_node, current_node_class = :current_node_class,
            step = :step, steps = :steps, message = :message, error = :error
         WHERE id = :id AND revision = :revision - 1 RETURNING seq",
    )?;
    let state = named_params! {
        ":id": Id(job.id.0),
        ":revision": job.revision.cast_signed(),
        ":status": job.status.name(),
        ":epoch": job.epoch.0,
        ":worker": job.worker.map(|worker| Id(worker.0)),
        ":lost_claims": job.lost_claims,
        ":updated_at": Micros(job.updated_at),
        ":started_at": job.started_at.map(Micros),
        ":completed_at": job.completed_at.map(Micros),
        ":expires_at": Micros(job.expires_at),
        ":value": progress.value,
        ":nodes_done": progress.nodes_done,
        ":nodes_total": progress.nodes_total,
        ":current_node": progress.current_node.as_ref().map(|node| node.as_str()),
        ":current_node_class": progress.current_node_class,
        ":step": progress.step,
        ":steps": progress.steps,
        ":message": progress.message,
        ":error": job.error.as_ref().map(|error| documents::write(&ErrorDocument::from(error))),
    };
    update.query_row(state, |row| row.get(0)).optional()
}

/// A job, whatever its account and age.
pub(super) fn load(rows: &Connection, id: JobId) -> rusqlite::Result<Option<Job>> {
    let found = rows
        .prepare_cached("SELECT * FROM jobs WHERE id = ?1")?
        .query_row([Id(id.0)], job)
        .optional()?;
    let Some((seq, mut job)) = found else {
        return Ok(None);
    };
    job.outputs = outputs::load(rows, seq)?;
    Ok(Some(job))
}

/// The jobs that are not over with their numbers and placements, in the order of their submission.
pub(super) fn live(rows: &Connection) -> rusqlite::Result<Vec<(i64, Job, Placement)>> {
    let mut statement = rows.prepare(
        "SELECT jobs.*, job_bodies.placement FROM jobs JOIN job_bodies USING (seq)
         WHERE completed_at IS NULL ORDER BY seq",
    )?;
    let found = statement.query_map([], |row| {
        let (seq, job) = job(row)?;
        let placement: PlacementDocument = documents::read(row.get_ref("placement")?.as_str()?)?;
        Ok((seq, job, placement.into()))
    })?;
    let mut found = found.collect::<rusqlite::Result<Vec<(i64, Job, Placement)>>>()?;
    for (seq, job, _) in &mut found {
        job.outputs = outputs::load(rows, *seq)?;
    }
    Ok(found)
}

/// The number of a job that its account may see.
pub(super) fn find(
    rows: &Connection,
    account: &AccountId,
    id: JobId,
    now: Timestamp,
) -> rusqlite::Result<Option<i64>> {
    rows.prepare_cached(
        "SELECT seq FROM jobs WHERE id = ?1 AND account = ?2 AND (completed_at IS NULL OR expires_at > ?3)",
    )?
    .query_row(params![Id(id.0), account.as_str(), Micros(now)], |row| row.get(0))
    .optional()
}

/// What lies beside a job.
pub(super) fn body(rows: &Connection, seq: i64) -> rusqlite::Result<Option<JobBody>> {
    rows.prepare_cached("SELECT * FROM job_bodies WHERE seq = ?1")?
        .query_row([seq], |row| {
            let targets: Option<String> = row.get("targets")?;
            let placement: PlacementDocument =
                documents::read(row.get_ref("placement")?.as_str()?)?;
            Ok(JobBody {
                workflow: Bytes::from(row.get::<_, Vec<u8>>("workflow")?),
                files: documents::read_files(row.get_ref("files")?.as_str()?)?,
                targets: targets.as_deref().map(documents::read).transpose()?,
                origin: Bytes::from(row.get::<_, Vec<u8>>("origin")?),
                placement: placement.into(),
            })
        })
        .optional()
}

/// Keeps what a run wrote in place of what was kept before.
pub(super) fn put_log(rows: &Connection, seq: i64, log: &JobLog) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT OR REPLACE INTO job_logs (seq, text, truncated, captured_at, complete) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        seq,
        log.text,
        log.truncated,
        Micros(log.captured_at),
        log.complete,
    ])?;
    Ok(())
}

/// What a run wrote.
pub(super) fn log(rows: &Connection, seq: i64) -> rusqlite::Result<Option<JobLog>> {
    rows.prepare_cached(
        "SELECT text, truncated, captured_at, complete FROM job_logs WHERE seq = ?1",
    )?
    .query_row([seq], |row| {
        Ok(JobLog {
            text: row.get(0)?,
            truncated: row.get(1)?,
            captured_at: row.get::<_, Micros>(2)?.0,
            complete: row.get(3)?,
        })
    })
    .optional()
}

/// Claims a key for the job of a number.
pub(super) fn claim_key(
    rows: &Connection,
    account: &AccountId,
    claim: &KeyClaim,
    seq: i64,
) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT OR REPLACE INTO job_keys (account, digest, fingerprint, seq) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![account.as_str(), claim.digest, claim.fingerprint.0, seq])?;
    Ok(())
}

/// A key that was claimed for a job that is still there.
pub(super) fn claimed_key(
    rows: &Connection,
    account: &AccountId,
    digest: &[u8; 32],
    now: Timestamp,
) -> rusqlite::Result<Option<ClaimedKey>> {
    rows.prepare_cached(
        "SELECT fingerprint, jobs.id FROM job_keys JOIN jobs USING (seq)
         WHERE job_keys.account = ?1 AND digest = ?2 AND (completed_at IS NULL OR expires_at > ?3)",
    )?
    .query_row(params![account.as_str(), digest, Micros(now)], |row| {
        Ok(ClaimedKey {
            fingerprint: Fingerprint(row.get(0)?),
            job: JobId(row.get::<_, Id>(1)?.0),
        })
    })
    .optional()
}

/// Ids of the jobs of a list, newest first.
pub(super) fn list(
    rows: &Connection,
    query: &JobQuery,
    now: Timestamp,
) -> rusqlite::Result<Vec<JobId>> {
    // The rarest label is not known; the first one leads and the others are looked up.
    let account = Value::Text(query.account.to_string());
    let mut values = vec![account, Value::Integer(now.as_microsecond())];
    let mut parts = Vec::new();
    for (key, value) in &query.labels {
        let first = values.len() + 1;
        values.extend([Value::Text(key.clone()), Value::Text(value.clone())]);
        parts.push((first, first + 1));
    }
    let mut sql = String::from("SELECT jobs.id FROM ");
    let age = if let [(key, value), others @ ..] = &parts[..] {
        sql += "job_labels AS label JOIN jobs USING (seq) WHERE label.account = ?1";
        sql += &format!(" AND label.key = ?{key} AND label.value = ?{value}");
        for (key, value) in others {
            sql += &format!(
                " AND EXISTS (SELECT 1 FROM job_labels AS other WHERE other.account = ?1 AND other.key = ?{key}
                  AND other.value = ?{value} AND other.created_at = label.created_at AND other.id = label.id)"
            );
        }
        "label"
    } else {
        sql += "jobs WHERE jobs.account = ?1";
        "jobs"
    };
    sql += " AND (completed_at IS NULL OR expires_at > ?2)";
    if let Some(after) = query.after {
        let first = values.len() + 1;
        values.push(Value::Integer(after.created_at.as_microsecond()));
        values.push(Value::Blob(after.id.0.as_bytes().to_vec()));
        sql += &format!(
            " AND ({age}.created_at, {age}.id) < (?{first}, ?{})",
            first + 1
        );
    }
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    sql += &format!(" ORDER BY {age}.created_at DESC, {age}.id DESC LIMIT {limit}");
    let mut statement = rows.prepare_cached(&sql)?;
    let ids = statement.query_map(params_from_iter(values), |row| row.get::<_, Id>(0))?;
    ids.map(|id| Ok(JobId(id?.0))).collect()
}

/// Deletes at most `limit` jobs past their time with all that lies beside them, and the holds of theirs.
pub(super) fn expire(
    rows: &Connection,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<JobId>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let ids = {
        let mut over = rows.prepare_cached(
            "SELECT id FROM jobs WHERE completed_at IS NOT NULL AND expires_at <= ?1
             ORDER BY expires_at LIMIT ?2",
        )?;
        let ids = over.query_map(params![Micros(now), limit], |row| row.get::<_, Id>(0))?;
        ids.map(|id| Ok(JobId(id?.0)))
            .collect::<rusqlite::Result<Vec<_>>>()?
    };
    for id in &ids {
        rows.prepare_cached("DELETE FROM asset_holds WHERE job_id = ?1")?
            .execute([Id(id.0)])?;
        rows.prepare_cached("DELETE FROM jobs WHERE id = ?1")?
            .execute([Id(id.0)])?;
    }
    Ok(ids)
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

/// Reads a row of jobs, all but its outputs.
fn job(row: &Row<'_>) -> rusqlite::Result<(i64, Job)> {
    let time =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<Micros>>(column)?.map(|time| time.0));
    let current_node: Option<String> = row.get("current_node")?;
    let error: Option<String> = row.get("error")?;
    let error = error.as_deref().map(documents::read::<ErrorDocument>);
    let status = JobStatus::from_name(row.get_ref("status")?.as_str()?);
    let job = Job {
        id: JobId(row.get::<_, Id>("id")?.0),
        account: parse(row.get_ref("account")?.as_str()?)?,
        revision: row.get::<_, i64>("revision")?.cast_unsigned(),
        status: status.ok_or_else(|| unreadable(UnknownStatus))?,
        epoch: Epoch(row.get("epoch")?),
        worker: row.get::<_, Option<Id>>("worker")?.map(|id| WorkerId(id.0)),
        lost_claims: row.get("lost_claims")?,
        created_at: row.get::<_, Micros>("created_at")?.0,
        updated_at: row.get::<_, Micros>("updated_at")?.0,
        started_at: time("started_at")?,
        completed_at: time("completed_at")?,
        expires_at: row.get::<_, Micros>("expires_at")?.0,
        retention: SignedDuration::from_micros(row.get("retention")?),
        progress: Progress {
            value: row.get("progress_value")?,
            nodes_done: row.get("nodes_done")?,
            nodes_total: row.get("nodes_total")?,
            current_node: current_node.as_deref().map(Into::into),
            current_node_class: row.get("current_node_class")?,
            step: row.get("step")?,
            steps: row.get("steps")?,
            message: row.get("message")?,
        },
        outputs: Vec::new(),
        error: error.transpose()?.map(Into::into),
        metadata: documents::read(row.get_ref("metadata")?.as_str()?)?,
    };
    Ok((row.get("seq")?, job))
}

fn micros(span: SignedDuration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
