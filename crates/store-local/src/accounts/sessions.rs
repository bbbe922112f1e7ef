//! Sign-in sessions: rows alone, so that they hold for every process and survive it.

use accounts::{
    AccountId, AccountsError, AdminError, KeyHash, KeyId, Session, SessionSource, Sessions,
};
use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteAccounts, unavailable};
use crate::columns::{Micros, parse, whole_micros};

#[async_trait]
impl Sessions for SqliteAccounts {
    async fn begin(&self, token: KeyHash, session: Session) -> Result<(), AdminError> {
        // Accounts never go, so this cannot change before the row is written.
        if !self.accounts.knows(&session.account) {
            return Err(AdminError::NoAccount);
        }
        let begun = self.write(move |_, rows| {
            delete_ended(rows, session.began_at)?;
            let begun = insert(rows, &token, &session)?;
            if begun {
                make_room(rows, &token, &session.account)?;
            }
            Ok(begun)
        });
        begun.await?.then_some(()).ok_or(AdminError::Taken)
    }

    async fn find(
        &self,
        token: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Session>, AccountsError> {
        let token = *token;
        let found = self.database.read(move |rows| find(rows, &token));
        let found = found.await.map_err(unavailable)?;
        Ok(found.filter(|session| session.counts(now)))
    }

    async fn end(&self, token: &KeyHash) -> Result<(), AccountsError> {
        let token = *token;
        self.write(move |_, rows| {
            rows.prepare_cached("DELETE FROM sessions WHERE token = ?1")?
                .execute([token.as_bytes().as_slice()])?;
            Ok(())
        })
        .await
    }
}

/// Ends all sessions of an account.
pub(super) fn end_of_account(rows: &Connection, account: &AccountId) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM sessions WHERE account = ?1")?
        .execute([account.as_str()])?;
    Ok(())
}

/// Ends the sessions that were begun with a key.
pub(super) fn end_of_key(rows: &Connection, key: &KeyId) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "DELETE FROM sessions
         WHERE credential = (SELECT hash FROM api_keys WHERE id = ?1) AND scopes IS NULL",
    )?
    .execute([key.as_str()])?;
    Ok(())
}

fn delete_ended(rows: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    rows.prepare_cached("DELETE FROM sessions WHERE ends_at <= ?1")?
        .execute([Micros(now)])?;
    Ok(())
}

/// Adds a session; false if its token is taken.
fn insert(rows: &Connection, token: &KeyHash, session: &Session) -> rusqlite::Result<bool> {
    let (credential, scopes) = match &session.source {
        SessionSource::Credential(hash) => (hash, None),
        SessionSource::Jwt { scopes, key } => (key, Some(scopes.to_string())),
    };
    let added = rows
        .prepare_cached(
            "INSERT INTO sessions (token, account, credential, scopes, began_at, ends_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            token.as_bytes().as_slice(),
            session.account.as_str(),
            credential.as_bytes().as_slice(),
            scopes,
            Micros(session.began_at),
            Micros(whole_micros(session.ends_at)),
        ])?;
    Ok(added == 1)
}

/// Ends the sessions of an account that end first, until it has no more than it may; `newest` stays.
fn make_room(rows: &Connection, newest: &KeyHash, account: &AccountId) -> rusqlite::Result<()> {
    rows.prepare_cached(
        "DELETE FROM sessions WHERE token IN (
            SELECT token FROM sessions WHERE account = ?1 AND token != ?2 ORDER BY ends_at, token
            LIMIT max(0, (SELECT count(*) FROM sessions WHERE account = ?1) - ?3)
         )",
    )?
    .execute(params![
        account.as_str(),
        newest.as_bytes().as_slice(),
        i64::try_from(Session::MOST_PER_ACCOUNT).unwrap_or(i64::MAX),
    ])?;
    Ok(())
}

fn find(rows: &Connection, token: &KeyHash) -> rusqlite::Result<Option<Session>> {
    rows.prepare_cached("SELECT * FROM sessions WHERE token = ?1")?
        .query_row([token.as_bytes().as_slice()], read)
        .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    let hash = KeyHash::from_bytes(row.get("credential")?);
    let scopes: Option<String> = row.get("scopes")?;
    let source = match scopes {
        None => SessionSource::Credential(hash),
        Some(scopes) => SessionSource::Jwt {
            scopes: parse(&scopes)?,
            key: hash,
        },
    };
    let (Micros(began_at), Micros(ends_at)) = (row.get("began_at")?, row.get("ends_at")?);
    let account: String = row.get("account")?;
    Ok(Session {
        account: parse(&account)?,
        source,
        began_at,
        ends_at,
    })
}
