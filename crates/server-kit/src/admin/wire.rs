//! What commands and servers say to each other: one line of JSON each way.

use serde::{Deserialize, Serialize};

use super::workers::{WorkerBody, WorkerChange};

/// What a command asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Adds an account with changes of what a new one is.
    AddAccount {
        id: String,
        changes: Vec<(String, String)>,
    },
    /// Changes an account: the names of fields, and their new values.
    ChangeAccount {
        id: String,
        changes: Vec<(String, String)>,
    },
    /// A page of accounts.
    Accounts { after: Option<String> },
    /// One account.
    Account { id: String },
    /// Adds credits; `cause` is a UUID that makes a repeat the same grant.
    Grant {
        account: String,
        cause: String,
        cents: i32,
    },
    /// The newest entries of a ledger.
    Entries { account: String },
    /// Adds a key by its hash.
    AddKey {
        account: String,
        id: String,
        hash: [u8; 32],
        name: Option<String>,
        scopes: String,
        expires_in_s: Option<u32>,
    },
    /// The keys of an account.
    Keys { account: String },
    /// Revokes a key.
    RevokeKey { id: String },
    /// Keeps an asset, or lets it go.
    HoldAsset { id: String, held: bool },
    /// Lets the next pass of every sweep delete what it finds.
    ConfirmSweeps,
    /// Changes workers, if anything is to be changed, and lists them.
    Workers { change: Option<WorkerChange> },
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    Done(Answer),
    Refused(Problem),
}

/// What was asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done,
    Accounts(Vec<AccountBody>),
    Entries(Vec<EntryBody>),
    Keys(Vec<KeyBody>),
    Credits { balance_cents: i64 },
    Workers(Vec<WorkerBody>),
}

/// Why not.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Problem {
    /// Whether the command can be corrected.
    pub(super) usage: bool,
    /// Whether what was to be added is there already.
    pub(super) taken: bool,
    /// For people.
    pub(super) message: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AccountBody {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) suspended: bool,
    pub(super) subscribed: bool,
    pub(super) router: bool,
    pub(super) billed: bool,
    pub(super) balance_cents: i64,
    pub(super) held_cents: u64,
    pub(super) created_at: String,
    pub(super) limits: Vec<LimitBody>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LimitBody {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether it is the account's own, and not the installation's.
    pub(super) own: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EntryBody {
    pub(super) at: String,
    pub(super) cause: String,
    pub(super) amount_cents: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyBody {
    pub(super) id: String,
    pub(super) account: String,
    pub(super) name: String,
    pub(super) scopes: String,
    /// `active`, `expired` or `revoked`.
    pub(super) state: String,
    pub(super) created_at: String,
    pub(super) expires_at: Option<String>,
}
