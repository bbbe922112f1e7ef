//! What operators ask for and what they are answered: the bodies over HTTP, and the lines over the admin socket.

mod assets;
mod deployments;
mod models;
mod webhooks;
mod workers;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use assets::{AssetBody, HoldBody};
pub use deployments::{
    DefinitionBody, DeploymentAnswer, DeploymentBody, DeploymentRequest, DeploymentWorkerBody,
    DeploymentsPage, EventBody, EventsPage, LogsBody, RevisionBody, SecretSource, VariableBody,
    WorkerLogBody,
};
pub use models::{
    GraphBody, ModelAnswer, ModelRequest, PublishedModelBody, PublishedModelsPage,
    PublishedVersionBody,
};
pub use webhooks::{
    DeliveriesPage, DeliveryBody, SecretText, WebhookBody, WebhookRequest, WebhookSecretBody,
    WebhooksPage,
};
pub use workers::{JobExplanation, WorkerBody, WorkerChange, WorkerNote, WorkersPage};

/// What an operator asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Adds an account with changes of what a new one is.
    AddAccount {
        /// Its id.
        id: String,
        /// The names of fields, and their values.
        changes: Vec<(String, String)>,
    },
    /// Changes an account.
    ChangeAccount {
        /// Its id.
        id: String,
        /// The names of fields, and their new values.
        changes: Vec<(String, String)>,
    },
    /// A page of accounts, in the order of their ids.
    Accounts {
        /// Only those behind this id.
        after: Option<String>,
        /// Most accounts of the page.
        limit: Option<u32>,
    },
    /// One account.
    Account {
        /// Its id.
        id: String,
    },
    /// Adds credits, or takes some away.
    Grant {
        /// The account.
        account: String,
        /// A UUID of the caller's choice: a repeat with it is the same grant.
        reference: String,
        /// US cents; below 0 to take some away.
        cents: i32,
    },
    /// The newest entries of a ledger, newest first.
    Entries {
        /// The account.
        account: String,
        /// Only entries older than the one with this `seq`.
        before: Option<u64>,
        /// Most entries of the page.
        limit: Option<u32>,
    },
    /// Adds a key by its hash.
    AddKey {
        /// The account.
        account: String,
        /// The id of the key.
        id: String,
        /// The hash of its text.
        hash: [u8; 32],
        /// What people call it.
        name: Option<String>,
        /// What it allows, separated by commas or spaces.
        scopes: String,
        /// Seconds until it stops counting.
        expires_in_s: Option<u32>,
    },
    /// A page of the keys of an account, the oldest first.
    Keys {
        /// The account.
        account: String,
        /// Only those behind the key with this id.
        after: Option<String>,
        /// Most keys of the page.
        limit: Option<u32>,
    },
    /// Revokes a key.
    RevokeKey {
        /// Its id.
        id: String,
    },
    /// An asset, and what keeps it.
    Asset {
        /// Its id.
        id: String,
    },
    /// Keeps an asset, or lets it go.
    HoldAsset {
        /// The asset.
        id: String,
        /// Whether it is kept.
        held: bool,
    },
    /// Lets the next pass of every sweep delete what it finds.
    ConfirmSweeps,
    /// The models and partners that are served.
    Catalog,
    /// Reads the catalog's folder again now.
    ReloadCatalog,
    /// A page of the ComfyUI workers, in the order in which they were added.
    Workers {
        /// Only those behind the worker of this name.
        after: Option<String>,
        /// Most workers of the page.
        limit: Option<u32>,
    },
    /// Adds, drains, resumes or removes a worker.
    ChangeWorker(WorkerChange),
    /// Where a job runs, or why it waits.
    ExplainJob {
        /// The job.
        id: String,
        /// Whose it is; all accounts are looked through without it.
        account: Option<String>,
    },
    /// Looks at deployments, or changes them.
    Deployment(DeploymentRequest),
    /// Looks at published models, publishes and withdraws them.
    Model(ModelRequest),
    /// Looks at webhooks or changes them.
    Webhook(WebhookRequest),
    /// The settings in force.
    Settings,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It was done.
    Done(Answer),
    /// It was not.
    Refused(Problem),
}

/// What was asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// There is nothing to say.
    Done,
    /// A page of accounts.
    Accounts(AccountsPage),
    /// One account.
    Account(AccountBody),
    /// A page of a ledger.
    Entries(EntriesPage),
    /// A page of keys.
    Keys(KeysPage),
    /// One key.
    Key(KeyBody),
    /// What an account has now.
    Credits(CreditsBody),
    /// An asset, and what keeps it.
    Asset(Box<AssetBody>),
    /// What is served of the catalog.
    Catalog(CatalogBody),
    /// A page of workers.
    Workers(WorkersPage),
    /// Where a job runs, or why it waits.
    Job(JobExplanation),
    /// Of deployments.
    Deployment(DeploymentAnswer),
    /// Of published models.
    Model(ModelAnswer),
    /// A page of webhooks.
    Webhooks(WebhooksPage),
    /// One webhook.
    Webhook(Box<WebhookBody>),
    /// A webhook with a secret that was made just now.
    WebhookSecret(Box<WebhookSecretBody>),
    /// A message to a webhook.
    Delivery(Box<DeliveryBody>),
    /// The settings in force.
    Settings(SettingsBody),
    /// A page of messages to a webhook.
    Deliveries(DeliveriesPage),
}

