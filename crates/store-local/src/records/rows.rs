//! The SQL of records, for any connection or transaction: jobs write records and holds in transactions of their own.

use accounts::{AccountId, Fingerprint};
use asset_store::{
    Asset, AssetId, AssetQuery, BlobHash, FilePath, Hold, InsertAsset, InsertOutcome, InsertRule,
    InsertStep, KeptAsset, KeyClaim, RecordFacts, Removal,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use uuid::Uuid;

use crate::columns::{Hash, Id, Micros, parse, unreadable, whole_micros};

/// Makes a record under its rule and claims its key.
pub(crate) fn insert(
    rows: &Connection,
    insert: InsertAsset,
    now: Timestamp,
) -> rusqlite::Result<InsertOutcome> {
    let facts = facts(rows, &insert, now)?;
    let step = insert.decide(&facts);
    let InsertAsset { asset, claim, .. } = insert;
    let account = asset.account.clone();
    let (id, outcome) = match step {
        InsertStep::Answer(outcome) => return Ok(outcome),
        InsertStep::Extend(asset) => {
            let asset = as_it_reads_back(asset);
            rows.prepare_cached("UPDATE assets SET expires_at = ?2 WHERE id = ?1")?
                .execute(params![Id(asset.id.0), asset.expires_at.map(Micros)])?;
            (asset.id, InsertOutcome::Existing(asset))
        }
        InsertStep::Make { had_bytes } => {
            let asset = as_it_reads_back(asset);
            crate::faults::fault_point!("asset-insert");
            put(rows, &asset)?;
            (asset.id, InsertOutcome::Created { asset, had_bytes })
        }
    };
    if let Some(claim) = claim {
        rows.prepare_cached(
            "INSERT OR REPLACE INTO asset_keys (account, digest, fingerprint, asset, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            account.as_str(),
            claim.digest,
            claim.fingerprint.0,
            Id(id.0),
            Micros(claim.expires_at),
        ])?;
    }
    Ok(outcome)
}

/// What decides about an insert, as far as it can matter to it.
fn facts(rows: &Connection, insert: &InsertAsset, now: Timestamp) -> rusqlite::Result<RecordFacts> {
    let asked = &insert.asset;
    let account = &asked.account;
    if let Some(claim) = &insert.claim {
        let known_key = known_key(rows, account, claim, now)?;
        if known_key.is_some() {
            return Ok(RecordFacts {
                known_key,
                ..RecordFacts::default()
            });
        }
    }
    let had_bytes = has_bytes(rows, account, asked.hash, now)?;
    Ok(RecordFacts {
        known_key: None,
        had_bytes,
        same: match insert.rule {
            InsertRule::FromHash if had_bytes => same(rows, asked, now)?,
            InsertRule::FromHash
            | InsertRule::FreeName
            | InsertRule::InPlaceOf(_)
            | InsertRule::Upload => None,
        },
        named: match asked.file_path.clone() {
            Some(path) if insert.rule.is_of_a_name() => {
                find(rows, account, &AssetQuery::Upload(path), now)?
            }
            Some(_) | None => None,
        },
        stored_bytes: match insert.most_bytes {
            Some(_) => stored_bytes(rows, account)?,
            None => 0,
        },
    })
}

/// How many bytes an account has stored.
pub(crate) fn stored_bytes(rows: &Connection, account: &AccountId) -> rusqlite::Result<u64> {
    let stored = rows
        .prepare_cached("SELECT bytes FROM stored_bytes WHERE account = ?1")?
        .query_row([account.as_str()], |row| row.get::<_, i64>(0))
        .optional()?;
    // It is never below 0: what goes came before.
    Ok(stored.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0)))
}

/// A live record by id.
pub(crate) fn get(
    rows: &Connection,
    account: &AccountId,
    id: AssetId,
    now: Timestamp,
) -> rusqlite::Result<Option<Asset>> {
    rows.prepare_cached("SELECT * FROM assets WHERE id = ?1 AND account = ?2 AND (expires_at IS NULL OR expires_at > ?3)")?
    .query_row(params![Id(id.0), account.as_str(), Micros(now)], asset)
    .optional()
}

