//! Every suite of the domain, on odd stores.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::webhooks::MemoryWebhooks;
use asset_store::contract::{DirectReader, DirectStore, TestClock};
use asset_store::{DirectAnswer, MemoryBlobs};
use async_trait::async_trait;
use bytes::Bytes;
use installation::Installation;
use installation::transfer::MemoryPlace;
use jiff::{SignedDuration, Timestamp};
use v1_compat::{MemoryUserFiles, UserFiles};

use crate::assets::{OddBlobs, OddDirectReads, OddRecords};
use crate::jitter::Jitter;
use crate::transfers::{OddPlace, OddTransfers};
use crate::user_files::OddUserFiles;
use crate::webhooks::OddWebhooks;
use crate::{OddStore, Stores};

/// How many stores each suite runs on, each odd in another way. A suite of rules makes one for each rule.
const SEEDS: u64 = 4;

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

#[tokio::test]
async fn odd_sessions_keep_their_contract() {
    let stores = Stores::new();
    for _ in 0..SEEDS {
        ::accounts::contract::sessions(|| {
            stores.two().map(|one| ::accounts::contract::SessionPorts {
                sessions: one.sessions,
                admin: one.account_admin,
            })
        })
        .await;
    }
}

#[tokio::test]
async fn odd_turns_and_secrets_keep_their_contracts() {
    use installation::contract::{self, Replica};
    let stores = Stores::new();
    for _ in 0..SEEDS {
        let [one, other] = stores.two();
        contract::turns(&*one.turns, &*other.turns).await;
    }
    contract::replicas(|| {
        stores.two().map(|one| Replica {
            turns: one.turns,
            keys: one.keys,
        })
    })
    .await;
}

#[tokio::test]
async fn an_odd_place_keeps_the_contract_of_transfers() {
    for seed in 1..=SEEDS {
        let store = OddTransfers {
            store: OddStore::new(seed, || Timestamp::UNIX_EPOCH),
            place: OddPlace {
                inner: MemoryPlace::default(),
                jitter: Jitter::new(seed),
            },
        };
        installation::contract::transfers(&store).await;
    }
}

/// The ports of replicas over one store; the facts of all of them write events down in it.
fn webhook_ports<const N: usize>(stores: &Stores) -> [::webhooks::contract::Stores; N] {
    let rows = MemoryWebhooks::default();
    [(); N].map(|()| {
        let jitter = Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed));
        let odd = Arc::new(OddWebhooks {
            inner: Arc::new(rows.clone()),
            outbox: Arc::new(rows.clone()),
            jitter: jitter.clone(),
        });
        let rows = rows.clone();
        ::webhooks::contract::Stores {
            webhooks: odd.clone(),
            outbox: odd,
            publish: Box::new(move |event| {
                let (rows, jitter) = (rows.clone(), jitter.clone());
                Box::pin(async move {
                    jitter.pause().await;
                    rows.publish(&event);
                    jitter.pause().await;
                })
            }),
        }
    })
}

#[tokio::test]
async fn odd_webhooks_keep_their_contracts() {
    use ::webhooks::contract;
    let stores = Stores::new();
    for _ in 0..SEEDS {
        contract::webhooks(|| async {
            let [one] = webhook_ports(&stores);
            one
        })
        .await;
    }
    contract::replicas(|| async { webhook_ports(&stores) }).await;
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
    use asset_store::{BlobHash, contract};
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

/// Who reads from memory at addresses, by the clock of the store.
struct Reader(MemoryBlobs, TestClock);

#[async_trait]
impl DirectReader for Reader {
    async fn read(&self, address: &str, range: Option<Range<u64>>) -> Option<DirectAnswer> {
        self.0.read_at(address, range)
    }

    async fn pass(&self, time: Duration) {
        let time = SignedDuration::try_from(time).expect("moments");
        self.1.advance(time);
    }
}

#[tokio::test]
async fn odd_addresses_keep_their_contract() {
    let stores = Stores::new();
    asset_store::contract::direct_reads(|| {
        let clock = TestClock::at(Timestamp::UNIX_EPOCH);
        let time = clock.clone();
        let blobs = MemoryBlobs::new(move || time.now());
        let jitter = Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed));
        let damaged = blobs.clone();
        DirectStore {
            blobs: Arc::new(OddBlobs {
                inner: Arc::new(blobs.clone()),
                jitter: jitter.clone(),
            }),
            direct: Arc::new(OddDirectReads {
                inner: Arc::new(blobs.clone()),
                jitter,
            }),
            damage: Box::new(move |hash, bytes| {
                damaged.damage(hash, Bytes::copy_from_slice(bytes));
            }),
            reader: Arc::new(Reader(blobs, clock)),
        }
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
        admissions: installation.calls.admissions,
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
    let fresh = async || {
        let ports = job_ports(&stores.one());
        (ports.clone(), ports.records)
    };
    contract::as_memory(fresh, async |records| {
        let account = "a".parse().expect("a valid name");
        records.stored_bytes(&account).await.expect("an answer")
    })
    .await;
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

#[tokio::test]
async fn odd_user_files_keep_the_contract_of_replicas() {
    let stores = Stores::new();
    v1_compat::contract::replicas(|bounds| {
        let inner = Arc::new(MemoryUserFiles::new(bounds));
        [(); 2].map(|()| -> Arc<dyn UserFiles> {
            Arc::new(OddUserFiles {
                inner: inner.clone(),
                jitter: Jitter::new(stores.0.fetch_add(1, Ordering::Relaxed)),
            })
        })
    })
    .await;
}