/// Why not.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of reason it is.
    pub kind: ProblemKind,
    /// For people: what is wrong, and what to do about it.
    pub message: String,
    /// The single faults, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A value is not as it must be.
    Invalid,
    /// What is named does not exist.
    Absent,
    /// What was to be added is there already.
    Taken,
    /// The reference stands for another grant.
    Conflict,
    /// Something needs it, or others change it at this moment.
    InUse,
    /// The server cannot answer now.
    Fault,
}

/// A page of accounts.
#[derive(Debug, Serialize, Deserialize)]
pub struct AccountsPage {
    /// The accounts.
    pub accounts: Vec<AccountBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An account as operators see it.
#[derive(Debug, Serialize, Deserialize)]
pub struct AccountBody {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whether no credential of it counts.
    pub suspended: bool,
    /// Whether it has a subscription.
    pub subscribed: bool,
    /// Whether it may call the model router.
    pub router: bool,
    /// Whether an empty balance refuses anything.
    pub billed: bool,
    /// US cents of its ledger.
    pub balance_cents: i64,
    /// US cents that are held of it.
    pub held_cents: u64,
    /// What is left of each of its budgets.
    #[serde(default)]
    pub budgets: Vec<BudgetBody>,
    /// What is left of the budgets of its keys and labels.
    #[serde(default)]
    pub scoped_budgets: Vec<ScopedBudgetBody>,
    /// RFC 3339, to the second.
    pub created_at: String,
    /// Every limit.
    pub limits: Vec<LimitBody>,
}

/// What is left of the budgets of a key or a label.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScopedBudgetBody {
    /// What they are of: `key:ID` or `label:KEY=VALUE`.
    pub scope: String,
    /// What is left of each of them.
    pub budgets: Vec<BudgetBody>,
}

/// What is left of a budget.
#[derive(Debug, Serialize, Deserialize)]
pub struct BudgetBody {
    /// Its window in UTC: `hour`, `day` or `month`.
    pub window: String,
    /// The budget in US cents.
    pub limit_cents: u64,
    /// US cents of it that are neither charged nor held in this window.
    pub left_cents: u64,
    /// When the next window begins: RFC 3339.
    pub ends_at: String,
}

/// A limit of an account.
#[derive(Debug, Serialize, Deserialize)]
pub struct LimitBody {
    /// Its name, as flags and bodies spell it.
    pub name: String,
    /// Its value, as it is written.
    pub value: String,
    /// Whether it is the account's own, and not the installation's.
    pub own: bool,
}

/// What an account has.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreditsBody {
    /// US cents of its ledger.
    pub balance_cents: i64,
    /// US cents that are held of it.
    pub held_cents: u64,
}

/// A page of a ledger.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntriesPage {
    /// What the account has now.
    #[serde(flatten)]
    pub credits: CreditsBody,
    /// The entries, newest first.
    pub entries: Vec<EntryBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An entry of a ledger.
#[derive(Debug, Serialize, Deserialize)]
pub struct EntryBody {
    /// Its number.
    pub seq: u64,
    /// RFC 3339, to the second.
    pub at: String,
    /// Why: a grant or a generation, with its id.
    pub cause: String,
    /// US cents; below 0 for charges.
    pub amount_cents: i64,
}

/// A page of keys.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeysPage {
    /// The keys.
    pub keys: Vec<KeyBody>,
    /// What to send as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An API key; never its text.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyBody {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub account: String,
    /// What people call it.
    pub name: String,
    /// What it allows, separated by spaces.
    pub scopes: String,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    /// RFC 3339, to the second.
    pub created_at: String,
    /// RFC 3339, to the second; absent if it does not expire.
    pub expires_at: Option<String>,
}

/// What a server serves of its catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogBody {
    /// The models, in the order of their ids.
    pub models: Vec<ModelBody>,
    /// The partners, in the order of their ids.
    pub partners: Vec<PartnerBody>,
}

/// A model of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelBody {
    /// Its id.
    pub id: String,
    /// `offered`, `switched_off`, `no_credentials` or, of a published model, `withdrawn`.
    pub state: String,
}

/// A partner of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartnerBody {
    /// The first part of the ids of its models.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Why its models are not offered; absent if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// The settings of a running server.
#[derive(Debug, Serialize, Deserialize)]
pub struct SettingsBody {
    /// In the order in which they were read.
    pub settings: Vec<SettingBody>,
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingBody {
    /// Its name, as in a file.
    pub name: String,
    /// Its value, as in a file; secrets are masked. Null if it is not set.
    pub value: Option<String>,
    /// Where the value comes from.
    pub origin: String,
}

/// The error of a refused request, as every API of version 2 spells it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
}

/// What an error says.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// More about it, such as the field that is wrong.
    pub details: Option<Value>,
}

impl Problem {
    /// A reason of a kind, with its sentence.
    #[must_use]
    pub fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            faults: Vec::new(),
        }
    }
}

impl ProblemKind {
    /// The code of this kind of error over HTTP.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_request",
            Self::Absent => "not_found",
            Self::Taken => "already_exists",
            Self::Conflict => "reference_reuse",
            Self::InUse => "in_use",
            Self::Fault => "upstream_error",
        }
    }

    /// The kind that a code stands for; what says nothing of the request is a fault.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        let all = [
            Self::Invalid,
            Self::Absent,
            Self::Taken,
            Self::Conflict,
            Self::InUse,
            Self::Fault,
        ];
        let found = all.into_iter().find(|kind| kind.code() == code);
        found.unwrap_or(Self::Fault)
    }
}