/// The newest live record that fits.
pub(crate) fn find(
    rows: &Connection,
    account: &AccountId,
    query: &AssetQuery,
    now: Timestamp,
) -> rusqlite::Result<Option<Asset>> {
    let now = Micros(now);
    match query {
        AssetQuery::Hash(hash) => rows
            .prepare_cached(
                "SELECT * FROM assets WHERE hash = ?1 AND account = ?2
                  AND (expires_at IS NULL OR expires_at > ?3) ORDER BY seq DESC LIMIT 1",
            )?
            .query_row(params![Hash(*hash), account.as_str(), now], asset),
        AssetQuery::Path(path) => rows
            .prepare_cached(
                "SELECT * FROM assets WHERE file_path = ?1 AND account = ?2
                  AND (expires_at IS NULL OR expires_at > ?3) ORDER BY seq DESC LIMIT 1",
            )?
            .query_row(params![path.as_str(), account.as_str(), now], asset),
        AssetQuery::Upload(path) => rows
            .prepare_cached(
                "SELECT * FROM assets WHERE file_path = ?1 AND account = ?2 AND job_id IS NULL
                  AND (expires_at IS NULL OR expires_at > ?3) ORDER BY seq DESC LIMIT 1",
            )?
            .query_row(params![path.as_str(), account.as_str(), now], asset),
        AssetQuery::Output(path) => rows
            .prepare_cached(
                "SELECT * FROM assets WHERE file_path = ?1 AND account = ?2 AND job_id IS NOT NULL
                  AND (expires_at IS NULL OR expires_at > ?3) ORDER BY seq DESC LIMIT 1",
            )?
            .query_row(params![path.as_str(), account.as_str(), now], asset),
    }
    .optional()
}

/// Live records with a name, newest first: those that jobs made, or those that none did.
pub(crate) fn named(
    rows: &Connection,
    account: &AccountId,
    made_by_jobs: bool,
    limit: usize,
    now: Timestamp,
) -> rusqlite::Result<Vec<Asset>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let which = match made_by_jobs {
        false => "job_id IS NULL",
        true => {
            "job_id IS NOT NULL AND id NOT IN (SELECT asset FROM jobs JOIN job_outputs USING (seq)
             WHERE jobs.account = ?1 AND temp)"
        }
    };
    let mut found = rows.prepare_cached(&format!(
        "SELECT * FROM assets WHERE account = ?1 AND file_path IS NOT NULL AND {which}
          AND (expires_at IS NULL OR expires_at > ?2) ORDER BY seq DESC LIMIT ?3"
    ))?;
    let found = found.query_map(params![account.as_str(), Micros(now), limit], asset)?;
    found.collect()
}

/// Adds the hold to a record, or takes it away; `false` if there is no such record.
pub(crate) fn hold(
    rows: &Connection,
    id: AssetId,
    hold: Hold,
    held: bool,
) -> rusqlite::Result<bool> {
    let exists = rows
        .prepare_cached("SELECT 1 FROM assets WHERE id = ?1")?
        .exists([Id(id.0)])?;
    if !exists {
        return Ok(false);
    }
    if held {
        add_hold(rows, id, hold)?;
    } else {
        let (kind, job) = hold_columns(hold);
        rows.prepare_cached(
            "DELETE FROM asset_holds WHERE asset = ?1 AND kind = ?2 AND job_id = ?3",
        )?
        .execute(params![Id(id.0), kind, job])?;
    }
    Ok(true)
}

/// A record, expired or not, with at most `limit` of its holds.
pub(crate) fn kept(
    rows: &Connection,
    id: AssetId,
    limit: usize,
) -> rusqlite::Result<Option<KeptAsset>> {
    let asset = rows
        .prepare_cached("SELECT * FROM assets WHERE id = ?1")?
        .query_row([Id(id.0)], asset)
        .optional()?;
    let Some(asset) = asset else {
        return Ok(None);
    };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut holds = rows.prepare_cached(
        "SELECT kind, job_id FROM asset_holds WHERE asset = ?1 ORDER BY kind DESC, job_id LIMIT ?2",
    )?;
    let holds = holds.query_map(params![Id(id.0), limit], |row| {
        hold_of(row.get(0)?, row.get(1)?)
    })?;
    let holds = holds.collect::<rusqlite::Result<_>>()?;
    Ok(Some(KeptAsset { asset, holds }))
}

