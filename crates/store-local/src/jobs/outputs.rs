//! What jobs make: a row of the job, a record of the account and a hold, in one transaction.

use std::ops::Range;

use asset_store::{AssetId, AssetQuery, FilePath, Hold};
use rusqlite::{Connection, params};
use workflow_core::{Job, JobOutput, NewOutput, OutputKind, OutputName, SaveJob};

use super::SharedLiveJobs;
use crate::columns::{Hash, Id, Micros, parse};
use crate::records::rows as records;

/// Whether a save has new outputs whose account has used up its bytes.
pub(super) fn is_quota_used_up(
    rows: &Connection,
    live_jobs: &SharedLiveJobs,
    save: &SaveJob,
) -> rusqlite::Result<bool> {
    if !save.has_new_outputs() {
        return Ok(false);
    }
    let Some((most, deferred)) = live_jobs.lock().stored_bound(save.job.id) else {
        return Ok(false);
    };
    let stored = records::stored_bytes(rows, &save.job.account)? + deferred;
    Ok(save.exceeds(stored, Some(most)))
}

/// An output with its name; `None` if the job has it already.
pub(super) fn named(
    rows: &Connection,
    job: &Job,
    output: NewOutput,
) -> rusqlite::Result<Option<JobOutput>> {
    if job.has(&output) {
        return Ok(None);
    }
    let path = settle_name(rows, job, &output.name)?;
    Ok(Some(output.committed(path)))
}

/// Commits an output of a job as its next one.
pub(super) fn put_next(
    rows: &Connection,
    seq: i64,
    job: &mut Job,
    output: JobOutput,
) -> rusqlite::Result<()> {
    commit(rows, seq, job, job.outputs.len(), &output)?;
    job.outputs.push(output);
    Ok(())
}

/// Commits outputs that a job has and its rows have not.
pub(super) fn put_again(
    rows: &Connection,
    seq: i64,
    job: &Job,
    places: Range<usize>,
) -> rusqlite::Result<()> {
    for place in places {
        commit(rows, seq, job, place, &job.outputs[place])?;
    }
    Ok(())
}

fn commit(
    rows: &Connection,
    seq: i64,
    job: &Job,
    place: usize,
    output: &JobOutput,
) -> rusqlite::Result<()> {
    put(rows, seq, place, output)?;
    records::put(rows, &job.record_of(output))?;
    records::add_hold(rows, output.asset, Hold::Output(job.id.0))
}

/// Lets go of a job's inputs, and lets its outputs expire with it, once it has ended.
pub(super) fn settle_end(rows: &Connection, job: &Job) -> rusqlite::Result<()> {
    records::release(rows, Hold::Input(job.id.0))?;
    for output in &job.outputs {
        rows.prepare_cached(
            "UPDATE assets SET expires_at = max(coalesce(expires_at, ?2), ?2) WHERE id = ?1",
        )?
        .execute(params![Id(output.asset.0), Micros(job.expires_at)])?;
    }
    Ok(())
}

/// The outputs of a job, in the order of their commits.
pub(super) fn load(rows: &Connection, seq: i64) -> rusqlite::Result<Vec<JobOutput>> {
    let mut statement =
        rows.prepare_cached("SELECT * FROM job_outputs WHERE seq = ?1 ORDER BY number")?;
    let outputs = statement.query_map([seq], |row| {
        Ok(JobOutput {
            node_id: row.get_ref("node_id")?.as_str()?.into(),
            index: row.get("output")?,
            kind: OutputKind::from_name(row.get_ref("kind")?.as_str()?),
            temp: row.get("temp")?,
            path: parse(row.get_ref("path")?.as_str()?)?,
            content_type: row.get("content_type")?,
            size_bytes: row.get::<_, i64>("size_bytes")?.unsigned_abs(),
            asset: AssetId(row.get::<_, Id>("asset")?.0),
            hash: row.get::<_, Hash>("hash")?.0,
        })
    })?;
    outputs.collect()
}

/// The name of an output: a counted one is the next that no live record of the account has.
fn settle_name(rows: &Connection, job: &Job, name: &OutputName) -> rusqlite::Result<FilePath> {
    let path = |number| {
        name.path(number)
            .expect("a sink refuses a name that is no path")
    };
    let OutputName::Counted { counter, .. } = name else {
        return Ok(path(0));
    };
    let mut next = rows.prepare_cached(
        "INSERT INTO output_counters (account, counter, number) VALUES (?1, ?2, 1)
         ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
    )?;
    loop {
        let number: i64 =
            next.query_row(params![job.account.as_str(), counter], |row| row.get(0))?;
        let path = path(number.unsigned_abs());
        let query = AssetQuery::Path(path.clone());
        if records::find(rows, &job.account, &query, job.updated_at)?.is_none() {
            return Ok(path);
        }
    }
}

fn put(rows: &Connection, seq: i64, number: usize, output: &JobOutput) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT INTO job_outputs (seq, number, node_id, output, kind, temp, path, content_type, size_bytes, asset, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        seq,
        i64::try_from(number).unwrap_or(i64::MAX),
        output.node_id.as_str(),
        output.index,
        output.kind.name(),
        output.temp,
        output.path.as_str(),
        output.content_type,
        i64::try_from(output.size_bytes).unwrap_or(i64::MAX),
        Id(output.asset.0),
        Hash(output.hash),
    ])?;
    Ok(())
}
