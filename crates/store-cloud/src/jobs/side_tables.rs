//! The SQL of what lies beside jobs: their bodies, the logs of their runs, their labels, the keys they were submitted under.

use std::collections::HashMap;

use accounts::{AccountId, Fingerprint};
use bytes::Bytes;
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use trace_context::TraceContext;
use uuid::Uuid;
use workflow_core::{InsertJob, JobBody, JobId, JobLog, Placement, RunReport};

use super::documents;
use super::reports::ReportDocument;
use super::rows::Row;
use super::sets::Sets;
use crate::DatabaseError;
use crate::columns::{from_micros, unreadable};
use crate::names;
use crate::statements::{execute, query};

/// A fingerprint of another length.
#[derive(Debug, thiserror::Error)]
#[error("a fingerprint has 32 bytes")]
struct NoFingerprint;

/// What a key stands for.
pub(super) struct ClaimedKey {
    pub(super) fingerprint: Fingerprint,
    pub(super) job: JobId,
}

/// Keeps the bodies of new jobs.
pub(super) async fn put_bodies(
    rows: &impl GenericClient,
    jobs: &[(&Row, &JobBody)],
) -> Result<(), DatabaseError> {
    let (mut ids, mut sets, mut workflows, mut files) = (vec![], vec![], vec![], vec![]);
    let (mut targets, mut extra, mut origins, mut traces) = (vec![], vec![], vec![], vec![]);
    for (row, body) in jobs {
        ids.push(row.job.id.0);
        sets.push(row.requirements);
        workflows.push(&body.workflow[..]);
        files.push(documents::write_files(&body.files));
        targets.push(body.targets.as_ref().map(documents::write));
        extra.push(body.extra_pnginfo.as_bytes());
        origins.push(&body.origin[..]);
        traces.push(body.trace.map(|trace| trace.to_string()));
    }
    let sql = "INSERT INTO job_bodies (job, requirements, workflow, files, targets, extra_pnginfo, origin, trace)
        SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::text[])";
    execute(
        rows,
        sql,
        &[
            &ids, &sets, &workflows, &files, &targets, &extra, &origins, &traces,
        ],
    )
    .await?;
    Ok(())
}

/// The bodies of jobs.
pub(super) async fn bodies(
    rows: &impl GenericClient,
    sets: &Sets,
    jobs: &[&Row],
) -> Result<HashMap<JobId, JobBody>, DatabaseError> {
    let ids: Vec<Uuid> = jobs.iter().map(|row| row.job.id.0).collect();
    let names = jobs.iter().map(|row| row.requirements).collect();
    let sets = sets.named(rows, names).await?;
    let of: HashMap<Uuid, &Row> = jobs.iter().map(|row| (row.job.id.0, *row)).collect();
    let sql = "SELECT job, workflow, files, targets, extra_pnginfo, origin, trace FROM job_bodies WHERE job = ANY($1)";
    let found = query(rows, sql, &[&ids]).await?;
    let bodies = found.iter().filter_map(|found| {
        let read = || {
            let id: Uuid = found.try_get(0)?;
            let row = of[&id];
            let Some(set) = sets.get(&row.requirements) else {
                return Ok(None);
            };
            let targets: Option<&str> = found.try_get(3)?;
            let extra_pnginfo = String::from_utf8(found.try_get(4)?);
            let trace: Option<&str> = found.try_get(6)?;
            let body = JobBody {
                workflow: Bytes::from(found.try_get::<_, Vec<u8>>(1)?),
                files: documents::read_files(found.try_get(2)?)?,
                targets: targets.map(documents::read).transpose()?,
                extra_pnginfo: extra_pnginfo.map_err(unreadable)?,
                origin: Bytes::from(found.try_get::<_, Vec<u8>>(5)?),
                placement: Placement {
                    requirements: set.clone(),
                    account_room: row.account_room,
                    stored_bytes: row.stored_bytes,
                },
                trace: trace.and_then(TraceContext::parse),
            };
            Ok(Some((JobId(id), body)))
        };
        read().transpose()
    });
    bodies.collect()
}