/// Adds the hold to a record that is there.
pub(crate) fn add_hold(rows: &Connection, id: AssetId, hold: Hold) -> rusqlite::Result<()> {
    let (kind, job) = hold_columns(hold);
    rows.prepare_cached(
        "INSERT OR IGNORE INTO asset_holds (asset, kind, job_id) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![Id(id.0), kind, job])?;
    Ok(())
}

/// Takes the hold away from every record that has it.
#[cfg(feature = "workflow")]
pub(crate) fn release(rows: &Connection, hold: Hold) -> rusqlite::Result<()> {
    let (kind, job) = hold_columns(hold);
    rows.prepare_cached("DELETE FROM asset_holds WHERE job_id = ?1 AND kind = ?2")?
        .execute(params![job, kind])?;
    Ok(())
}

/// Deletes a record unless it is held.
pub(crate) fn remove(
    rows: &Connection,
    account: &AccountId,
    id: AssetId,
    now: Timestamp,
) -> rusqlite::Result<Removal> {
    if get(rows, account, id, now)?.is_none() {
        return Ok(Removal::Absent);
    }
    let removed = rows
        .prepare_cached(
            "DELETE FROM assets WHERE id = ?1
             AND NOT EXISTS (SELECT 1 FROM asset_holds WHERE asset = assets.id)",
        )?
        .execute([Id(id.0)])?;
    Ok(if removed == 0 {
        Removal::Held
    } else {
        crate::faults::fault_point!("asset-remove");
        Removal::Removed
    })
}

/// Deletes at most `limit` records that are expired and not held, and forgets expired keys.
pub(crate) fn expire(rows: &Connection, now: Timestamp, limit: usize) -> rusqlite::Result<usize> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let removed = rows
        .prepare_cached(
            "DELETE FROM assets WHERE seq IN (
                SELECT seq FROM assets WHERE expires_at <= ?1
                AND NOT EXISTS (SELECT 1 FROM asset_holds WHERE asset = assets.id)
                ORDER BY expires_at LIMIT ?2)",
        )?
        .execute(params![Micros(now), limit])?;
    if removed > 0 {
        crate::faults::fault_point!("asset-expire");
    }
    rows.prepare_cached("DELETE FROM asset_keys WHERE expires_at <= ?1")?
        .execute([Micros(now)])?;
    Ok(removed)
}

/// Those of `hashes` that no record refers to.
pub(crate) fn unreferenced(
    rows: &Connection,
    hashes: Vec<BlobHash>,
) -> rusqlite::Result<Vec<BlobHash>> {
    let mut referenced = rows.prepare_cached("SELECT 1 FROM assets WHERE hash = ?1 LIMIT 1")?;
    let mut free = Vec::new();
    for hash in hashes {
        if !referenced.exists([Hash(hash)])? {
            free.push(hash);
        }
    }
    Ok(free)
}

/// Adds a row.
pub(crate) fn put(rows: &Connection, asset: &Asset) -> rusqlite::Result<()> {
    let tags = serde_json::Value::from(asset.tags.clone()).to_string();
    rows.prepare_cached(
        "INSERT INTO assets (id, account, hash, size_bytes, content_type, file_path, tags, created_at, expires_at, job_id)
         VALUES (:id, :account, :hash, :size_bytes, :content_type, :file_path, :tags, :created_at, :expires_at, :job_id)",
    )?
    .execute(named_params! {
        ":id": Id(asset.id.0),
        ":account": asset.account.as_str(),
        ":hash": Hash(asset.hash),
        ":size_bytes": i64::try_from(asset.size_bytes).unwrap_or(i64::MAX),
        ":content_type": asset.content_type,
        ":file_path": asset.file_path.as_ref().map(FilePath::as_str),
        ":tags": tags,
        ":created_at": Micros(asset.created_at),
        ":expires_at": asset.expires_at.map(Micros),
        ":job_id": asset.job_id.map(Id),
    })?;
    add_stored_bytes(rows, &asset.account, asset.size_bytes)
}

