//! What jobs do to records of assets, in their transactions.

use std::collections::HashSet;

use accounts::AccountId;
use asset_store::{AssetId, Hold};
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use uuid::Uuid;
use workflow_core::{Job, JobOutput};

use super::rows::Row;
use crate::DatabaseError;
use crate::columns::parse;
use crate::records::rows::{NewRecord, add_holds, expire_at, put, release};
use crate::statements::query;

/// Those of the records that their accounts do not have; the others stay until the transaction ends.
pub(super) async fn missing(
    transaction: &Transaction<'_>,
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

/// Makes the records of new outputs, each held by its job. Their accounts are locked.
pub(super) async fn put_outputs(
    transaction: &Transaction<'_>,
    outputs: &[(&Job, &JobOutput)],
) -> Result<(), DatabaseError> {
    let records = outputs.iter().map(|(job, output)| NewRecord {
        asset: job.record_of(output),
        temp: output.temp,
    });
    put(transaction, &records.collect::<Vec<_>>()).await?;
    let holds = outputs
        .iter()
        .map(|(job, output)| (output.asset, Hold::Output(job.id.0)));
    add_holds(transaction, &holds.collect::<Vec<_>>()).await
}

/// Lets go of the inputs of jobs that have ended, and lets their outputs expire with them.
pub(super) async fn settle_ends(
    transaction: &Transaction<'_>,
    jobs: &[&Row],
) -> Result<(), DatabaseError> {
    let inputs: Vec<Hold> = jobs.iter().map(|row| Hold::Input(row.job.id.0)).collect();
    release(transaction, &inputs).await?;
    let outputs = jobs.iter().flat_map(|row| {
        let expires_at = row.job.expires_at;
        let outputs = row.job.outputs.iter();
        outputs.map(move |output| (output.asset, expires_at))
    });
    expire_at(transaction, &outputs.collect::<Vec<_>>()).await
}
