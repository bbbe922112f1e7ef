//! The SQL of records and holds: jobs write them in transactions of their own.
//!
//! A transaction that makes or deletes records, or counts outputs, first locks the stored bytes of all its accounts
//! ([`lock_accounts`]), after the rows of jobs and those of credits; then single records, in the order of their ids.

use std::collections::{HashMap, HashSet};

use accounts::AccountId;
use asset_store::{Asset, AssetId, AssetQuery, BlobHash, FilePath, Hold, KeptAsset};
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::DatabaseError;
use crate::columns::{from_micros, hash, parse, unreadable, unsigned, whole_micros};
use crate::newest::{newest, places};
use crate::statements::{Values, execute, prepare, query, query_opt, whole};

/// The columns of a record.
pub(super) const ASSET: &str = "assets.id, assets.account, assets.hash, assets.size_bytes, assets.content_type, \
    assets.file_path, assets.tags, assets.created_at, assets.expires_at, assets.job_id";

/// A record to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewRecord {
    pub(crate) asset: Asset,
    /// A job only showed it: it is listed nowhere.
    pub(crate) temp: bool,
}

/// Locks what accounts have stored, in the order of their ids, until the transaction ends; how many bytes that is. Every account
/// of the list is in the answer.
pub(crate) async fn lock_accounts(
    rows: &impl GenericClient,
    accounts: &[&AccountId],
) -> Result<HashMap<AccountId, u64>, DatabaseError> {
    let mut names: Vec<&str> = accounts.iter().map(|account| account.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    // What is missing comes first: who waits for a row that another transaction is making has none locked.
    let newest = newest("r.bytes", "stored_bytes", "asked.account");
    let make = format!(
        "INSERT INTO stored_bytes (account, bytes)
         SELECT asked.account, 0 FROM unnest($1::text[]) AS asked (account) LEFT JOIN LATERAL ({newest}) AS r ON true
         WHERE r.bytes IS NULL ON CONFLICT DO NOTHING"
    );
    // One account after the other, as they are asked for.
    let lock = format!(
        "SELECT asked.account, r.bytes
         FROM unnest($1::text[]) AS asked (account) CROSS JOIN LATERAL ({newest} FOR UPDATE) AS r"
    );
    let [make, lock] = prepare(rows, [&*make, &*lock]).await?;
    let values: Values<'_> = &[&names];
    let (_, locked) = tokio::try_join!(rows.execute(&make, values), rows.query(&lock, values))?;
    let stored = locked
        .iter()
        .map(|row| Ok((parse(row.get(0))?, unsigned(row.get(1))?)));
    stored.collect()
}

/// How many bytes an account has stored.
pub(crate) async fn stored_bytes(
    rows: &impl GenericClient,
    account: &AccountId,
) -> Result<u64, DatabaseError> {
    let sql = newest("r.bytes", "stored_bytes", "$1");
    let row = query_opt(rows, &sql, &[&account.as_str()]).await?;
    row.map_or(Ok(0), |row| unsigned(row.get(0)))
}

/// Counts bytes that come to accounts, or go where they are below 0. The accounts are locked.
pub(crate) async fn add_stored(
    rows: &impl GenericClient,
    changes: &[(&AccountId, i64)],
) -> Result<(), DatabaseError> {
    if changes.is_empty() {
        return Ok(());
    }
    let accounts: Vec<&str> = changes
        .iter()
        .map(|(account, _)| account.as_str())
        .collect();
    let bytes: Vec<i64> = changes.iter().map(|(_, bytes)| *bytes).collect();
    let sums = "(SELECT account, sum(bytes)::bigint AS bytes
        FROM unnest($1::text[], $2::bigint[]) AS changes (account, bytes) GROUP BY account) AS asked";
    let sql = format!(
        "UPDATE stored_bytes SET bytes = stored_bytes.bytes + sums.bytes FROM ({}) AS sums
         WHERE stored_bytes.ctid = sums.place",
        places("stored_bytes", sums)
    );
    execute(rows, &sql, &[&accounts, &bytes]).await?;
    Ok(())
}

