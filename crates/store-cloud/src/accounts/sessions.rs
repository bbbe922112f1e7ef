//! Sign-in sessions, in rows.
//!
//! Where several sessions of an account go at once, its row is locked first.

use accounts::{AccountId, AccountsError, AdminError, KeyHash, Session, SessionSource, Sessions};
use async_trait::async_trait;
use deadpool_postgres::Transaction;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::{PgAccounts, rows, unavailable};
use crate::DatabaseError;
use crate::columns::{from_micros, parse, whole_micros};
use crate::statements::{execute, query_opt, whole};

/// Most sessions past their time that one sign-in deletes.
const ENDED: i64 = 1_000;

#[async_trait]
impl Sessions for PgAccounts {
    async fn begin(&self, token: KeyHash, session: Session) -> Result<(), AdminError> {
        let begun = async {
            let mut connection = self.database.connection().await?;
            let rows = connection.transaction().await?;
            if rows::lock_account(&rows, &session.account).await?.is_none() {
                return Ok(Err(AdminError::NoAccount));
            }
            if !insert(&rows, &token, &session).await? {
                return Ok(Err(AdminError::Taken));
            }
            make_room(&rows, &token, &session.account).await?;
            delete_ended(&rows, session.began_at).await?;
            rows.commit().await?;
            Ok(Ok(()))
        };
        begun.await.map_err(unavailable)?
    }

    async fn find(
        &self,
        token: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Session>, AccountsError> {
        let found = async {
            let connection = self.database.connection().await?;
            let row = query_opt(
                &connection,
                "SELECT token, account, credential, scopes, began_at, ends_at FROM sessions WHERE token = $1",
                &[&token.as_bytes().as_slice()],
            )
            .await?;
            row.as_ref().map(read).transpose()
        };
        let found: Option<Session> = found.await.map_err(unavailable)?;
        Ok(found.filter(|session| session.counts(now)))
    }

    async fn end(&self, token: &KeyHash) -> Result<(), AccountsError> {
        let ended = async {
            let connection = self.database.connection().await?;
            execute(
                &connection,
                "DELETE FROM sessions WHERE token = $1",
                &[&token.as_bytes().as_slice()],
            )
            .await
        };
        ended.await.map(|_| ()).map_err(unavailable)
    }
}

/// Ends all sessions of an account, whose row is locked.
pub(super) async fn end_of_account(
    rows: &Transaction<'_>,
    account: &AccountId,
) -> Result<(), DatabaseError> {
    let account = account.as_str();
    execute(rows, "DELETE FROM sessions WHERE account = $1", &[&account]).await?;
    Ok(())
}

/// Ends the sessions that were begun with a key of an account, whose row is locked.
pub(super) async fn end_of_key(rows: &Transaction<'_>, key: &str) -> Result<(), DatabaseError> {
    execute(
        rows,
        "DELETE FROM sessions
         WHERE credential = (SELECT hash FROM api_keys WHERE id = $1) AND scopes IS NULL",
        &[&key],
    )
    .await?;
    Ok(())
}

/// Adds a session, also in place of one that is over; false if its token is taken.
async fn insert(
    rows: &Transaction<'_>,
    token: &KeyHash,
    session: &Session,
) -> Result<bool, DatabaseError> {
    let (credential, scopes) = match &session.source {
        SessionSource::Credential(hash) => (hash, None),
        SessionSource::Jwt { scopes, key } => (key, Some(scopes.to_string())),
    };
    let added = execute(
        rows,
        "INSERT INTO sessions (token, account, credential, scopes, began_at, ends_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (token) DO UPDATE SET account = excluded.account, credential = excluded.credential,
            scopes = excluded.scopes, began_at = excluded.began_at, ends_at = excluded.ends_at
         WHERE sessions.ends_at <= excluded.began_at",
        &[
            &token.as_bytes().as_slice(),
            &session.account.as_str(),
            &credential.as_bytes().as_slice(),
            &scopes,
            &session.began_at.as_microsecond(),
            &whole_micros(session.ends_at).as_microsecond(),
        ],
    )
    .await?;
    Ok(added == 1)
}

/// Ends the sessions of an account that end first, until it has no more than it may; `newest` stays.
async fn make_room(
    rows: &Transaction<'_>,
    newest: &KeyHash,
    account: &AccountId,
) -> Result<(), DatabaseError> {
    execute(
        rows,
        "DELETE FROM sessions WHERE token IN (
            SELECT token FROM sessions WHERE account = $1 AND token <> $2 ORDER BY ends_at DESC, token DESC
            OFFSET $3)",
        &[
            &account.as_str(),
            &newest.as_bytes().as_slice(),
            &whole(Session::MOST_PER_ACCOUNT - 1),
        ],
    )
    .await?;
    Ok(())
}

/// Deletes sessions that are over. Those that another transaction has are left to the next one.
async fn delete_ended(rows: &Transaction<'_>, now: Timestamp) -> Result<(), DatabaseError> {
    execute(
        rows,
        "DELETE FROM sessions WHERE token IN (
            SELECT token FROM sessions WHERE ends_at <= $1 ORDER BY ends_at LIMIT $2 FOR UPDATE SKIP LOCKED)",
        &[&now.as_microsecond(), &ENDED],
    )
    .await?;
    Ok(())
}

fn read(row: &Row) -> Result<Session, DatabaseError> {
    let hash = rows::read_hash(row, "credential")?;
    let source = match row.get::<_, Option<&str>>("scopes") {
        None => SessionSource::Credential(hash),
        Some(scopes) => SessionSource::Jwt {
            scopes: parse(scopes)?,
            key: hash,
        },
    };
    Ok(Session {
        account: parse(row.get("account"))?,
        source,
        began_at: from_micros(row.get("began_at"))?,
        ends_at: from_micros(row.get("ends_at"))?,
    })
}
