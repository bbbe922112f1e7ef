//! The bundle of ports over one installation.

use std::sync::Arc;

use accounts::{AccountAdmin, Accounts, Sessions};
use asset_store::{
    AssetRecords, BlobStore, DirectReads, FileNames, ReleasedBlobs, ScrubStates, SweepStates,
};
#[cfg(feature = "router")]
use router_core::{
    Admissions, CallQueue, CallRetention, Calls, KeptResults, Quota, Usage,
    published::PublishedModels,
};
#[cfg(feature = "v1")]
use v1_compat::UserFiles;
use webhooks::{Outbox, Webhooks};
#[cfg(feature = "workflow")]
use workflow_core::{Changes, JobQueue, JobStore, deployment::Deployments};

use crate::{Closing, Health, SigningKeys, Turns};

/// An open installation. Clones are the same one, which stays open until the last clone and the last port are gone.
#[derive(Clone)]
pub struct Installation {
    /// Accounts, keys and credits, as requests ask for them.
    pub accounts: Arc<dyn Accounts>,
    /// The same, as operators change them.
    pub account_admin: Arc<dyn AccountAdmin>,
    /// Who is signed in on a web page.
    pub sessions: Arc<dyn Sessions>,
    /// Blobs, the records over them, and what sweeps and scrubs remember.
    pub assets: AssetRows,
    /// The secrets that sign links and cursors.
    pub keys: Arc<dyn SigningKeys>,
    /// Whether it can be written, and how much room it has.
    pub health: Arc<dyn Health>,
    /// What a program calls at its end.
    pub closing: Arc<dyn Closing>,
    /// Which process does what one does for all.
    pub turns: Arc<dyn Turns>,
    /// Who wants to hear of events.
    pub webhooks: Arc<dyn Webhooks>,
    /// The events that were written down for them.
    pub outbox: Arc<dyn Outbox>,
    /// Jobs and their queue.
    #[cfg(feature = "workflow")]
    pub jobs: JobRows,
    /// Calls of the model router, and what they used.
    #[cfg(feature = "router")]
    pub calls: CallRows,
    /// Settings and saved files of the v1 API.
    #[cfg(feature = "v1")]
    pub user_files: Arc<dyn UserFiles>,
}

/// The ports over assets.
#[derive(Clone)]
pub struct AssetRows {
    /// Bytes by hash.
    pub blobs: Arc<dyn BlobStore>,
    /// The records of accounts over them.
    pub records: Arc<dyn AssetRecords>,
    /// The records by the names of their files.
    pub file_names: Arc<dyn FileNames>,
    /// Blobs whose last record is gone.
    pub released: Arc<dyn ReleasedBlobs>,
    /// Whether sweeps may delete.
    pub sweeps: Arc<dyn SweepStates>,
    /// How far the comparison of blobs with their hashes is.
    pub scrub: Arc<dyn ScrubStates>,
    /// Addresses of blobs in the store itself, where it has such.
    pub direct: Option<Arc<dyn DirectReads>>,
}

/// The ports over jobs.
#[cfg(feature = "workflow")]
#[derive(Clone)]
pub struct JobRows {
    /// The jobs.
    pub store: Arc<dyn JobStore>,
    /// Those that wait.
    pub queue: Arc<dyn JobQueue>,
    /// What other replicas change.
    pub changes: Arc<dyn Changes>,
    /// Deployments of workers.
    pub deployments: Arc<dyn Deployments>,
}

/// The ports over calls of the model router.
#[cfg(feature = "router")]
#[derive(Clone)]
pub struct CallRows {
    /// Keys and generations.
    pub calls: Arc<dyn Calls>,
    /// The limits of accounts.
    pub quota: Arc<dyn Quota>,
    /// What admits and ends calls.
    pub admissions: Arc<dyn Admissions>,
    /// Forgets those past their time.
    pub retention: Arc<dyn CallRetention>,
    /// Requests that wait to be dispatched.
    pub queue: Arc<dyn CallQueue>,
    /// What was called and what it cost.
    pub usage: Arc<dyn Usage>,
    /// Results that are kept.
    pub kept: Arc<dyn KeptResults>,
    /// Models that operators published.
    pub published: Arc<dyn PublishedModels>,
}

impl std::fmt::Debug for Installation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Installation")
    }
}

impl std::fmt::Debug for AssetRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AssetRows")
    }
}

#[cfg(feature = "workflow")]
impl std::fmt::Debug for JobRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobRows")
    }
}

#[cfg(feature = "router")]
impl std::fmt::Debug for CallRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallRows")
    }
}