/// Adds records, in their order, and counts their bytes. One whose id is there stays as it is: a repeated output is the same one.
/// The accounts are locked.
pub(crate) async fn put(
    rows: &impl GenericClient,
    records: &[NewRecord],
) -> Result<(), DatabaseError> {
    if records.is_empty() {
        return Ok(());
    }
    let assets = || records.iter().map(|record| &record.asset);
    let ids: Vec<Uuid> = assets().map(|asset| asset.id.0).collect();
    let accounts: Vec<&str> = assets().map(|asset| asset.account.as_str()).collect();
    let hashes: Vec<&[u8]> = assets().map(|it| it.hash.as_bytes().as_slice()).collect();
    let sizes: Vec<i64> = assets().map(|asset| whole(asset.size_bytes)).collect();
    let types: Vec<&str> = assets().map(|asset| asset.content_type.as_str()).collect();
    let paths: Vec<Option<&str>> = assets()
        .map(|asset| asset.file_path.as_ref().map(FilePath::as_str))
        .collect();
    let tags: Vec<String> = assets()
        .map(|asset| serde_json::Value::from(asset.tags.clone()).to_string())
        .collect();
    let created: Vec<i64> = assets().map(|it| it.created_at.as_microsecond()).collect();
    let expires: Vec<Option<i64>> = assets()
        .map(|asset| asset.expires_at.map(Timestamp::as_microsecond))
        .collect();
    let jobs: Vec<Option<Uuid>> = assets().map(|asset| asset.job_id).collect();
    let temp: Vec<bool> = records.iter().map(|record| record.temp).collect();
    let sums =
        "(SELECT account, sum(size_bytes)::bigint AS bytes FROM made GROUP BY account) AS asked";
    let sql = format!(
        "WITH made AS (
            INSERT INTO assets (id, account, hash, size_bytes, content_type, file_path, tags, created_at, expires_at,
                job_id, temp)
            SELECT id, account, hash, size_bytes, content_type, file_path, tags, created_at, expires_at, job_id, temp
            FROM unnest($2::uuid[], $1::text[], $3::bytea[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                $8::bigint[], $9::bigint[], $10::uuid[], $11::boolean[]) WITH ORDINALITY
                AS asked (id, account, hash, size_bytes, content_type, file_path, tags, created_at, expires_at, job_id,
                    temp, place)
            ORDER BY place
            ON CONFLICT (id) DO NOTHING RETURNING account, size_bytes
         )
         UPDATE stored_bytes SET bytes = stored_bytes.bytes + sums.bytes FROM ({}) AS sums
         WHERE stored_bytes.ctid = sums.place",
        places("stored_bytes", sums)
    );
    let values: Values<'_> = &[
        &accounts, &ids, &hashes, &sizes, &types, &paths, &tags, &created, &expires, &jobs, &temp,
    ];
    execute(rows, &sql, values).await?;
    Ok(())
}

/// Lets records expire then, or when they said before if that is later. The accounts are locked.
pub(crate) async fn expire_at(
    rows: &impl GenericClient,
    deadlines: &[(AssetId, Timestamp)],
) -> Result<(), DatabaseError> {
    if deadlines.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = deadlines.iter().map(|(id, _)| id.0).collect();
    let times: Vec<i64> = deadlines
        .iter()
        .map(|(_, at)| at.as_microsecond())
        .collect();
    execute(
        rows,
        "UPDATE assets SET expires_at = greatest(assets.expires_at, asked.expires_at)
         FROM unnest($1::uuid[], $2::bigint[]) AS asked (id, expires_at) WHERE assets.id = asked.id",
        &[&ids, &times],
    )
    .await?;
    Ok(())
}

/// Locks records against deletion, in the order of their ids, and answers those that are there.
pub(crate) async fn keep(
    rows: &impl GenericClient,
    ids: &[AssetId],
) -> Result<Vec<AssetId>, DatabaseError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let found = query(
        rows,
        "SELECT id FROM assets WHERE id = ANY($1) ORDER BY id FOR KEY SHARE",
        &[&ids],
    )
    .await?;
    Ok(found.iter().map(|row| AssetId(row.get(0))).collect())
}

/// Adds holds to records that [`keep`] found or this transaction made.
pub(crate) async fn add_holds(
    rows: &impl GenericClient,
    holds: &[(AssetId, Hold)],
) -> Result<(), DatabaseError> {
    if holds.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = holds.iter().map(|(id, _)| id.0).collect();
    let (kinds, jobs): (Vec<i16>, Vec<Uuid>) =
        holds.iter().map(|(_, hold)| hold_columns(*hold)).unzip();
    execute(
        rows,
        "INSERT INTO asset_holds (asset, kind, job_id)
         SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::uuid[]) AS asked (asset, kind, job_id)
         ORDER BY asset, kind, job_id ON CONFLICT DO NOTHING",
        &[&ids, &kinds, &jobs],
    )
    .await?;
    Ok(())
}

/// Takes holds away from every record that has them. A hold of a job goes only while the job's row is locked.
pub(crate) async fn release(
    rows: &impl GenericClient,
    holds: &[Hold],
) -> Result<(), DatabaseError> {
    if holds.is_empty() {
        return Ok(());
    }
    let (kinds, jobs): (Vec<i16>, Vec<Uuid>) = holds.iter().map(|it| hold_columns(*it)).unzip();
    execute(
        rows,
        "DELETE FROM asset_holds USING unnest($1::smallint[], $2::uuid[]) AS asked (kind, job_id)
         WHERE asset_holds.kind = asked.kind AND asset_holds.job_id = asked.job_id",
        &[&kinds, &jobs],
    )
    .await?;
    Ok(())
}

