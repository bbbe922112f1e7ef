//! The model router over rows on a disk that it loses power over: what a partner was asked for one key, and what was billed.
//!
//! A crash is a copy of the directory, taken while the store is in use: what is in the copy is what the disk had.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, Accounts, CreditLedger, LedgerRef, Principal,
};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use router_core::{
    Answer, BlockingPool, Bucket, CallHead, Catalog, Charge, ChargesOnPolicyRejection, Collected,
    Contact, CursorKey, Done, Failure, Handle, LiveCatalog, Model, ModelDefinition, OwnerId, Price,
    Provider, RequestId, Router, RouterConfig, RouterError, RouterPorts, SequentialAdmissions,
    Submission, Submitted, Timer, Usage,
};
use serde_json::Value;
use store_local::Store;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// A partner that outlives the router. It accepts only when it is let, and has its result only when it is told.
#[derive(Default)]
struct Partner {
    accepts: AtomicBool,
    is_done: AtomicBool,
    submits: AtomicUsize,
}

#[async_trait]
impl Provider for Partner {
    async fn submit(&self, _: Submission) -> Result<Submitted, Failure> {
        self.submits.fetch_add(1, Ordering::Relaxed);
        if !self.accepts.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(Submitted::Accepted {
            handle: Handle(Bytes::from_static(b"task-7")),
            task_id: Some("task-7".to_owned()),
            poll_after: Duration::from_secs(1),
        })
    }

    async fn collect(&self, handle: &Handle, _: &Contact) -> Result<Collected, Failure> {
        assert_eq!(handle.0, "task-7");
        if !self.is_done.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(Collected::Done(Done {
            answer: Answer {
                content_type: "application/json".to_owned(),
                body: Bytes::from_static(b"{\"a\": 1.0}"),
            },
            charge: Charge::AsHeld,
            task_id: None,
        }))
    }

    async fn cancel(&self, _: &Handle) {}

    fn price(&self, _: &Value) -> Price {
        Price::Exact { cents: 7 }
    }
}

/// Polls at once, and never reaches a deadline.
struct Impatient;

impl BlockingPool for Impatient {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

#[async_trait]
impl Timer for Impatient {
    fn now(&self) -> Timestamp {
        now()
    }

    async fn sleep(&self, duration: Duration) {
        if duration > Duration::from_secs(60) {
            std::future::pending::<()>().await;
        }
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_790_000_000).expect("in range")
}

fn acme() -> AccountId {
    "acme".parse().expect("a valid id")
}

/// One start of the router over a directory.
struct Process {
    store: Store,
    router: Router,
}

impl Process {
    fn start(root: &Path, partner: &Arc<Partner>) -> Self {
        let store = Store::open(root).expect("the store opens");
        let model = Model::new(ModelDefinition {
            id: "bfl/flux-2".parse().expect("a valid id"),
            charges_on_policy_rejection: ChargesOnPolicyRejection::No,
            form: router_core::ModelForm::default(),
            input_schema: None,
            polling: None,
            alternates: Vec::new(),
            provider: partner.clone(),
        });
        let model = Arc::new(model.expect("an open schema"));
        let calls = Arc::new(store.calls());
        let quota = store.quota();
        let accounts = Arc::new(store.accounts());
        let ports = RouterPorts {
            admissions: Arc::new(SequentialAdmissions {
                accounts: accounts.clone(),
                quota: quota.clone(),
                calls: calls.clone(),
            }),
            calls: calls.clone(),
            queue: calls,
            quota: Arc::new(quota),
            accounts,
            timer: Arc::new(Impatient),
            threads: Arc::new(Impatient),
        };
        let config = RouterConfig {
            deadline: Duration::from_secs(600),
            give_up_after: Duration::from_secs(3600),
            queue_time: RouterConfig::QUEUE_TIME,
            queue_bounds: RouterConfig::QUEUE_BOUNDS,
            cursor_key: CursorKey::derived_from(b"secret"),
            owner: OwnerId(Uuid::new_v4()),
            lease: RouterConfig::LEASE,
        };
        let catalog = LiveCatalog::new(Catalog::new(vec![model]).expect("one id"));
        let router = Router::new(ports, catalog, config);
        Self { store, router }
    }

