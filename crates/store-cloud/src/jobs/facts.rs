//! What webhooks hear of jobs.

use accounts::AccountId;
use deadpool_postgres::GenericClient;
use webhooks::{Event, EventKind, JobFact};
use workflow_core::Job;

use crate::DatabaseError;
use crate::webhooks::{wanting, write};

/// Writes down that jobs were taken in, or that they ended.
pub(super) async fn publish(
    transaction: &impl GenericClient,
    kind: EventKind,
    jobs: &[&Job],
) -> Result<(), DatabaseError> {
    let accounts: Vec<&AccountId> = jobs.iter().map(|job| &job.account).collect();
    let wanting = wanting(transaction, &accounts, kind).await?;
    if wanting.is_empty() {
        return Ok(());
    }
    let wanted = jobs.iter().filter(|job| wanting.contains_key(&job.account));
    let events: Vec<Event> = wanted.map(|job| event(kind, job)).collect();
    write(transaction, &wanting, &events).await
}

fn event(kind: EventKind, job: &Job) -> Event {
    let is_new = kind == EventKind::JobCreated;
    let fact = JobFact {
        account: &job.account,
        id: job.id.0,
        status: job.status.name(),
        at: match is_new {
            true => job.created_at,
            false => job.completed_at.unwrap_or(job.updated_at),
        },
    };
    match is_new {
        true => Event::job_created(fact),
        false => Event::job_ended(fact),
    }
}