/// Counts on, where there is a counter. As in [`crate::newest`], by a key of two columns.
const COUNT: &str = "UPDATE output_counters AS c SET number = c.number + n.count
    FROM (
        SELECT asked.count, r.place FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (account, counter, count)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS place FROM output_counters AS r
            WHERE r.account = asked.account AND r.counter >= asked.counter AND r.counter <= asked.counter
            ORDER BY r.counter DESC LIMIT 1
        ) AS r WHERE asked.account = ANY($1)
    ) AS n WHERE c.ctid = n.place RETURNING c.account, c.counter, c.number";

/// The next numbers of counted names of accounts, from 1: the first of as many as are asked for of each. The accounts are locked.
/// No counter is asked for twice.
pub(crate) async fn next_numbers(
    rows: &impl GenericClient,
    asked: &[(&str, &str, i64)],
) -> Result<Vec<u64>, DatabaseError> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let accounts: Vec<&str> = asked.iter().map(|(account, ..)| *account).collect();
    let counters: Vec<&str> = asked.iter().map(|(_, counter, _)| *counter).collect();
    let counts: Vec<i64> = asked.iter().map(|(.., count)| *count).collect();
    let values: Values<'_> = &[&accounts, &counters, &counts];
    let mut found = query(rows, COUNT, values).await?;
    if found.len() < asked.len() {
        let begin = "INSERT INTO output_counters (account, counter, number)
             SELECT asked.account, asked.counter, asked.count
             FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (account, counter, count)
             ON CONFLICT (account, counter) DO NOTHING RETURNING account, counter, number";
        found.extend(query(rows, begin, values).await?);
    }
    let mut last: HashMap<(&str, &str), i64> = HashMap::with_capacity(found.len());
    for row in &found {
        last.insert((row.get(0), row.get(1)), row.get(2));
    }
    let first = asked.iter().map(|(account, counter, count)| {
        let last = last.get(&(*account, *counter)).copied();
        unsigned(last.unwrap_or_default() - count + 1)
    });
    first.collect()
}

/// Those of these names of accounts that a live record has at the time that stands beside each.
pub(crate) async fn taken(
    rows: &impl GenericClient,
    names: &[(&AccountId, FilePath, Timestamp)],
) -> Result<HashSet<(AccountId, FilePath)>, DatabaseError> {
    if names.is_empty() {
        return Ok(HashSet::new());
    }
    let accounts: Vec<&str> = names.iter().map(|(account, ..)| account.as_str()).collect();
    let paths: Vec<&str> = names.iter().map(|(_, path, _)| path.as_str()).collect();
    let times: Vec<i64> = names.iter().map(|(.., at)| at.as_microsecond()).collect();
    let found = query(
        rows,
        "SELECT n.account, n.path FROM unnest($1::text[], $2::text[], $3::bigint[]) AS n (account, path, at)
         CROSS JOIN LATERAL (
            SELECT FROM assets AS a WHERE a.account = n.account AND a.file_path = n.path
                AND (a.expires_at IS NULL OR a.expires_at > n.at) LIMIT 1
         ) AS a",
        &[&accounts, &paths, &times],
    )
    .await?;
    let taken = found
        .iter()
        .map(|row| Ok((parse(row.get(0))?, parse(row.get(1))?)));
    taken.collect()
}

/// A live record by id.
pub(crate) async fn get(
    rows: &impl GenericClient,
    account: &AccountId,
    id: AssetId,
    now: Timestamp,
) -> Result<Option<Asset>, DatabaseError> {
    let row = query_opt(
        rows,
        &format!(
            "SELECT {ASSET} FROM assets WHERE id = $1 AND account = $2 AND (expires_at IS NULL OR expires_at > $3)"
        ),
        &[&id.0, &account.as_str(), &now.as_microsecond()],
    )
    .await?;
    row.as_ref().map(asset).transpose()
}

/// The newest live record that fits.
pub(crate) async fn find(
    rows: &impl GenericClient,
    account: &AccountId,
    wanted: &AssetQuery,
    now: Timestamp,
) -> Result<Option<Asset>, DatabaseError> {
    let (account, now) = (account.as_str(), now.as_microsecond());
    let newest = async |fits: &str, values: Values<'_>| {
        let sql = format!(
            "SELECT {ASSET} FROM assets WHERE account = $1 AND {fits}
                AND (expires_at IS NULL OR expires_at > $3) ORDER BY seq DESC LIMIT 1"
        );
        let row = query_opt(rows, &sql, values).await?;
        row.as_ref().map(asset).transpose()
    };
    match wanted {
        AssetQuery::Hash(hash) => {
            newest("hash = $2", &[&account, &hash.as_bytes().as_slice(), &now]).await
        }
        AssetQuery::Path(path) => newest("file_path = $2", &[&account, &path.as_str(), &now]).await,
        AssetQuery::Upload(path) => {
            newest(
                "file_path = $2 AND job_id IS NULL",
                &[&account, &path.as_str(), &now],
            )
            .await
        }
        AssetQuery::Output(path) => {
            newest(
                "file_path = $2 AND job_id IS NOT NULL",
                &[&account, &path.as_str(), &now],
            )
            .await
        }
    }
}

