//! A store that is odd on purpose keeps every contract: over the twins in memory, it does whatever a contract allows and the twins
//! do not do.
//!
//! Operations that begin together happen in any order and are answered in any order; saves that may be put off are seen by nobody
//! before the next one; changes come coalesced and with reports left out; records of calls are written late; keys that another
//! replica revoked count for a while; blobs come in odd pieces. Each opening is a replica. A suite that fails here asks for more
//! than its contract says, or the contract says too little.

mod accounts;
mod assets;
mod calls;
mod deployments;
mod jitter;
mod jobs;
mod published;
mod sessions;
mod suites;
mod transfers;
mod turns;
mod user_files;
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::accounts::Tier;
use async_trait::async_trait;
use futures_util::FutureExt;
use installation::{
    AssetRows, CallRows, Contents, CopyError, Installation, InstallationStore, JobRows,
    MemoryStore, OpenError, OpenOptions, ReserveOptions,
};
use jiff::Timestamp;
use router_core::Usage;

use crate::accounts::OddAccounts;
use crate::webhooks::OddWebhooks;
use assets::{OddBlobs, OddDirectReads, OddRecords};
use calls::{OddAdmissions, OddCalls};
use deployments::OddDeployments;
use jitter::Jitter;
use jobs::OddJobs;
use published::OddPublishedModels;
use sessions::OddSessions;
use turns::{OddKeys, OddTurns};
use user_files::OddUserFiles;

struct OddStore {
    inner: MemoryStore,
    /// The seed of the next opening.
    seed: AtomicU64,
    version: crate::accounts::Version,
    unwritten: calls::Unwritten,
    put_off: jobs::PutOff,
}

impl OddStore {
    fn new(seed: u64, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let mut drawn = 0;
        let secret = move || {
            drawn += 1;
            [drawn; 32]
        };
        Self {
            inner: MemoryStore::new(clock, secret),
            seed: AtomicU64::new(seed * 1_000),
            version: Arc::default(),
            unwritten: Arc::default(),
            put_off: Arc::default(),
        }
    }

    /// The ports of another replica.
    fn replica(&self) -> Installation {
        let options = OpenOptions {
            tier: Tier::standard(),
            reserve: ReserveOptions::NONE,
            fresh: false,
        };
        let opened = self.open(options).now_or_never();
        opened
            .expect("memory waits for nothing")
            .expect("it can be opened")
    }

    fn odd(&self, inner: Installation) -> Installation {
        let jitter = Jitter::new(self.seed.fetch_add(1, Ordering::Relaxed));
        let accounts = Arc::new(OddAccounts {
            inner: inner.accounts.clone(),
            admin: inner.account_admin.clone(),
            jitter: jitter.clone(),
            version: self.version.clone(),
            seen: Default::default(),
        });
        let records = Arc::new(OddRecords {
            inner: inner.assets.clone(),
            jitter: jitter.clone(),
        });
        let jobs = Arc::new(OddJobs {
            inner: inner.jobs.clone(),
            jitter: jitter.clone(),
            put_off: self.put_off.clone(),
        });
        let calls = Arc::new(OddCalls {
            inner: inner.calls.clone(),
            jitter: jitter.clone(),
            unwritten: self.unwritten.clone(),
        });
        let webhooks = Arc::new(OddWebhooks {
            inner: inner.webhooks.clone(),
            outbox: inner.outbox.clone(),
            jitter: jitter.clone(),
        });
        let direct = inner.assets.direct.clone().map(|direct| {
            let jitter = jitter.clone();
            let direct = OddDirectReads {
                inner: direct,
                jitter,
            };
            Arc::new(direct) as _
        });
        Installation {
            accounts: accounts.clone(),
            account_admin: accounts.clone(),
            sessions: Arc::new(OddSessions {
                inner: inner.sessions.clone(),
                jitter: jitter.clone(),
            }),
            keys: Arc::new(OddKeys {
                inner: inner.keys.clone(),
                jitter: jitter.clone(),
            }),
            turns: Arc::new(OddTurns {
                inner: inner.turns.clone(),
                jitter: jitter.clone(),
            }),
            webhooks: webhooks.clone(),
            outbox: webhooks,
            assets: AssetRows {
                blobs: Arc::new(OddBlobs {
                    inner: inner.assets.blobs.clone(),
                    jitter: jitter.clone(),
                }),
                records: records.clone(),
                file_names: records.clone(),
                released: records.clone(),
                sweeps: records.clone(),
                scrub: records,
                direct,
            },
            jobs: JobRows {
                store: jobs.clone(),
                queue: jobs.clone(),
                changes: jobs,
                deployments: Arc::new(OddDeployments {
                    inner: inner.jobs.deployments.clone(),
                    jitter: jitter.clone(),
                }),
            },
            calls: CallRows {
                calls: calls.clone(),
                quota: calls.clone(),
                admissions: Arc::new(OddAdmissions {
                    accounts: accounts.clone(),
                    calls: calls.clone(),
                    jitter: jitter.clone(),
                }),
                retention: calls.clone(),
                queue: calls.clone(),
                usage: calls.clone(),
                kept: calls,
                published: Arc::new(OddPublishedModels {
                    inner: inner.calls.published.clone(),
                    jitter: jitter.clone(),
                }),
            },
            user_files: Arc::new(OddUserFiles {
                inner: inner.user_files.clone(),
                jitter,
            }),
            ..inner
        }
    }
}

#[async_trait]
impl InstallationStore for OddStore {
    async fn open(&self, options: OpenOptions) -> Result<Installation, OpenError> {
        Ok(self.odd(self.inner.open(options).await?))
    }

    async fn exists(&self) -> bool {
        self.inner.exists().await
    }

    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError> {
        self.inner.usage().await
    }

    async fn back_up(&self, target: &Path) -> Result<Contents, CopyError> {
        self.inner.back_up(target).await
    }

    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError> {
        self.inner.inspect().await
    }

    fn location(&self) -> String {
        "odd memory".to_owned()
    }
}

/// Makes stores, each of another seed.
struct Stores(AtomicU64);

impl Stores {
    fn new() -> Self {
        Self(AtomicU64::new(1))
    }

    fn store(&self) -> OddStore {
        self.store_at(|| Timestamp::UNIX_EPOCH)
    }

    fn store_at(&self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> OddStore {
        OddStore::new(self.0.fetch_add(1, Ordering::Relaxed), clock)
    }

    fn one(&self) -> Installation {
        self.store().replica()
    }

    fn two(&self) -> [Installation; 2] {
        let store = self.store();
        [store.replica(), store.replica()]
    }
}
