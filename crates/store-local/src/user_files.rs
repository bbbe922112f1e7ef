//! Settings and saved files of accounts, over the rows.

use accounts::AccountId;
use asset_store::FilePath;
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Map, Value};
use v1_compat::{
    FileContent, FileWrite, Renamed, UserFile, UserFiles, UserFilesBounds, UserFilesError,
};

use crate::columns::{Micros, parse, unreadable};
use crate::database::{Database, DatabaseError, Durability};

/// Settings and files in the database of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteUserFiles {
    database: Database,
    bounds: UserFilesBounds,
}

/// A change, or why it was refused: what is refused changes nothing and fails nothing.
type Judged<T> = Result<T, UserFilesError>;

impl SqliteUserFiles {
    pub(crate) fn new(database: Database, bounds: UserFilesBounds) -> Self {
        Self { database, bounds }
    }

    async fn write_rows<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> rusqlite::Result<Judged<T>> + Send + 'static,
    ) -> Judged<T> {
        let written = self
            .database
            .write(Durability::Now, move |rows| operation(rows));
        written.await.map_err(unavailable)?
    }

    async fn read_rows<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Judged<T> {
        self.database.read(query).await.map_err(unavailable)
    }
}

fn settings(rows: &Connection, account: &AccountId) -> rusqlite::Result<Map<String, Value>> {
    let text: Option<String> = rows
        .prepare_cached("SELECT settings FROM user_settings WHERE account = ?1")?
        .query_row([account.as_str()], |row| row.get(0))
        .optional()?;
    match text {
        Some(text) => serde_json::from_str(&text).map_err(unreadable),
        None => Ok(Map::new()),
    }
}

fn file(row: &Row<'_>) -> rusqlite::Result<UserFile> {
    let path: String = row.get("path")?;
    Ok(UserFile {
        path: parse(&path)?,
        size_bytes: row.get::<_, i64>("size_bytes")?.unsigned_abs(),
        created_at: row.get::<_, Micros>("created_at")?.0,
        modified_at: row.get::<_, Micros>("modified_at")?.0,
    })
}

const COLUMNS: &str =
    "SELECT path, length(bytes) AS size_bytes, created_at, modified_at FROM user_files";

fn find(
    rows: &Connection,
    account: &AccountId,
    path: &FilePath,
) -> rusqlite::Result<Option<UserFile>> {
    rows.prepare_cached(&format!("{COLUMNS} WHERE account = ?1 AND path = ?2"))?
        .query_row([account.as_str(), path.as_str()], file)
        .optional()
}

fn read(
    rows: &Connection,
    account: &AccountId,
    path: &FilePath,
) -> rusqlite::Result<Option<Bytes>> {
    let bytes: Option<Vec<u8>> = rows
        .prepare_cached("SELECT bytes FROM user_files WHERE account = ?1 AND path = ?2")?
        .query_row([account.as_str(), path.as_str()], |row| row.get(0))
        .optional()?;
    Ok(bytes.map(Bytes::from))
}

fn delete(rows: &Connection, account: &AccountId, path: &FilePath) -> rusqlite::Result<bool> {
    let deleted = rows
        .prepare_cached("DELETE FROM user_files WHERE account = ?1 AND path = ?2")?
        .execute([account.as_str(), path.as_str()])?;
    Ok(deleted > 0)
}

#[async_trait]
impl UserFiles for SqliteUserFiles {
    async fn settings(&self, account: &AccountId) -> Judged<Map<String, Value>> {
        let account = account.clone();
        self.read_rows(move |rows| settings(rows, &account)).await
    }

    async fn set(&self, account: &AccountId, changes: Map<String, Value>) -> Judged<()> {
        let (account, bounds) = (account.clone(), self.bounds);
        self.write_rows(move |rows| {
            let mut settings = settings(rows, &account)?;
            settings.extend(changes);
            if let Err(refused) = bounds.check_settings(&settings) {
                return Ok(Err(refused));
            }
            let text = Value::Object(settings).to_string();
            rows.prepare_cached(
                "INSERT OR REPLACE INTO user_settings (account, settings) VALUES (?1, ?2)",
            )?
            .execute([account.as_str(), &text])?;
            Ok(Ok(()))
        })
        .await
    }

