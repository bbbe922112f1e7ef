//! The credit ledger: holds and bills that arrive together are written together.

use std::time::Duration;

use accounts::{
    AccountId, AccountsError, AdminError, CreditLedger, Credits, Granted, LedgerEntry, LedgerRef,
    Payer, Reservation, lapses_at,
};
use async_trait::async_trait;
use futures_util::future::try_join;
use jiff::Timestamp;

use super::holds::{self, HoldBatch, Reserve};
use super::ledger::{self, Posting};
use super::{PgAccounts, unavailable};
use crate::statements::prepare;
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// Sets credits aside in one transaction.
pub(super) async fn reserve_all(
    database: Database,
    wishes: Vec<Reserve>,
) -> Result<Vec<Reservation>, DatabaseError> {
    let step = Step::on(&database).await?;
    let [lock, held, hold] = prepare(&*step, [holds::LOCK, holds::HELD, holds::HOLD]).await?;
    // A hold that a crash forgets is one of a call that was not dispatched, or whose router holds again.
    let begun = step.begin(Commits::Lazily);
    let (_, mut credits) = try_join(begun, HoldBatch::look(&step, &lock, &held, &wishes)).await?;
    let answers = wishes.iter().map(|wish| credits.judge(wish, true));
    let answers = answers.collect();
    if credits.is_durable() {
        step.durably().await?;
        credits.write_beside(&step).await?;
    }
    try_join(credits.write(&step, &hold), step.commit()).await?;
    Ok(answers)
}

/// Adds entries in one transaction.
pub(super) async fn post_all(
    database: Database,
    postings: Vec<Posting>,
) -> Result<Vec<Option<LedgerEntry>>, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let entries = ledger::post(&rows, &postings).await?;
    rows.commit().await?;
    Ok(entries)
}

/// Adds an entry, and answers what the account has with it.
pub(super) async fn grant(
    database: &Database,
    posting: Posting,
) -> Result<Option<Granted>, DatabaseError> {
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let posted = ledger::post(&rows, std::slice::from_ref(&posting)).await?;
    let Some(entry) = posted.into_iter().next().flatten() else {
        return Ok(None);
    };
    let credits = holds::credits(&rows, &posting.account, posting.at).await?;
    rows.commit().await?;
    Ok(Some(Granted { entry, credits }))
}

#[async_trait]
impl CreditLedger for PgAccounts {
    async fn credits(&self, account: &AccountId, now: Timestamp) -> Result<Credits, AccountsError> {
        let credits = async {
            let connection = self.database.connection().await?;
            holds::credits(&connection, account, now).await
        };
        credits.await.map_err(unavailable)
    }

    async fn reserve(
        &self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        let wish = Reserve {
            account: payer.account.clone(),
            scopes: payer.scopes.to_vec(),
            cause,
            hold_cents,
            budgets: self.defaults.tier().router.budgets,
            lasts,
            now,
        };
        self.reserving.write(wish).await.map_err(unavailable)
    }

    async fn renew(
        &self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        let renewed = async {
            let mut connection = self.database.connection().await?;
            let rows = connection.transaction().await?;
            // One that is lost is made up for by the next.
            rows.batch_execute("SET LOCAL synchronous_commit = off")
                .await?;
            let gone = holds::renew(&rows, holds, (now, lapses_at(now, lasts))).await?;
            rows.commit().await?;
            Ok(gone)
        };
        renewed.await.map_err(unavailable)
    }

    async fn settle(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        charge_cents: u32,
        now: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        let posting = Posting {
            account: account.clone(),
            cause,
            amount_cents: -i64::from(charge_cents),
            at: now,
        };
        let settled = self.posting.write(posting).await.map_err(unavailable)?;
        settled.ok_or_else(|| AccountsError(Box::new(AdminError::NoAccount)))
    }

    async fn release(&self, account: &AccountId, cause: LedgerRef) -> Result<(), AccountsError> {
        let released = async {
            let connection = self.database.connection().await?;
            holds::release(&connection, &[(account, cause)]).await
        };
        released.await.map(|_| ()).map_err(unavailable)
    }

    async fn entries(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        let entries = async {
            let connection = self.database.connection().await?;
            ledger::newest(&connection, account, before, limit).await
        };
        entries.await.map_err(unavailable)
    }
}
