//! An account as an operator keeps it, and every way to change one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::{AccountId, BudgetScope, Budgets, Entitlements, Limits, RateWindow};

/// Most characters of a display name.
const MAX_NAME: usize = 100;

/// An account. It is never deleted, because the ledger names it: it is suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id, on the wire of Family A the workspace's.
    pub id: AccountId,
    /// What people call it.
    pub name: DisplayName,
    /// Whether its credentials count.
    pub state: AccountState,
    /// Whether its subscription is active: without one it may read, and run nothing.
    pub subscribed: bool,
    /// Whether the model router is enabled for it.
    pub router: bool,
    /// Whether billing is on: only then does an empty balance refuse anything.
    pub billed: bool,
    /// Where its tier differs from that of the installation.
    pub limits: Limits,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Whether the credentials of an account count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// They do.
    Active,
    /// None of them does; what already runs ends by itself.
    Suspended,
}

/// One change of an account. `None` in a limit goes back to what the installation gives everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountChange {
    /// Another display name.
    Name(DisplayName),
    /// Suspends or resumes it.
    State(AccountState),
    /// Starts or ends its subscription.
    Subscribed(bool),
    /// Enables or disables the model router for it.
    Router(bool),
    /// Turns billing on or off.
    Billed(bool),
    /// Jobs that may run at the same time.
    ConcurrentJobs(Option<u32>),
    /// Jobs that may wait.
    QueuedJobs(Option<u32>),
    /// Event streams that may be open.
    Streams(Option<u32>),
    /// Largest upload.
    UploadBytes(Option<u64>),
    /// Bytes that records and graphs may have together.
    StoredBytes(Option<u64>),
    /// Jobs that may be submitted in spans of time.
    Submissions(Option<Arc<[RateWindow]>>),
    /// How long uploads are kept.
    UploadRetention(Option<SignedDuration>),
    /// How long jobs and their outputs are kept.
    JobRetention(Option<SignedDuration>),
    /// Router calls that may run at the same time.
    ConcurrentCalls(Option<u32>),
    /// US cents that calls in flight may commit.
    CommittedSpendCents(Option<u64>),
    /// US cents that calls may be charged in windows of the calendar.
    Budgets(Option<Budgets>),
    /// The same for the calls of single keys and those with single labels; no budgets take them away.
    ScopedBudgets(Vec<(BudgetScope, Budgets)>),
    /// Requests to the router in spans of time.
    RateWindows(Option<Arc<[RateWindow]>>),
    /// Models that may be called.
    Entitlements(Option<Entitlements>),
    /// Whether the files that results name are kept.
    KeepResults(Option<bool>),
}

/// What people call an account or a key: 1 to 100 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayName(Arc<str>);

/// The text is no display name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 100 characters, and no control characters")]
pub struct InvalidDisplayName;

impl Account {
    /// A new account: active, subscribed, with the router enabled, not billed, in the tier of the installation.
    #[must_use]
    pub fn new(id: AccountId, name: DisplayName, now: Timestamp) -> Self {
        Self {
            id,
            name,
            state: AccountState::Active,
            subscribed: true,
            router: true,
            billed: false,
            limits: Limits::default(),
            created_at: now,
        }
    }

    /// Makes one change.
    pub fn apply(&mut self, change: AccountChange) {
        let limits = &mut self.limits;
        match change {
            AccountChange::Name(name) => self.name = name,
            AccountChange::State(state) => self.state = state,
            AccountChange::Subscribed(subscribed) => self.subscribed = subscribed,
            AccountChange::Router(router) => self.router = router,
            AccountChange::Billed(billed) => self.billed = billed,
            AccountChange::ConcurrentJobs(limit) => limits.concurrent_jobs = limit,
            AccountChange::QueuedJobs(limit) => limits.queued_jobs = limit,
            AccountChange::Streams(limit) => limits.streams = limit,
            AccountChange::UploadBytes(limit) => limits.upload_bytes = limit,
            AccountChange::StoredBytes(limit) => limits.stored_bytes = limit,
            AccountChange::Submissions(windows) => limits.submissions = windows,
            AccountChange::UploadRetention(limit) => limits.upload_retention = limit,
            AccountChange::JobRetention(limit) => limits.job_retention = limit,
            AccountChange::ConcurrentCalls(limit) => limits.concurrent_calls = limit,
            AccountChange::CommittedSpendCents(limit) => limits.committed_spend_cents = limit,
            AccountChange::Budgets(budgets) => limits.budgets = budgets,
            AccountChange::ScopedBudgets(changes) => {
                for (scope, budgets) in changes {
                    limits.scoped_budgets = limits.scoped_budgets.with(scope, budgets);
                }
            }
            AccountChange::RateWindows(windows) => limits.windows = windows,
            AccountChange::Entitlements(entitlements) => limits.entitlements = entitlements,
            AccountChange::KeepResults(kept) => limits.keep_results = kept,
        }
    }
}

impl DisplayName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&AccountId> for DisplayName {
    fn from(id: &AccountId) -> Self {
        // An id is shorter than a name may be and has no control characters.
        Self(id.as_str().into())
    }
}

impl FromStr for DisplayName {
    type Err = InvalidDisplayName;

    fn from_str(text: &str) -> Result<Self, InvalidDisplayName> {
        let length = text.chars().count();
        if (1..=MAX_NAME).contains(&length) && !text.chars().any(char::is_control) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidDisplayName)
        }
    }
}

impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_people_can_read() {
        for good in ["A", "Ächtung & Söhne", &"x".repeat(100)] {
            assert!(good.parse::<DisplayName>().is_ok(), "{good}");
        }
        for bad in ["", "a\nb", "\u{1b}[31m", &"x".repeat(101)] {
            assert_eq!(bad.parse::<DisplayName>(), Err(InvalidDisplayName), "{bad}");
        }
    }

    #[test]
    fn a_change_changes_what_it_names() {
        let id = AccountId::local();
        let before = Account::new(id.clone(), (&id).into(), Timestamp::UNIX_EPOCH);
        let mut account = before.clone();
        account.apply(AccountChange::State(AccountState::Suspended));
        account.apply(AccountChange::Streams(Some(3)));
        let expected = Account {
            state: AccountState::Suspended,
            limits: Limits {
                streams: Some(3),
                ..Limits::default()
            },
            ..before.clone()
        };
        assert_eq!(account, expected);
        account.apply(AccountChange::State(AccountState::Active));
        account.apply(AccountChange::Streams(None));
        assert_eq!(account, before);
    }
}
