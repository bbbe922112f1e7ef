//! Why an operation on jobs was refused or failed.

use std::collections::BTreeSet;

use accounts::UsedUp;
use asset_store::AssetsError;

use crate::{Abandoned, GraphError, JobId, Reference, Refusal, StoreError, Validation};

/// Why an operation on jobs was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The submission is no graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// Nodes of the graph are wrong.
    #[error("the workflow is invalid")]
    Invalid(Box<Validation>),
    /// The engine that would run it refuses it.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// No node of the graph is a reason to run it.
    #[error("the workflow has no output node; add one, such as SaveImage or PreviewImage")]
    NoOutputs,
    /// The caller may not have its account pay for these classes, and sent no key that does.
    #[error(
        "nodes that call models of partners are not enabled for this account, or this credential does not allow them; \
         use a key with `router:run`, or submit one as `api_key_service_org`"
    )]
    PartnersForbidden {
        /// In order, each once.
        classes: BTreeSet<String>,
        /// Whose models they call.
        providers: BTreeSet<String>,
    },
    /// References to assets that the account does not have: node, field and what was written there.
    #[error("the workflow refers to an asset that does not exist")]
    MissingAsset(Vec<Reference>),
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used for another workflow")]
    KeyReused(JobId),
    /// The id that the caller chose is that of a job.
    #[error("there is a job of this id")]
    IdTaken,
    /// The account has submitted as many jobs as it may in a span of time.
    #[error(
        "the account may submit {} jobs in {}, and has; try again after the seconds in `Retry-After`",
        .0.quota, .0.span
    )]
    RateLimited(UsedUp),
    /// The files and graphs of the account would have more bytes than they may.
    #[error(
        "this needs more bytes than the account may store; delete files, or wait until jobs and files expire"
    )]
    StorageQuota {
        /// Most bytes that they may have together.
        limit_bytes: u64,
    },
    /// Too much is waiting.
    #[error("the queue is full")]
    QueueFull {
        /// After how many seconds to try again.
        retry_after_s: u64,
    },
    /// No engine can run anything yet.
    #[error("no worker is ready")]
    NotReady {
        /// After how many seconds to try again.
        retry_after_s: u64,
    },
    /// The operator stopped what runs jobs.
    #[error("the deployment is stopped")]
    Stopped,
    /// No such job, or another account's.
    #[error("no such job")]
    NotFound,
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A large submission was not worked through: a fault of the program, or its end.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
    /// The asset store failed.
    #[error("looking up the workflow's files failed")]
    Assets(#[source] AssetsError),
}
