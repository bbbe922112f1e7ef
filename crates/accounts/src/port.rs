//! The ports of an account store: the one that requests ask, and the one that operators change it through.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Account, AccountChange, AccountId, ApiKey, Credits, KeyHash, KeyId, LedgerEntry, LedgerRef,
    Payer, Principal, Reservation, ScopedBudgetView, Tier,
};

/// The account store cannot answer now.
#[derive(Debug, thiserror::Error)]
#[error("the account store is unavailable")]
pub struct AccountsError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Keeps the credits of accounts: what was granted and billed, and what is held of it for what is under way.
///
/// **Contract.** It holds for any number of processes over one store. Every change is atomic, and its cause makes it one event:
/// repeated, whatever its amount, it answers as it did and changes nothing. A balance is the sum of its ledger's entries, which
/// are durable before they are answered and never change. Where an account is billed, no hold is made that is higher than what is
/// available; a charge may differ from its hold, and take the balance below nothing.
///
/// A hold lasts until it is settled or released. If its cause does not run, it ends also when its lease lapses: then its cents are
/// free, whether anybody noticed or not. A generation runs from its dispatch to its end, in the calls of the same installation. A
/// hold need not be durable: a store that knows the process to be gone that made it may forget it. Who goes on after a restart, or
/// after a hold lapsed, reserves again. The first hold of a cause settles which budgets of keys and labels it counts
/// against. This is durable: the bill counts in the same budgets, also if another process goes on with the cause. Suspended accounts
/// have credits like others; an account that does not exist has none, holds nothing, and settling for it fails.
#[async_trait]
pub trait CreditLedger: Send + Sync + 'static {
    /// What the account has now.
    async fn credits(&self, account: &AccountId, now: Timestamp) -> Result<Credits, AccountsError>;

    /// Sets credits aside for so long. Of a cause that has a hold, the amount stays as it is, and the time begins anew. The hold
    /// counts against those budgets that the payer's scopes have now.
    async fn reserve(
        &self,
        payer: Payer<'_>,
        cause: LedgerRef,
        hold_cents: u32,
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Reservation, AccountsError>;

    /// Has holds last so long from now on. Answers the positions of those that are none: they were settled or
    /// released, or lapsed before their cause ran.
    async fn renew(
        &self,
        holds: &[(&AccountId, LedgerRef)],
        lasts: Duration,
        now: Timestamp,
    ) -> Result<Vec<usize>, AccountsError>;

    /// Bills the cause and ends its hold, if it has one. The answer is the entry that stands: of a cause that was billed
    /// before, the first one.
    async fn settle(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        charge_cents: u32,
        now: Timestamp,
    ) -> Result<LedgerEntry, AccountsError>;

    /// Ends the hold of the cause, if it has one, without billing anything.
    async fn release(&self, account: &AccountId, cause: LedgerRef) -> Result<(), AccountsError>;

    /// The newest entries of the account's ledger, newest first; only those whose `seq` is below `before` where it is given.
    async fn entries(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError>;
}

/// Looks up accounts. A store of accounts keeps their credits.
///
/// **Contract.** The standings are `None` for what does not exist, was revoked, has expired or is suspended, and do not tell
/// which. An answer is never older than the last change that the same process made: a revocation, a suspension and another
/// tier count from the next look on. What another process changed comes after a moment, and is not taken back.
#[async_trait]
pub trait Accounts: CreditLedger {
    /// The principal that an API key gives at a time.
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError>;

    /// The full principal of an account that a verified token or the installation itself names.
    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError>;
}

/// Which accounts are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountQuery {
    /// This one.
    One(AccountId),
    /// At most `limit`, in the order of their ids.
    Page {
        /// Only those behind this one.
        after: Option<AccountId>,
        /// Most accounts of the page.
        limit: usize,
    },
}

/// An account as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// The account.
    pub account: Account,
    /// The tier that its limits make of the installation's.
    pub tier: Tier,
    /// What it has. Holds that lapsed a moment ago may still be in it.
    pub credits: Credits,
    /// The budgets of its keys and labels, keys first.
    pub scoped: Vec<ScopedBudgetView>,
}

/// A grant as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The entry of its cause: of a repeat, the first one.
    pub entry: LedgerEntry,
    /// What the account has now.
    pub credits: Credits,
}

/// Why an account or key was not changed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The id stands for another one.
    #[error("the id is taken")]
    Taken,
    /// There is no such account.
    #[error("no such account")]
    NoAccount,
    /// There is no such key.
    #[error("no such key")]
    NoKey,
    /// The store cannot answer now; nothing changed, or the change was made and could not be told.
    #[error(transparent)]
    Unavailable(#[from] AccountsError),
}

/// Changes accounts and keys: for operators alone.
///
/// **Contract.** Each call is one atomic change, durable before it is answered, and counts for every request that
/// [`Accounts`] is asked about from then on. Suspending an account and revoking a key end sessions in the same change
/// ([`crate::Sessions`]).
#[async_trait]
pub trait AccountAdmin: Send + Sync + 'static {
    /// Adds an account; [`AdminError::Taken`] where its id is.
    async fn create(&self, account: Account) -> Result<(), AdminError>;

    /// Makes all of the changes, in their order; the account as it is then. Without changes it is a look.
    async fn change(
        &self,
        id: &AccountId,
        changes: Vec<AccountChange>,
    ) -> Result<Account, AdminError>;

    /// Looks at accounts. One that does not exist is none.
    async fn accounts(&self, query: &AccountQuery) -> Result<Vec<AccountView>, AdminError>;

    /// Adds a key; [`AdminError::Taken`] where its id or its hash is, [`AdminError::NoAccount`] where it has no account.
    async fn add_key(&self, key: ApiKey, hash: KeyHash) -> Result<(), AdminError>;

    /// Every key of an account, revoked and expired ones too, the oldest first.
    async fn keys(&self, account: &AccountId) -> Result<Vec<ApiKey>, AdminError>;

    /// Revokes a key; one that was revoked before stays as it is.
    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<ApiKey, AdminError>;

    /// Gives the tier `defaults` from now on to every account where its limits say nothing else. No row says it: it holds for the
    /// requests that this process answers, until it ends.
    fn set_defaults(&self, defaults: Tier);

    /// Adds credits, or takes some away where `amount_cents` is below 0. Repeated for its cause, it changes nothing, whatever
    /// the amount: the answer has the entry that stands, and what the account has then.
    async fn grant(
        &self,
        account: &AccountId,
        cause: LedgerRef,
        amount_cents: i32,
        now: Timestamp,
    ) -> Result<Granted, AdminError>;
}

/// Makes the account that an installation works for without any other, where it is missing.
///
/// # Errors
/// If the store cannot be asked or written.
pub async fn ensure_local(admin: &dyn AccountAdmin, now: Timestamp) -> Result<(), AdminError> {
    let id = AccountId::local();
    if !admin
        .accounts(&AccountQuery::One(id.clone()))
        .await?
        .is_empty()
    {
        return Ok(());
    }
    let account = Account::new(id.clone(), (&id).into(), now);
    match admin.create(account).await {
        Ok(()) | Err(AdminError::Taken) => Ok(()),
        Err(error @ (AdminError::NoAccount | AdminError::NoKey | AdminError::Unavailable(_))) => {
            Err(error)
        }
    }
}