    async fn open_account(&self) {
        let accounts = self.store.accounts();
        let account = Account::new(acme(), (&acme()).into(), now());
        accounts.create(account).await.expect("a free id");
        let billed = vec![AccountChange::Billed(true)];
        accounts.change(&acme(), billed).await.expect("it is there");
        let grant = LedgerRef::Grant(Uuid::from_u128(1));
        accounts
            .grant(&acme(), grant, 100, now())
            .await
            .expect("it is there");
    }

    /// Calls the model with the one key; the answer, and whether it was a stored one.
    fn call(&self, n: u128) -> JoinHandle<(Result<Answer, RouterError>, bool)> {
        let (router, accounts) = (self.router.clone(), self.store.accounts());
        tokio::spawn(async move {
            let caller: Option<Principal> = accounts.by_id(&acme()).await.expect("an answer");
            let head = CallHead {
                request: RequestId(Uuid::from_u128(n)),
                provider: "bfl",
                model: "flux-2",
                query: "",
                content_type: None,
                keys: &[b"key"],
                labels: &[],
            };
            let caller = caller.expect("the account is there");
            let open = router
                .open(&caller, head, now())
                .await
                .expect("its head is right");
            let (execution, waiter) = open.run(Bytes::from_static(b"{}"));
            let detach = |execution| {
                tokio::spawn(execution);
            };
            let answered = waiter.wait(execution, detach).await;
            answered.delivery.delivered();
            (answered.result, answered.replayed)
        })
    }

    /// Waits until one generation is on the disk, and its acceptance with it if `accepted`.
    async fn runs(&self, accepted: bool) {
        loop {
            let unfinished = self.store.calls().unfinished().await.expect("an answer");
            if unfinished
                .iter()
                .any(|one| one.accepted.is_some() == accepted)
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn balance(&self) -> i64 {
        let credits = self.store.accounts().credits(&acme(), now()).await;
        credits.expect("an answer").balance_cents
    }

    /// What the disk has at this moment.
    fn crash(&self, root: &TempDir) -> TempDir {
        let copy = tempfile::tempdir().expect("a temporary directory");
        for name in ["main.db", "main.db-wal"] {
            std::fs::copy(root.path().join(name), copy.path().join(name)).expect("a file");
        }
        copy
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_after_a_crash_picks_up_the_same_task_and_is_billed_once() {
    let partner = Arc::new(Partner::default());
    partner.accepts.store(true, Ordering::Relaxed);
    let root = tempfile::tempdir().expect("a temporary directory");
    let before = Process::start(root.path(), &partner);
    before.open_account().await;
    let lost = before.call(1);
    before.runs(true).await;
    let copy = before.crash(&root);

    let after = Process::start(copy.path(), &partner);
    let executions = after.router.recover().await.expect("an answer");
    assert_eq!(executions.len(), 1);
    partner.is_done.store(true, Ordering::Relaxed);
    for execution in executions {
        tokio::spawn(execution);
    }
    // Picked up while it runs, or replayed when it has ended: the same bytes.
    let mut answers = 0;
    while answers < 3 {
        let n = 10 + u128::try_from(answers).expect("few");
        match after.call(n).await.expect("no panic") {
            (Ok(answer), _) => {
                assert_eq!(answer.body, "{\"a\": 1.0}");
                answers += 1;
            }
            (Err(RouterError::InFlight { .. }), _) => tokio::task::yield_now().await,
            (Err(error), _) => panic!("{error:?}"),
        }
    }
    assert_eq!(after.balance().await, 93);
    assert_eq!(partner.submits.load(Ordering::Relaxed), 1);
    lost.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_before_the_partner_answered_consumes_the_key_without_a_bill() {
    let partner = Arc::new(Partner::default());
    let root = tempfile::tempdir().expect("a temporary directory");
    let before = Process::start(root.path(), &partner);
    before.open_account().await;
    let lost = before.call(1);
    before.runs(false).await;
    while partner.submits.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let copy = before.crash(&root);

    let after = Process::start(copy.path(), &partner);
    let executions = after.router.recover().await.expect("an answer");
    assert!(executions.is_empty());
    partner.accepts.store(true, Ordering::Relaxed);
    partner.is_done.store(true, Ordering::Relaxed);
    for n in 10..12 {
        let (result, replayed) = after.call(n).await.expect("no panic");
        let error = result.expect_err("the outcome is unknown");
        assert_eq!((error.bucket(), replayed), (Bucket::ProviderError, true));
    }
    assert_eq!(after.balance().await, 100);
    assert_eq!(partner.submits.load(Ordering::Relaxed), 1);
    lost.abort();
}
