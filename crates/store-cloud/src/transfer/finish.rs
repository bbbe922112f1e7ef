//! What follows from the rows of an installation that came, and the end of its move, in one transaction.

use installation::transfer::Note;

use super::NOTE;
use crate::statements::execute;
use crate::{Database, DatabaseError};

const STATEMENTS: &[&str] = &[
    "UPDATE credits AS c SET newest_seq = l.newest
     FROM (SELECT account, max(seq) AS newest FROM ledger GROUP BY account) AS l WHERE l.account = c.account",
    // An account that was never served has its turn by its first job.
    "INSERT INTO job_turns (account, departed, last_claim)
     SELECT account, 0, min(number) FROM job_queue GROUP BY account ON CONFLICT (account) DO NOTHING",
    "INSERT INTO job_accounts (account, entered)
     SELECT t.account, coalesce(q.waiting, 0) FROM job_turns AS t
     LEFT JOIN (SELECT account, count(*) AS waiting FROM job_queue GROUP BY account) AS q USING (account)",
    "SELECT setval('job_numbers', greatest(1, (SELECT max(number) FROM jobs), (SELECT max(number) FROM jobs_over),
        (SELECT max(last_claim) FROM job_turns)))",
    "SELECT setval(pg_get_serial_sequence('assets', 'seq'), greatest(1, (SELECT max(seq) FROM assets)))",
    "SELECT setval(pg_get_serial_sequence('webhook_deliveries', 'place'), greatest(1, (SELECT max(place) FROM webhook_deliveries)))",
    "SELECT setval('queued_calls_changes', greatest(1, (SELECT max(changed) FROM queued_calls)))",
    // Those whose bytes did not come were not kept.
    "UPDATE generations AS g SET replay_bytes = (SELECT sum(length(bytes)) FROM call_replays AS r WHERE r.generation = g.id)
     WHERE replay_bytes < 0",
    "UPDATE queued_calls AS q SET body_bytes = coalesce((SELECT sum(length(bytes)) FROM queued_bodies AS b
        WHERE b.generation = q.id), 0) WHERE state < 2",
];

/// Makes the place one that servers open.
pub(super) async fn finish(database: &Database, note: &Note) -> Result<(), DatabaseError> {
    let mut connection = database.connection().await?;
    let transaction = connection.transaction().await?;
    for statement in STATEMENTS {
        transaction.batch_execute(statement).await?;
    }
    execute(&transaction, NOTE, &[&note.to_string()]).await?;
    transaction.commit().await?;
    Ok(())
}
