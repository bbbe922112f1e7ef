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
mod user_files;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::accounts::Tier;
use asset_store::contract::TestClock;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use installation::{
    AssetRows, CallRows, Contents, CopyError, Installation, InstallationStore, JobRows,
    MemoryStore, OpenError, OpenOptions, ReserveOptions,
};
use jiff::Timestamp;
use router_core::Usage;
use v1_compat::MemoryUserFiles;

use crate::accounts::OddAccounts;
use assets::{OddBlobs, OddRecords};
use calls::OddCalls;
use deployments::OddDeployments;
use jitter::Jitter;
use jobs::OddJobs;
use published::OddPublishedModels;
use user_files::OddUserFiles;

/// How many stores each suite runs on, each odd in another way. A suite of rules makes one for each rule.
const SEEDS: u64 = 4;

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
        Installation {
            accounts: accounts.clone(),
            account_admin: accounts,
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
                direct: inner.assets.direct.clone(),
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

#[tokio::test]
async fn an_odd_installation_keeps_its_contract() {
    for seed in 1..=SEEDS {
        let store = OddStore::new(seed, || Timestamp::UNIX_EPOCH);
        installation::contract::installation_store(&store).await;
    }
}

#[tokio::test]
async fn odd_deployments_keep_their_contract() {
    let stores = Stores::new();
    for _ in 0..SEEDS {
        let [one, other] = stores.two();
        let (one, other) = (one.jobs.deployments, other.jobs.deployments);
        workflow_core::contract::deployments(&*one, &*other).await;
    }
}

#[tokio::test]
async fn odd_published_models_keep_their_contract() {
    let stores = Stores::new();
    for _ in 0..SEEDS {
        let [one, other] = stores.two();
        let (one, other) = (one.calls.published, other.calls.published);
        router_core::contract::published(&*one, &*other).await;
    }
}

fn account_ports(installation: Installation) -> ::accounts::contract::Ports {
    ::accounts::contract::Ports {
        accounts: installation.accounts,
        admin: installation.account_admin,
    }
}

#[tokio::test]
async fn odd_accounts_keep_their_contracts() {
    let stores = Stores::new();
    for _ in 0..SEEDS {
        ::accounts::contract::accounts(|_| account_ports(stores.one())).await;
    }
    ::accounts::contract::replicas(|_| stores.two().map(account_ports)).await;
}

/// Everything over records in one type, as the suites ask for it.
fn odd_records(stores: &Stores) -> Arc<OddRecords> {
    Arc::new(OddRecords {
        inner: stores.one().assets,
        jitter: Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed)),
    })
}

#[tokio::test]
async fn odd_records_keep_their_contracts() {
    use asset_store::contract;
    let stores = Stores::new();
    for _ in 0..SEEDS {
        contract::asset_records(|| odd_records(&stores)).await;
        contract::file_names(|| {
            let records = odd_records(&stores);
            (records.clone(), records)
        })
        .await;
        contract::sweeps(|| odd_records(&stores)).await;
        contract::scrub_states(&*odd_records(&stores)).await;
    }
}

#[tokio::test]
async fn odd_blobs_keep_their_contracts() {
    use asset_store::{BlobHash, MemoryBlobs, contract};
    let stores = Stores::new();
    let at = |clock: TestClock| move || clock.now();
    contract::blob_store(|clock| stores.store_at(at(clock)).replica().assets.blobs).await;
    contract::damaged_blobs(|clock| {
        let blobs = MemoryBlobs::new(at(clock));
        let odd = OddBlobs {
            inner: Arc::new(blobs.clone()),
            jitter: Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed)),
        };
        let damage = move |hash: &BlobHash, bytes: &[u8]| {
            blobs.damage(hash, Bytes::copy_from_slice(bytes));
        };
        (Arc::new(odd), Box::new(damage))
    })
    .await;
}

fn asset_ports(installation: Installation) -> asset_store::contract::Replica {
    asset_store::contract::Replica {
        blobs: installation.assets.blobs,
        records: installation.assets.records,
        released: installation.assets.released,
        sweeps: installation.assets.sweeps,
    }
}

#[tokio::test]
async fn odd_assets_keep_the_contract_of_replicas() {
    let stores = Stores::new();
    asset_store::contract::replicas(|clock| {
        let store = stores.store_at(move || clock.now());
        [store.replica(), store.replica()].map(asset_ports)
    })
    .await;
}

fn call_ports(installation: Installation) -> router_core::contract::Stores {
    router_core::contract::Stores {
        calls: installation.calls.calls,
        retention: installation.calls.retention,
        quota: installation.calls.quota,
        queue: installation.calls.queue,
        usage: installation.calls.usage,
        kept: installation.calls.kept,
        accounts: installation.accounts,
        admin: installation.account_admin,
    }
}

#[tokio::test]
async fn odd_calls_keep_their_contracts() {
    use router_core::contract;
    let stores = Stores::new();
    for _ in 0..SEEDS {
        contract::calls(|| call_ports(stores.one())).await;
        contract::quota(|| stores.one().calls.quota).await;
    }
    contract::replicas(|| stores.two().map(call_ports)).await;
}

fn job_ports(installation: &Installation) -> workflow_core::contract::Stores {
    workflow_core::contract::Stores {
        jobs: installation.jobs.store.clone(),
        queue: installation.jobs.queue.clone(),
        records: installation.assets.records.clone(),
    }
}

#[tokio::test]
async fn odd_jobs_keep_their_contracts() {
    use workflow_core::contract;
    let stores = Stores::new();
    for _ in 0..SEEDS {
        contract::job_store(|| job_ports(&stores.one())).await;
        let replicas = || stores.two().map(|one| (job_ports(&one), one.jobs.changes));
        contract::changes(replicas).await;
    }
    contract::replicas(|| stores.two().map(|one| job_ports(&one))).await;
}

#[tokio::test]
async fn odd_user_files_keep_their_contract() {
    let stores = Stores::new();
    for _ in 0..SEEDS {
        v1_compat::contract::user_files(|bounds| {
            Arc::new(OddUserFiles {
                inner: Arc::new(MemoryUserFiles::new(bounds)),
                jitter: Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed)),
            })
        })
        .await;
    }
}
