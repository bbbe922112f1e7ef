//! Settings and saved files of accounts, in rows.

use accounts::AccountId;
use asset_store::FilePath;
use async_trait::async_trait;
use bytes::Bytes;
use deadpool_postgres::{GenericClient, Transaction};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use v1_compat::{
    FileContent, FileWrite, Renamed, UserFile, UserFiles, UserFilesBounds, UserFilesError,
};

use crate::columns::{from_micros, parse, unreadable, unsigned, whole_micros};
use crate::statements::{execute, query, query_opt};
use crate::{Database, DatabaseError};

/// Settings and files in a PostgreSQL database. Clones share it.
#[derive(Clone, Debug)]
pub struct PgUserFiles {
    database: Database,
    bounds: UserFilesBounds,
}

/// An answer, or why a change was refused: what is refused changes nothing.
type Judged<T> = Result<T, UserFilesError>;

impl PgUserFiles {
    /// The settings and files of this database, within these bounds for each account.
    #[must_use]
    pub fn new(database: Database, bounds: UserFilesBounds) -> Self {
        Self { database, bounds }
    }

    async fn set_rows(
        &self,
        account: &AccountId,
        changes: Map<String, Value>,
    ) -> Result<Judged<()>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        let mut settings = lock(&rows, account).await?;
        settings.extend(changes);
        if let Err(refused) = self.bounds.check_settings(&settings) {
            return Ok(Err(refused));
        }
        execute(
            &rows,
            "UPDATE user_settings SET settings = $2 WHERE account = $1",
            &[&account.as_str(), &Value::Object(settings).to_string()],
        )
        .await?;
        rows.commit().await?;
        Ok(Ok(()))
    }

    async fn write_row(
        &self,
        (account, path): (&AccountId, &FilePath),
        content: FileContent,
        now: Timestamp,
    ) -> Result<Judged<FileWrite>, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        lock(&rows, account).await?;
        let bytes = match content {
            FileContent::New(bytes) => match find(&rows, account, path).await? {
                Some(_) => return Ok(Ok(FileWrite::Exists)),
                None => bytes,
            },
            FileContent::Set(bytes) => bytes,
            FileContent::Edited(edit) => edit(read(&rows, account, path).await?),
        };
        let (files, total) = others(&rows, account, path).await?;
        if let Err(refused) = self.bounds.check_file(bytes.len(), files, total) {
            return Ok(Err(refused));
        }
        let saved = query_opt(
            &rows,
            "INSERT INTO user_files (account, path, bytes, created_at, modified_at) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (account, path) DO UPDATE SET bytes = excluded.bytes, modified_at = excluded.modified_at
             RETURNING path, size_bytes, created_at, modified_at",
            &[
                &account.as_str(),
                &path.as_str(),
                &&bytes[..],
                &whole_micros(now).as_microsecond(),
            ],
        )
        .await?;
        let saved = saved.as_ref().map(file).transpose()?;
        rows.commit().await?;
        Ok(Ok(saved.map_or(FileWrite::Exists, FileWrite::Saved)))
    }

    async fn rename_row(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Result<Renamed, DatabaseError> {
        let mut connection = self.database.connection().await?;
        let rows = connection.transaction().await?;
        lock(&rows, account).await?;
        let Some(known) = find(&rows, account, from).await? else {
            return Ok(Renamed::Absent);
        };
        if from == to {
            return Ok(Renamed::Renamed(known));
        }
        if !replace && find(&rows, account, to).await?.is_some() {
            return Ok(Renamed::Exists);
        }
        delete(&rows, account, to).await?;
        execute(
            &rows,
            "UPDATE user_files SET path = $3 WHERE account = $1 AND path = $2",
            &[&account.as_str(), &from.as_str(), &to.as_str()],
        )
        .await?;
        rows.commit().await?;
        Ok(Renamed::Renamed(UserFile {
            path: to.clone(),
            ..known
        }))
    }
}

/// The settings of an account, and its files, for this transaction alone.
async fn lock(
    rows: &Transaction<'_>,
    account: &AccountId,
) -> Result<Map<String, Value>, DatabaseError> {
    execute(
        rows,
        "INSERT INTO user_settings (account, settings) VALUES ($1, '{}') ON CONFLICT DO NOTHING",
        &[&account.as_str()],
    )
    .await?;
    let locked = query_opt(
        rows,
        "SELECT settings FROM user_settings WHERE account = $1 FOR UPDATE",
        &[&account.as_str()],
    )
    .await?;
    read_settings(locked)
}

fn read_settings(row: Option<Row>) -> Result<Map<String, Value>, DatabaseError> {
    row.map_or_else(
        || Ok(Map::new()),
        |row| serde_json::from_str(row.get(0)).map_err(unreadable),
    )
}

async fn find(
    rows: &impl GenericClient,
    account: &AccountId,
    path: &FilePath,
) -> Result<Option<UserFile>, DatabaseError> {
    let row = query_opt(
        rows,
        "SELECT path, size_bytes, created_at, modified_at FROM user_files WHERE account = $1 AND path = $2",
        &[&account.as_str(), &path.as_str()],
    )
    .await?;
    row.as_ref().map(file).transpose()
}

async fn read(
    rows: &impl GenericClient,
    account: &AccountId,
    path: &FilePath,
) -> Result<Option<Bytes>, DatabaseError> {
    let row = query_opt(
        rows,
        "SELECT bytes FROM user_files WHERE account = $1 AND path = $2",
        &[&account.as_str(), &path.as_str()],
    )
    .await?;
    Ok(row.map(|row| Bytes::from(row.get::<_, Vec<u8>>(0))))
}

