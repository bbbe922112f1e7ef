//! Making records under their rules, several in one transaction.

use accounts::{AccountId, Fingerprint};
use asset_store::{
    Asset, AssetId, AssetQuery, FilePath, InsertAsset, InsertOutcome, InsertRule, InsertStep,
    KeyClaim, RecordFacts,
};
use deadpool_postgres::Transaction;
use jiff::Timestamp;

use super::rows::{self, ASSET, NewRecord, as_it_reads_back};
use crate::columns::unreadable;
use crate::statements::{execute, query_opt};
use crate::{Database, DatabaseError};

/// Makes records, one after the other, in one transaction.
pub(super) async fn insert_all(
    database: Database,
    inserts: Vec<(InsertAsset, Timestamp)>,
) -> Result<Vec<InsertOutcome>, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let accounts: Vec<&AccountId> = inserts.iter().map(|(it, _)| &it.asset.account).collect();
    let mut stored = rows::lock_accounts(&rows, &accounts).await?;
    let mut outcomes = Vec::with_capacity(inserts.len());
    for (insert, now) in inserts {
        let stored = stored.entry(insert.asset.account.clone()).or_default();
        let outcome = insert_one(&rows, insert, *stored, now).await?;
        if let InsertOutcome::Created { asset, .. } = &outcome {
            *stored += asset.size_bytes;
        }
        outcomes.push(outcome);
    }
    rows.commit().await?;
    Ok(outcomes)
}

/// Makes a record of an account that is locked and has stored so many bytes.
async fn insert_one(
    rows: &Transaction<'_>,
    insert: InsertAsset,
    stored_bytes: u64,
    now: Timestamp,
) -> Result<InsertOutcome, DatabaseError> {
    let facts = facts(rows, &insert, stored_bytes, now).await?;
    let step = insert.decide(&facts);
    let InsertAsset { asset, claim, .. } = insert;
    let account = asset.account.clone();
    let (id, outcome) = match step {
        InsertStep::Answer(outcome) => return Ok(outcome),
        InsertStep::Extend(asset) => {
            let asset = as_it_reads_back(asset);
            let expires_at = asset.expires_at.map(Timestamp::as_microsecond);
            let sql = "UPDATE assets SET expires_at = $2 WHERE id = $1";
            execute(rows, sql, &[&asset.id.0, &expires_at]).await?;
            (asset.id, InsertOutcome::Existing(asset))
        }
        InsertStep::Make { had_bytes } => {
            let asset = as_it_reads_back(asset);
            let record = NewRecord {
                asset: asset.clone(),
                temp: false,
            };
            rows::put(rows, &[record]).await?;
            (asset.id, InsertOutcome::Created { asset, had_bytes })
        }
    };
    if let Some(claim) = claim {
        put_key(rows, &account, &claim, id).await?;
    }
    Ok(outcome)
}

/// What decides about an insert, as far as it can matter to it.
async fn facts(
    rows: &Transaction<'_>,
    insert: &InsertAsset,
    stored_bytes: u64,
    now: Timestamp,
) -> Result<RecordFacts, DatabaseError> {
    let asked = &insert.asset;
    if let Some(claim) = &insert.claim {
        let known_key = known_key(rows, &asked.account, claim, now).await?;
        if known_key.is_some() {
            return Ok(RecordFacts {
                known_key,
                ..RecordFacts::default()
            });
        }
    }
    let of_hash = AssetQuery::Hash(asked.hash);
    let newest = rows::find(rows, &asked.account, &of_hash, now).await?;
    let same = match (insert.rule, &newest) {
        (InsertRule::Upload | InsertRule::FreeName | InsertRule::InPlaceOf(_), _) | (_, None) => {
            None
        }
        (InsertRule::FromHash, Some(newest)) if newest.file_path == asked.file_path => {
            Some(newest.clone())
        }
        (InsertRule::FromHash, Some(_)) => same(rows, asked, now).await?,
    };
    let named = match asked.file_path.clone() {
        Some(path) if insert.rule.is_of_a_name() => {
            let query = AssetQuery::Upload(path);
            rows::find(rows, &asked.account, &query, now).await?
        }
        Some(_) | None => None,
    };
    Ok(RecordFacts {
        known_key: None,
        had_bytes: newest.is_some(),
        same,
        named,
        stored_bytes,
    })
}

/// The account's newest live record of the same bytes and name.
async fn same(
    rows: &Transaction<'_>,
    asked: &Asset,
    now: Timestamp,
) -> Result<Option<Asset>, DatabaseError> {
    let sql = format!(
        "SELECT {ASSET} FROM assets WHERE account = $1 AND hash = $2 AND file_path IS NOT DISTINCT FROM $3
            AND (expires_at IS NULL OR expires_at > $4) ORDER BY seq DESC LIMIT 1"
    );
    let row = query_opt(
        rows,
        &sql,
        &[
            &asked.account.as_str(),
            &asked.hash.as_bytes().as_slice(),
            &asked.file_path.as_ref().map(FilePath::as_str),
            &now.as_microsecond(),
        ],
    )
    .await?;
    row.as_ref().map(rows::asset).transpose()
}

/// The request and the record of a key that was claimed before; `None` if nobody claimed it, or its time or its record is over.
async fn known_key(
    rows: &Transaction<'_>,
    account: &AccountId,
    claim: &KeyClaim,
    now: Timestamp,
) -> Result<Option<(Fingerprint, Asset)>, DatabaseError> {
    let sql = format!(
        "SELECT fingerprint, {ASSET} FROM asset_keys JOIN assets ON assets.id = asset_keys.asset
         WHERE asset_keys.account = $1 AND digest = $2 AND asset_keys.expires_at > $3
            AND (assets.expires_at IS NULL OR assets.expires_at > $3)"
    );
    let row = query_opt(
        rows,
        &sql,
        &[
            &account.as_str(),
            &claim.digest.as_slice(),
            &now.as_microsecond(),
        ],
    )
    .await?;
    let Some(row) = row else { return Ok(None) };
    let fingerprint: &[u8] = row.get("fingerprint");
    let fingerprint = fingerprint.try_into().map_err(unreadable)?;
    Ok(Some((Fingerprint(fingerprint), rows::asset(&row)?)))
}

/// Lets a key stand for a record.
async fn put_key(
    rows: &Transaction<'_>,
    account: &AccountId,
    claim: &KeyClaim,
    id: AssetId,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "INSERT INTO asset_keys (account, digest, fingerprint, asset, expires_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (account, digest) DO UPDATE SET fingerprint = excluded.fingerprint, asset = excluded.asset,
            expires_at = excluded.expires_at",
        &[
            &account.as_str(),
            &claim.digest.as_slice(),
            &claim.fingerprint.0.as_slice(),
            &id.0,
            &claim.expires_at.as_microsecond(),
        ],
    )
    .await?;
    Ok(())
}
