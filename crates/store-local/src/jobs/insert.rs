//! Taking a job in: its row, its body, its key and the holds on its inputs, in one transaction.

use std::sync::Arc;

use asset_store::Hold;
use jiff::Timestamp;
use rusqlite::Connection;
use webhooks::{Event, EventKind, JobFact};
use workflow_core::{InsertFacts, InsertJob, InsertJobOutcome};

use super::live_jobs::{DeferredSave, Live, SharedLiveJobs};
use super::{requirements, rows, side_tables};
use crate::database::Transaction;
use crate::records::rows as records;

/// Takes a job in, unless [`InsertJob::refusal`] has a reason against it.
pub(super) fn insert(
    rows: &mut Transaction<'_>,
    live_jobs: &SharedLiveJobs,
    insert: InsertJob,
    now: Timestamp,
) -> rusqlite::Result<InsertJobOutcome> {
    if let Some(refusal) = insert.refusal(&facts(rows, live_jobs, &insert, now)?) {
        return Ok(refusal);
    }
    let InsertJob {
        job,
        body,
        claim,
        inputs,
        ..
    } = insert;
    let account = job.account.clone();
    crate::faults::fault_point!("job-insert");
    let job = Arc::new(rows::as_it_reads_back(job));
    let seq = live_jobs.lock().number().cast_signed();
    rows::insert(rows, seq, &job, &body)?;
    for input in inputs {
        records::add_hold(rows, input, Hold::Input(job.id.0))?;
    }
    if let Some(claim) = claim {
        side_tables::claim_key(rows, &account, &claim, seq)?;
    }
    let fact = JobFact {
        account: &account,
        id: job.id.0,
        status: job.status.name(),
        at: job.created_at,
    };
    let hooks = &live_jobs.hooks;
    hooks.publish(rows, &account, EventKind::JobCreated, || {
        Event::job_created(fact)
    })?;
    crate::faults::fault_point!("job-inserted");
    live_jobs.lock().add(Live {
        newest: Arc::clone(&job),
        committed: None,
        queued: requirements::queued_as(seq, &body.placement),
        stored_bytes: body.placement.stored_bytes,
        body: Some(Arc::new(body)),
        lease_until: now,
        deferred: DeferredSave::default(),
    });
    let (undone, id) = (live_jobs.clone(), job.id);
    rows.on_rollback(move || undone.lock().take_back(id));
    let (live_jobs, committed) = (live_jobs.clone(), Arc::clone(&job));
    rows.after_commit(move || live_jobs.lock().publish(committed));
    Ok(InsertJobOutcome::Inserted(job))
}

/// What decides about an insert, as far as it can matter to it.
fn facts(
    rows: &Connection,
    live_jobs: &SharedLiveJobs,
    insert: &InsertJob,
    now: Timestamp,
) -> rusqlite::Result<InsertFacts> {
    let (job, account) = (&insert.job, &insert.job.account);
    if let Some(claim) = &insert.claim
        && let Some(key) = side_tables::claimed_key(rows, account, &claim.digest, now)?
    {
        // Saves that share this transaction are part of it.
        let newest = live_jobs.lock().newest(key.job).cloned();
        let known = match newest {
            Some(job) => Some(job),
            None => rows::load(rows, key.job)?.map(Arc::new),
        };
        let known = known.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        return Ok(InsertFacts {
            known_key: Some((key.fingerprint, known)),
            ..InsertFacts::default()
        });
    }
    let mut missing_input = None;
    for input in &insert.inputs {
        if missing_input.is_none() && records::get(rows, account, *input, now)?.is_none() {
            missing_input = Some(*input);
        }
    }
    let (queued, queued_in_all) = live_jobs.lock().queued(account);
    let is_live = live_jobs.lock().newest(job.id).is_some();
    Ok(InsertFacts {
        known_key: None,
        id_is_taken: is_live || rows::exists(rows, job.id)?,
        queued: queued as u64,
        queued_in_all,
        stored_bytes: match insert.body.placement.stored_bytes {
            Some(_) => records::stored_bytes(rows, account)?,
            None => 0,
        },
        missing_input,
    })
}
