//! The SQL of what lies beside a job: its body, the log of its run, the key it was submitted under.

use accounts::{AccountId, Fingerprint};
use asset_store::KeyClaim;
use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use trace_context::TraceContext;
use workflow_core::{JobBody, JobId, JobLog, RunReport};

use super::documents::{self, PlacementDocument};
use super::reports::ReportDocument;
use super::requirements;
use crate::columns::{Id, Micros};

/// A claimed key and the job it stands for.
pub(super) struct ClaimedKey {
    pub(super) fingerprint: Fingerprint,
    pub(super) job: JobId,
}

/// Keeps the body of a new job.
pub(super) fn put_body(rows: &Connection, seq: i64, body: &JobBody) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT INTO job_bodies (seq, workflow, files, targets, origin, placement, extra_pnginfo, trace)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        seq,
        &body.workflow[..],
        documents::write(&documents::files(&body.files)),
        body.targets.as_ref().map(documents::write),
        &body.origin[..],
        documents::write(&PlacementDocument::from(&body.placement)),
        Some(&body.extra_pnginfo).filter(|text| !text.is_empty()),
        body.trace.map(|trace| trace.to_string()),
    ])?;
    Ok(())
}

/// What lies beside a job.
pub(super) fn body(rows: &Connection, seq: i64) -> rusqlite::Result<Option<JobBody>> {
    rows.prepare_cached(
        "SELECT job_bodies.*, requirement_sets.text AS requirement_set
         FROM job_bodies JOIN jobs USING (seq) LEFT JOIN requirement_sets USING (requirements) WHERE seq = ?1",
    )?
        .query_row([seq], |row| {
            let targets: Option<String> = row.get("targets")?;
            let extra_pnginfo: Option<String> = row.get("extra_pnginfo")?;
            let trace: Option<String> = row.get("trace")?;
            Ok(JobBody {
                workflow: Bytes::from(row.get::<_, Vec<u8>>("workflow")?),
                files: documents::read_files(row.get_ref("files")?.as_str()?)?,
                targets: targets.as_deref().map(documents::read).transpose()?,
                origin: Bytes::from(row.get::<_, Vec<u8>>("origin")?),
                placement: requirements::placement(row)?,
                extra_pnginfo: extra_pnginfo.unwrap_or_default(),
                trace: trace.as_deref().and_then(TraceContext::parse),
            })
        })
        .optional()
}

/// Keeps what a run wrote in place of what was kept before.
pub(super) fn put_log(rows: &Connection, seq: i64, log: &JobLog) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT OR REPLACE INTO job_logs (seq, text, truncated, captured_at, complete, report)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        seq,
        log.text,
        log.truncated,
        Micros(log.captured_at),
        log.complete,
        documents::write(&ReportDocument::from(&log.report)),
    ])?;
    Ok(())
}

/// What a run wrote.
pub(super) fn log(rows: &Connection, seq: i64) -> rusqlite::Result<Option<JobLog>> {
    rows.prepare_cached(
        "SELECT text, truncated, captured_at, complete, report FROM job_logs WHERE seq = ?1",
    )?
    .query_row([seq], |row| {
        let report: Option<String> = row.get(4)?;
        let report = report.as_deref().map(documents::read::<ReportDocument>);
        let report = report.transpose()?;
        Ok(JobLog {
            text: row.get(0)?,
            truncated: row.get(1)?,
            captured_at: row.get::<_, Micros>(2)?.0,
            complete: row.get(3)?,
            report: report.map(RunReport::from).unwrap_or_default(),
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