/// How many other files an account has, and their bytes.
async fn others(
    rows: &impl GenericClient,
    account: &AccountId,
    path: &FilePath,
) -> Result<(usize, u64), DatabaseError> {
    let row = query_opt(
        rows,
        "SELECT count(*), coalesce(sum(size_bytes), 0)::bigint FROM user_files WHERE account = $1 AND path <> $2",
        &[&account.as_str(), &path.as_str()],
    )
    .await?;
    row.map_or(Ok((0, 0)), |row| {
        Ok((unsigned(row.get(0))?, unsigned(row.get(1))?))
    })
}

async fn delete(
    rows: &impl GenericClient,
    account: &AccountId,
    path: &FilePath,
) -> Result<bool, DatabaseError> {
    let deleted = execute(
        rows,
        "DELETE FROM user_files WHERE account = $1 AND path = $2",
        &[&account.as_str(), &path.as_str()],
    )
    .await?;
    Ok(deleted > 0)
}

fn file(row: &Row) -> Result<UserFile, DatabaseError> {
    Ok(UserFile {
        path: parse(row.get("path"))?,
        size_bytes: unsigned(row.get("size_bytes"))?,
        created_at: from_micros(row.get("created_at"))?,
        modified_at: from_micros(row.get("modified_at"))?,
    })
}

#[async_trait]
impl UserFiles for PgUserFiles {
    async fn settings(&self, account: &AccountId) -> Judged<Map<String, Value>> {
        let settings = async {
            let connection = self.database.connection().await?;
            let sql = "SELECT settings FROM user_settings WHERE account = $1";
            read_settings(query_opt(&connection, sql, &[&account.as_str()]).await?)
        };
        settings.await.map_err(unavailable)
    }

    async fn set(&self, account: &AccountId, changes: Map<String, Value>) -> Judged<()> {
        let set = self.set_rows(account, changes).await;
        set.map_err(unavailable)?
    }

    async fn list(&self, account: &AccountId, folder: Option<&FilePath>) -> Judged<Vec<UserFile>> {
        // `0` follows `/`: between the two lies what begins with the folder and a slash.
        let (from, to) = match folder {
            Some(folder) => (format!("{folder}/"), Some(format!("{folder}0"))),
            None => (String::new(), None),
        };
        let listed = async {
            let connection = self.database.connection().await?;
            let found = query(
                &connection,
                "SELECT path, size_bytes, created_at, modified_at FROM user_files
                 WHERE account = $1 AND path >= $2 AND ($3::text IS NULL OR path < $3) ORDER BY path",
                &[&account.as_str(), &from, &to],
            )
            .await?;
            found.iter().map(file).collect()
        };
        let listed: Result<_, DatabaseError> = listed.await;
        listed.map_err(unavailable)
    }

    async fn read(&self, account: &AccountId, path: &FilePath) -> Judged<Option<Bytes>> {
        let found = async {
            let connection = self.database.connection().await?;
            read(&connection, account, path).await
        };
        found.await.map_err(unavailable)
    }

    async fn write(
        &self,
        account: &AccountId,
        path: &FilePath,
        content: FileContent,
        now: Timestamp,
    ) -> Judged<FileWrite> {
        let written = self.write_row((account, path), content, now).await;
        written.map_err(unavailable)?
    }

    async fn remove(&self, account: &AccountId, path: &FilePath) -> Judged<bool> {
        let removed = async {
            let connection = self.database.connection().await?;
            delete(&connection, account, path).await
        };
        removed.await.map_err(unavailable)
    }

    async fn rename(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Judged<Renamed> {
        let renamed = self.rename_row(account, from, to, replace).await;
        renamed.map_err(unavailable)
    }
}

fn unavailable(error: DatabaseError) -> UserFilesError {
    UserFilesError::Unavailable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use v1_compat::contract;

    use super::*;
    use crate::testing;

    #[tokio::test(flavor = "multi_thread")]
    async fn files_in_rows_keep_the_contract() {
        if !crate::testing::has_postgres() {
            return;
        }
        contract::user_files(|bounds| {
            Arc::new(PgUserFiles::new(testing::now(testing::database()), bounds))
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_in_rows_keep_the_contract_of_replicas() {
        if !crate::testing::has_postgres() {
            return;
        }
        contract::replicas(|bounds| {
            let url = testing::now(testing::fresh_database());
            [(); 2].map(|()| -> Arc<dyn UserFiles> {
                Arc::new(PgUserFiles::new(testing::now(testing::open(&url)), bounds))
            })
        })
        .await;
    }

    #[tokio::test]
    async fn what_two_processes_set_at_once_adds_up() {
        if !crate::testing::has_postgres() {
            return;
        }
        let url = testing::fresh_database().await;
        let open = async || PgUserFiles::new(testing::open(&url).await, UserFilesBounds::DEFAULT);
        let (one, other) = (open().await, open().await);
        let local = AccountId::local();
        let set = async |files: &PgUserFiles, of: &str| {
            for number in 0..20 {
                let changes = [(format!("{of}{number}"), Value::from(number))];
                let set = files.set(&local, changes.into_iter().collect()).await;
                set.expect("it is kept");
            }
        };
        futures_util::future::join(set(&one, "a"), set(&other, "b")).await;
        let settings = one.settings(&local).await.expect("an answer");
        assert_eq!(settings.len(), 40);
    }
}
