//! What jobs do to records of assets, in their transactions.

use std::collections::HashSet;

use accounts::AccountId;
use asset_store::{AssetId, Hold};
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;
use workflow_core::{Job, JobOutput};

use crate::DatabaseError;
use crate::columns::parse;
use crate::records::rows::{NewRecord, add_holds, expire_at, put, release};
use crate::statements::query;

/// Those of the records that their accounts do not have; the others stay until the transaction ends.
pub(super) async fn missing(
    transaction: &impl GenericClient,
    mut asked: HashSet<(AccountId, AssetId)>,
    now: Timestamp,
) -> Result<HashSet<(AccountId, AssetId)>, DatabaseError> {
    if asked.is_empty() {
        return Ok(asked);
    }
    let ids: Vec<Uuid> = asked.iter().map(|(_, id)| id.0).collect();
    let sql = "SELECT account, id FROM assets WHERE id = ANY($1) AND (expires_at IS NULL OR expires_at > $2)
        ORDER BY id FOR KEY SHARE";
    for row in query(transaction, sql, &[&ids, &now.as_microsecond()]).await? {
        asked.remove(&(parse(row.try_get(0)?)?, AssetId(row.try_get(1)?)));
    }
    Ok(asked)
}

/// Makes the records of new outputs, each held by its job, and to expire with it if it has ended. Their accounts are locked.
pub(super) async fn put_outputs(
    transaction: &impl GenericClient,
    outputs: &[(&Job, &JobOutput)],
) -> Result<(), DatabaseError> {
    let records = outputs.iter().map(|(job, output)| {
        let mut asset = job.record_of(output);
        if job.status.is_terminal() {
            asset.expires_at = Some(job.expires_at);
        }
        NewRecord {
            asset,
            temp: output.temp,
        }
    });
    put(transaction, &records.collect::<Vec<_>>()).await?;
    let holds = outputs
        .iter()
        .map(|(job, output)| (output.asset, Hold::Output(job.id.0)));
    add_holds(transaction, &holds.collect::<Vec<_>>()).await
}

/// Lets go of the inputs of jobs that have ended, and lets their outputs expire with them: all but the last ones, as many as stand
/// beside each job, whose records are made in this transaction.
pub(super) async fn settle_ends(
    transaction: &impl GenericClient,
    jobs: &[(&Job, usize)],
) -> Result<(), DatabaseError> {
    let inputs: Vec<Hold> = jobs.iter().map(|(job, _)| Hold::Input(job.id.0)).collect();
    let outputs = jobs.iter().flat_map(|(job, new)| {
        let before = &job.outputs[..job.outputs.len() - new];
        let outputs = before.iter();
        outputs.map(|output| (output.asset, job.expires_at))
    });
    let outputs: Vec<_> = outputs.collect();
    tokio::try_join!(
        release(transaction, &inputs),
        expire_at(transaction, &outputs),
    )?;
    Ok(())
}