/// Counts what an account stores more with a row that comes. No trigger does it, as one does for rows that go: with a trigger,
/// SQLite keeps a journal of the insert, in case that its second half fails.
pub(crate) fn add_stored_bytes(
    rows: &Connection,
    account: &AccountId,
    bytes: u64,
) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "INSERT INTO stored_bytes (account, bytes) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes",
    )?
    .execute(params![
        account.as_str(),
        i64::try_from(bytes).unwrap_or(i64::MAX)
    ])?;
    Ok(())
}

/// The request and the record of a key that was claimed before; `None` if nobody claimed it, or its time or its record is over.
fn known_key(
    rows: &Connection,
    account: &AccountId,
    claim: &KeyClaim,
    now: Timestamp,
) -> rusqlite::Result<Option<(Fingerprint, Asset)>> {
    let key = rows
        .prepare_cached(
            "SELECT fingerprint, asset FROM asset_keys
             WHERE account = ?1 AND digest = ?2 AND expires_at > ?3",
        )?
        .query_row(
            params![account.as_str(), claim.digest, Micros(now)],
            |row| Ok((Fingerprint(row.get(0)?), row.get::<_, Id>(1)?)),
        )
        .optional()?;
    let Some((fingerprint, Id(id))) = key else {
        return Ok(None);
    };
    let asset = get(rows, account, AssetId(id), now)?;
    Ok(asset.map(|asset| (fingerprint, asset)))
}

fn has_bytes(
    rows: &Connection,
    account: &AccountId,
    hash: BlobHash,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    rows.prepare_cached(
        "SELECT 1 FROM assets WHERE hash = ?1 AND account = ?2
         AND (expires_at IS NULL OR expires_at > ?3)",
    )?
    .exists(params![Hash(hash), account.as_str(), Micros(now)])
}

/// The account's newest live record of the same bytes and name.
fn same(rows: &Connection, asked: &Asset, now: Timestamp) -> rusqlite::Result<Option<Asset>> {
    rows.prepare_cached(
        "SELECT * FROM assets WHERE hash = ?1 AND account = ?2 AND file_path IS ?3
          AND (expires_at IS NULL OR expires_at > ?4) ORDER BY seq DESC LIMIT 1",
    )?
    .query_row(
        params![
            Hash(asked.hash),
            asked.account.as_str(),
            asked.file_path.as_ref().map(FilePath::as_str),
            Micros(now),
        ],
        asset,
    )
    .optional()
}

fn as_it_reads_back(asset: Asset) -> Asset {
    Asset {
        created_at: whole_micros(asset.created_at),
        expires_at: asset.expires_at.map(whole_micros),
        ..asset
    }
}

fn asset(row: &Row<'_>) -> rusqlite::Result<Asset> {
    let path: Option<String> = row.get("file_path")?;
    let tags: String = row.get("tags")?;
    Ok(Asset {
        id: AssetId(row.get::<_, Id>("id")?.0),
        account: parse(row.get_ref("account")?.as_str()?)?,
        hash: row.get::<_, Hash>("hash")?.0,
        size_bytes: row.get::<_, i64>("size_bytes")?.unsigned_abs(),
        content_type: row.get("content_type")?,
        file_path: path.as_deref().map(parse).transpose()?,
        tags: serde_json::from_str(&tags).map_err(unreadable)?,
        created_at: row.get::<_, Micros>("created_at")?.0,
        expires_at: row
            .get::<_, Option<Micros>>("expires_at")?
            .map(|time| time.0),
        job_id: row.get::<_, Option<Id>>("job_id")?.map(|id| id.0),
    })
}

fn hold_columns(hold: Hold) -> (i64, Id) {
    match hold {
        Hold::Input(job) => (1, Id(job)),
        Hold::Output(job) => (2, Id(job)),
        Hold::Operator => (3, Id(Uuid::nil())),
    }
}

/// The hold of two columns.
fn hold_of(kind: i64, Id(job): Id) -> rusqlite::Result<Hold> {
    match kind {
        1 => Ok(Hold::Input(job)),
        2 => Ok(Hold::Output(job)),
        3 => Ok(Hold::Operator),
        _ => Err(unreadable(std::io::Error::other("no such kind of hold"))),
    }
}