/// A record, expired or not, with at most `limit` of its holds.
pub(super) async fn kept(
    rows: &impl GenericClient,
    id: AssetId,
    limit: usize,
) -> Result<Option<KeptAsset>, DatabaseError> {
    // In one look, so that they fit to each other; a record without any hold is one row of none.
    let sql = format!(
        "SELECT {ASSET}, kind, holder FROM assets LEFT JOIN LATERAL (
            SELECT kind, asset_holds.job_id AS holder FROM asset_holds WHERE asset = assets.id
            ORDER BY kind DESC, holder LIMIT $2
         ) AS holds ON true WHERE id = $1 ORDER BY kind DESC, holder"
    );
    let found = query(rows, &sql, &[&id.0, &whole(limit)]).await?;
    let Some(first) = found.first() else {
        return Ok(None);
    };
    let holds = found.iter().filter_map(|row| {
        let kind: Option<i16> = row.get("kind");
        kind.map(|kind| hold(kind, row.get("holder")))
    });
    Ok(Some(KeptAsset {
        asset: asset(first)?,
        holds: holds.collect::<Result<_, _>>()?,
    }))
}

/// Live records with a name, newest first: those that jobs made, or those that none did. What a job only showed is left out.
pub(super) async fn named(
    rows: &impl GenericClient,
    account: &AccountId,
    made_by_jobs: bool,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Asset>, DatabaseError> {
    let sql = format!(
        "SELECT {ASSET} FROM assets WHERE account = $1 AND file_path IS NOT NULL AND (job_id IS NOT NULL) = $2 AND NOT temp
            AND (expires_at IS NULL OR expires_at > $3) ORDER BY seq DESC LIMIT $4"
    );
    let (account, now, limit) = (account.as_str(), now.as_microsecond(), whole(limit));
    let found = query(rows, &sql, &[&account, &made_by_jobs, &now, &limit]).await?;
    found.iter().map(asset).collect()
}

/// Those of `hashes` that no record refers to.
pub(super) async fn unreferenced(
    rows: &impl GenericClient,
    hashes: &[BlobHash],
) -> Result<Vec<BlobHash>, DatabaseError> {
    let hashes: Vec<&[u8]> = hashes.iter().map(|it| it.as_bytes().as_slice()).collect();
    let free = query(
        rows,
        "SELECT hash FROM unnest($1::bytea[]) WITH ORDINALITY AS asked (hash, place)
         WHERE NOT EXISTS (SELECT FROM assets WHERE assets.hash = asked.hash) ORDER BY place",
        &[&hashes],
    )
    .await?;
    free.iter().map(|row| hash(row.get(0))).collect()
}

/// A record with the times that it reads back with.
pub(crate) fn as_it_reads_back(asset: Asset) -> Asset {
    Asset {
        created_at: whole_micros(asset.created_at),
        expires_at: asset.expires_at.map(whole_micros),
        ..asset
    }
}

/// A record from a whole row of `assets`.
pub(crate) fn asset(row: &Row) -> Result<Asset, DatabaseError> {
    let path: Option<&str> = row.get("file_path");
    let expires: Option<i64> = row.get("expires_at");
    Ok(Asset {
        id: AssetId(row.get("id")),
        account: parse(row.get("account"))?,
        hash: hash(row.get("hash"))?,
        size_bytes: unsigned(row.get("size_bytes"))?,
        content_type: row.get("content_type"),
        file_path: path.map(parse).transpose()?,
        tags: serde_json::from_str(row.get("tags")).map_err(unreadable)?,
        created_at: from_micros(row.get("created_at"))?,
        expires_at: expires.map(from_micros).transpose()?,
        job_id: row.get("job_id"),
    })
}

/// The two columns of a hold.
pub(super) fn hold_columns(hold: Hold) -> (i16, Uuid) {
    match hold {
        Hold::Input(job) => (1, job),
        Hold::Output(job) => (2, job),
        Hold::Operator => (3, Uuid::nil()),
    }
}

/// The hold of two columns.
fn hold(kind: i16, job: Uuid) -> Result<Hold, DatabaseError> {
    match kind {
        1 => Ok(Hold::Input(job)),
        2 => Ok(Hold::Output(job)),
        3 => Ok(Hold::Operator),
        _ => Err(unreadable(std::io::Error::other("no such kind of hold"))),
    }
}
