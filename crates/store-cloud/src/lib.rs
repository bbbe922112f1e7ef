//! One installation in a PostgreSQL database and an S3-compatible bucket, for any number of processes.
//!
//! Every port of the domain crates over rows of PostgreSQL; what clients wait for is committed with `synchronous_commit = on`.
//! Start at [`CloudStore`], which programs choose.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(feature = "workflow"),
    expect(
        dead_code,
        reason = "jobs alone use some of what all families stand on"
    )
)]

#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod accounts;
mod batch;
mod blobs;
mod bucket;
#[cfg(feature = "router")]
mod calls;
#[cfg(feature = "workflow")]
mod changes;
mod columns;
mod database;
#[cfg(feature = "workflow")]
mod deployments;
mod form;
#[cfg(feature = "workflow")]
mod jobs;
mod link_keys;
mod migrations;
mod names;
mod newest;
#[cfg(feature = "router")]
mod published;
#[cfg(feature = "router")]
mod quota;
mod records;
mod schema;
mod statements;
mod step;
mod store;
mod transfer;
mod turns;
#[cfg(feature = "v1")]
mod user_files;
mod webhooks;

pub use accounts::PgAccounts;
pub use blobs::{BlobOptions, BucketBlobs};
pub use bucket::{Bucket, BucketError, BucketOptions};
#[cfg(feature = "router")]
pub use calls::{PgCalls, PgUsage};
#[cfg(feature = "workflow")]
pub use changes::PgChanges;
pub use database::{Database, DatabaseError, DatabaseOpenError, DatabaseOptions};
#[cfg(feature = "workflow")]
pub use deployments::PgDeployments;
#[cfg(feature = "workflow")]
pub use jobs::PgJobs;
pub use link_keys::PgKeys;
#[cfg(feature = "router")]
pub use published::PgPublishedModels;
#[cfg(feature = "router")]
pub use quota::PgQuota;
pub use records::PgRecords;
pub use store::CloudStore;
pub use turns::PgTurns;
#[cfg(feature = "v1")]
pub use user_files::PgUserFiles;
pub use webhooks::PgWebhooks;
