//! The SQL of the jobs themselves: the row that each state is written over.

use std::collections::BTreeSet;

use accounts::AccountId;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use workflow_core::{Epoch, Job, JobBody, JobId, JobStatus, Placement, Progress, WorkerId};

use super::documents::{self, ErrorDocument};
use super::{outputs, requirements, side_tables};
use crate::columns::{Id, Micros, parse, unreadable, whole_micros};
use crate::records::rows as records;

/// A job whose status is none.
#[derive(Debug, thiserror::Error)]
#[error("there is no job status of this name")]
struct UnknownStatus;

/// Adds a job under a number with what lies beside it.
pub(super) fn insert(
    rows: &Connection,
    seq: i64,
    job: &Job,
    body: &JobBody,
) -> rusqlite::Result<()> {
    let requirements = requirements::number(rows, &body.placement.requirements)?;
    let mut insert = rows.prepare_cached(
        "INSERT INTO jobs (seq, id, account, revision, status, epoch, worker, lost_claims, created_at, updated_at,
            started_at, completed_at, expires_at, retention, progress_value, nodes_done, nodes_total, current_node,
            current_node_class, step, steps, message, error, metadata, body_bytes, requirements)
         VALUES (:seq, :id, :account, 0, :status, :epoch, NULL, 0, :created_at, :updated_at, NULL, NULL, :expires_at,
            :retention, :value, :nodes_done, :nodes_total, NULL, NULL, NULL, NULL, NULL, NULL, :metadata, :body_bytes,
            :requirements)",
    )?;
    insert.execute(named_params! {
        ":seq": seq,
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
        ":body_bytes": body.stored_bytes().cast_signed(),
        ":requirements": requirements,
    })?;
    records::add_stored_bytes(rows, &job.account, body.stored_bytes())?;
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
    side_tables::put_body(rows, seq, body)
}

/// Writes the state of a job over the revision before it and answers its number; `None` if that is not the one in the row.
/// Between the two, `skipped` revisions were in no row.
pub(super) fn update(rows: &Connection, job: &Job, skipped: u64) -> rusqlite::Result<Option<i64>> {
    let progress = &job.progress;
    let mut update = rows.prepare_cached(
        "UPDATE jobs SET revision = :revision, status = :status, epoch = :epoch, worker = :worker,
            lost_claims = :lost_claims, updated_at = :updated_at, started_at = :started_at,
            completed_at = :completed_at, expires_at = :expires_at, progress_value = :value, nodes_done = :nodes_done,
            nodes_total = :nodes_total, current_node = :current_node, current_node_class = :current_node_class,
            step = :step, steps = :steps, message = :message, error = :error
         WHERE id = :id AND revision = :before RETURNING seq",
    )?;
    let state = named_params! {
        ":id": Id(job.id.0),
        ":revision": job.revision.cast_signed(),
        ":before": (job.revision - 1 - skipped).cast_signed(),
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

/// Whether there is a job of an id, whatever its account and age.
pub(super) fn exists(rows: &Connection, id: JobId) -> rusqlite::Result<bool> {
    rows.prepare_cached("SELECT 1 FROM jobs WHERE id = ?1")?
        .exists([Id(id.0)])
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

/// The highest number of a job, over or not; 0 without jobs.
pub(super) fn latest_seq(rows: &Connection) -> rusqlite::Result<u64> {
    rows.query_row("SELECT coalesce(max(seq), 0) FROM jobs", [], |row| {
        row.get::<_, i64>(0).map(i64::unsigned_abs)
    })
}

/// The jobs that are not over with their numbers and placements, in the order of their submission.
pub(super) fn live(rows: &Connection) -> rusqlite::Result<Vec<(i64, Job, Placement)>> {
    let mut statement = rows.prepare(
        "SELECT jobs.*, job_bodies.placement, requirement_sets.text AS requirement_set
         FROM jobs JOIN job_bodies USING (seq) LEFT JOIN requirement_sets USING (requirements)
         WHERE completed_at IS NULL ORDER BY seq",
    )?;
    let found = statement.query_map([], |row| {
        let (seq, job) = job(row)?;
        Ok((seq, job, requirements::placement(row)?))
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

/// Deletes at most `limit` jobs past their time with all that lies beside them, and the holds of theirs.
pub(super) fn expire(
    rows: &Connection,
    now: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<JobId>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let over = {
        let mut over = rows.prepare_cached(
            "SELECT id, requirements FROM jobs WHERE completed_at IS NOT NULL AND expires_at <= ?1
             ORDER BY expires_at LIMIT ?2",
        )?;
        let over = over.query_map(params![Micros(now), limit], |row| {
            Ok((JobId(row.get::<_, Id>(0)?.0), row.get(1)?))
        })?;
        over.collect::<rusqlite::Result<Vec<(JobId, Option<i64>)>>>()?
    };
    for (id, _) in &over {
        rows.prepare_cached("DELETE FROM asset_holds WHERE job_id = ?1")?
            .execute([Id(id.0)])?;
        crate::faults::fault_point!("job-expire");
        rows.prepare_cached("DELETE FROM jobs WHERE id = ?1")?
            .execute([Id(id.0)])?;
    }
    let sets: BTreeSet<i64> = over.iter().filter_map(|(_, set)| *set).collect();
    for set in sets {
        requirements::forget_unused(rows, set)?;
    }
    Ok(over.into_iter().map(|(id, _)| id).collect())
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