    async fn list(&self, account: &AccountId, folder: Option<&FilePath>) -> Judged<Vec<UserFile>> {
        let account = account.clone();
        // `0` follows `/`: between the two lies what begins with the folder and a slash.
        let below = folder.map(|folder| (format!("{folder}/"), format!("{folder}0")));
        self.read_rows(move |rows| {
            let (from, to) = below.unwrap_or_default();
            let mut files = rows.prepare_cached(&format!(
                "{COLUMNS} WHERE account = ?1 AND path >= ?2 AND (?3 = '' OR path < ?3) ORDER BY path"
            ))?;
            let files = files.query_map([account.as_str(), &from, &to], file)?;
            files.collect()
        })
        .await
    }

    async fn read(&self, account: &AccountId, path: &FilePath) -> Judged<Option<Bytes>> {
        let (account, path) = (account.clone(), path.clone());
        self.read_rows(move |rows| read(rows, &account, &path))
            .await
    }

    async fn write(
        &self,
        account: &AccountId,
        path: &FilePath,
        content: FileContent,
        now: Timestamp,
    ) -> Judged<FileWrite> {
        let (account, path, bounds) = (account.clone(), path.clone(), self.bounds);
        self.write_rows(move |rows| {
            let before = find(rows, &account, &path)?;
            let bytes = match content {
                FileContent::New(_) if before.is_some() => return Ok(Ok(FileWrite::Exists)),
                FileContent::New(bytes) | FileContent::Set(bytes) => bytes,
                FileContent::Edited(edit) => edit(read(rows, &account, &path)?),
            };
            let (files, total): (i64, i64) = rows
                .prepare_cached(
                    "SELECT count(*), coalesce(sum(length(bytes)), 0) FROM user_files
                     WHERE account = ?1 AND path <> ?2",
                )?
                .query_row([account.as_str(), path.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
            let files = usize::try_from(files).unwrap_or(usize::MAX);
            if let Err(refused) = bounds.check_file(bytes.len(), files, total.unsigned_abs()) {
                return Ok(Err(refused));
            }
            let created = before.map_or(now, |before| before.created_at);
            rows.prepare_cached(
                "INSERT OR REPLACE INTO user_files (account, path, bytes, created_at, modified_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                account.as_str(),
                path.as_str(),
                &bytes[..],
                Micros(created),
                Micros(now),
            ])?;
            let saved = find(rows, &account, &path)?;
            let saved = saved.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            Ok(Ok(FileWrite::Saved(saved)))
        })
        .await
    }

    async fn remove(&self, account: &AccountId, path: &FilePath) -> Judged<bool> {
        let (account, path) = (account.clone(), path.clone());
        self.write_rows(move |rows| Ok(Ok(delete(rows, &account, &path)?)))
            .await
    }

    async fn rename(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Judged<Renamed> {
        let (account, from, to) = (account.clone(), from.clone(), to.clone());
        self.write_rows(move |rows| {
            if find(rows, &account, &from)?.is_none() {
                return Ok(Ok(Renamed::Absent));
            }
            if from != to {
                if !replace && find(rows, &account, &to)?.is_some() {
                    return Ok(Ok(Renamed::Exists));
                }
                delete(rows, &account, &to)?;
                rows.prepare_cached(
                    "UPDATE user_files SET path = ?3 WHERE account = ?1 AND path = ?2",
                )?
                .execute([account.as_str(), from.as_str(), to.as_str()])?;
            }
            let renamed = find(rows, &account, &to)?;
            let renamed = renamed.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            Ok(Ok(Renamed::Renamed(renamed)))
        })
        .await
    }
}

fn unavailable(error: DatabaseError) -> UserFilesError {
    UserFilesError::Unavailable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use v1_compat::contract;

    use crate::Store;

    #[tokio::test]
    async fn files_in_rows_keep_the_contract() {
        let roots = Mutex::new(Vec::new());
        contract::user_files(|bounds| {
            let root = tempfile::tempdir().expect("a temporary directory");
            let store = Store::open(root.path()).expect("a fresh store");
            roots.lock().expect("no panic").push(root);
            Arc::new(store.user_files(bounds))
        })
        .await;
    }
}