/// Keeps what runs wrote in place of what was kept before.
pub(super) async fn put_logs(
    rows: &impl GenericClient,
    logs: &[(JobId, &JobLog)],
) -> Result<(), DatabaseError> {
    if logs.is_empty() {
        return Ok(());
    }
    let (mut ids, mut texts, mut truncated) = (vec![], vec![], vec![]);
    let (mut captured, mut complete, mut reports) = (vec![], vec![], vec![]);
    for (id, log) in logs {
        ids.push(id.0);
        texts.push(log.text.as_bytes());
        truncated.push(log.truncated);
        captured.push(log.captured_at.as_microsecond());
        complete.push(log.complete);
        reports.push(documents::write(&ReportDocument::from(&log.report)));
    }
    let sql = "INSERT INTO job_logs (job, text, truncated, captured_at, complete, report)
        SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::boolean[], $4::bigint[], $5::boolean[], $6::text[])
        ON CONFLICT (job) DO UPDATE SET text = excluded.text, truncated = excluded.truncated,
            captured_at = excluded.captured_at, complete = excluded.complete, report = excluded.report";
    execute(
        rows,
        sql,
        &[&ids, &texts, &truncated, &captured, &complete, &reports],
    )
    .await?;
    Ok(())
}

/// What a run wrote.
pub(super) async fn log(
    rows: &impl GenericClient,
    job: JobId,
) -> Result<Option<JobLog>, DatabaseError> {
    let sql = "SELECT text, truncated, captured_at, complete, report FROM job_logs WHERE job = $1";
    let found = query(rows, sql, &[&job.0]).await?;
    let log = found.first().map(|row| {
        let report: ReportDocument = documents::read(row.try_get(4)?)?;
        Ok(JobLog {
            text: String::from_utf8(row.try_get(0)?).map_err(unreadable)?,
            truncated: row.try_get(1)?,
            captured_at: from_micros(row.try_get(2)?)?,
            complete: row.try_get(3)?,
            report: RunReport::from(report),
        })
    });
    log.transpose()
}

/// Keeps the labels of new jobs.
pub(super) async fn put_labels(
    rows: &impl GenericClient,
    new: &[&Row],
) -> Result<(), DatabaseError> {
    let (mut accounts, mut labels, mut ages, mut ids) = (vec![], vec![], vec![], vec![]);
    for row in new {
        let job = &row.job;
        for (key, value) in &job.metadata {
            accounts.push(job.account.as_str());
            labels.push(names::of_label(key, value));
            ages.push(job.created_at.as_microsecond());
            ids.push(job.id.0);
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO job_labels (account, label, created_at, job)
        SELECT * FROM unnest($1::text[], $2::uuid[], $3::bigint[], $4::uuid[])";
    execute(rows, sql, &[&accounts, &labels, &ages, &ids]).await?;
    Ok(())
}

/// Claims the keys of jobs that are taken in.
pub(super) async fn claim_keys(
    rows: &impl GenericClient,
    taken: &[&InsertJob],
) -> Result<(), DatabaseError> {
    let (mut accounts, mut digests, mut fingerprints, mut ids) = (vec![], vec![], vec![], vec![]);
    for insert in taken {
        if let Some(claim) = &insert.claim {
            accounts.push(insert.job.account.as_str());
            digests.push(&claim.digest[..]);
            fingerprints.push(&claim.fingerprint.0[..]);
            ids.push(insert.job.id.0);
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO job_keys (account, digest, fingerprint, job)
        SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::uuid[])
        ON CONFLICT (account, digest) DO UPDATE SET fingerprint = excluded.fingerprint, job = excluded.job";
    execute(rows, sql, &[&accounts, &digests, &fingerprints, &ids]).await?;
    Ok(())
}

/// The keys of submissions that were claimed before, by account and digest, and the jobs they stand for, unless those are expired.
pub(super) async fn claimed_keys(
    rows: &impl GenericClient,
    asked: impl Iterator<Item = (&AccountId, &[u8; 32])>,
    now: Timestamp,
) -> Result<HashMap<(String, Vec<u8>), ClaimedKey>, DatabaseError> {
    let asked = asked.map(|(account, digest)| (account.as_str(), &digest[..]));
    let (accounts, digests): (Vec<&str>, Vec<&[u8]>) = asked.unzip();
    if accounts.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT k.account, k.digest, k.fingerprint, k.job
        FROM unnest($1::text[], $2::bytea[]) AS asked (account, digest) JOIN job_keys AS k USING (account, digest)
        WHERE NOT EXISTS (SELECT 1 FROM jobs_over AS o WHERE o.id = k.job AND o.expires_at <= $3)";
    let found = query(rows, sql, &[&accounts, &digests, &now.as_microsecond()]).await?;
    let found = found.iter().map(|row| {
        let fingerprint: &[u8] = row.try_get(2)?;
        let fingerprint = fingerprint.try_into();
        let key = ClaimedKey {
            fingerprint: Fingerprint(fingerprint.map_err(|_| unreadable(NoFingerprint))?),
            job: JobId(row.try_get(3)?),
        };
        Ok(((row.try_get(0)?, row.try_get(1)?), key))
    });
    found.collect()
}
