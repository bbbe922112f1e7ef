//! A router over rows in memory, one model, and the two hands of the test: on the clock and on the provider.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, Accounts, CreditLedger, LedgerRef,
    MemoryAccounts, Principal, RateWindow,
};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::{
    Answer, Answered, BlockingPool, CallHead, Catalog, Charge, ChargesOnPolicyRejection, Collected,
    Contact, CursorKey, Done, Estimate, Execution, Failure, Handle, LiveCatalog, Load, MemoryCalls,
    MemoryQuota, Model, ModelDefinition, OwnerId, Polling, Price, Provider, QueueBounds, RequestId,
    Router, RouterConfig, RouterError, RouterPorts, SequentialAdmissions, SequentialCalls,
    Submission, Submitted, Timer, Usage, UsageQuery, UsageRow, Violation, ViolationStep, Waiter,
};

mod ports;

/// What the provider was asked, and where its answer goes.
pub(super) enum Asked {
    Submit(Submission, oneshot::Sender<Result<Submitted, Failure>>),
    Collect(Handle, oneshot::Sender<Result<Collected, Failure>>),
}

/// Passes every question on to the test.
pub(super) struct Puppet {
    asked: mpsc::Sender<Asked>,
    pub(super) submits: AtomicUsize,
    pub(super) cancels: AtomicUsize,
}

/// A clock that stands still until it is moved.
#[derive(Default)]
pub(super) struct Clock {
    passed: Mutex<Duration>,
    moved: Notify,
    /// Rung whenever a task goes to sleep.
    slept: Notify,
}

impl Clock {
    pub(super) fn advance(&self, by: Duration) {
        *self.passed.lock().expect("not poisoned") += by;
        self.moved.notify_waiters();
    }

    /// Waits until a task sleeps that did not before.
    pub(super) async fn somebody_sleeps(&self) {
        self.slept.notified().await;
    }

    fn passed(&self) -> Duration {
        *self.passed.lock().expect("not poisoned")
    }
}

/// Threads whose work the test does itself.
#[derive(Default)]
pub(super) struct Aside {
    work: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
    /// Rung whenever there is more of it.
    came: Notify,
}

impl Aside {
    /// Waits for the next piece of work.
    pub(super) async fn next(&self) -> Box<dyn FnOnce() + Send> {
        loop {
            let next = self.work.lock().expect("not poisoned").pop_front();
            if let Some(work) = next {
                return work;
            }
            self.came.notified().await;
        }
    }
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_second(1_790_000_000).expect("in range")
}

/// Everything around one router.
pub(super) struct House {
    pub(super) router: Router,
    pub(super) clock: Arc<Clock>,
    pub(super) aside: Arc<Aside>,
    pub(super) calls: Arc<MemoryCalls>,
    pub(super) accounts: Arc<MemoryAccounts>,
    pub(super) quota: MemoryQuota,
    pub(super) puppet: Arc<Puppet>,
    asked: AsyncMutex<mpsc::Receiver<Asked>>,
    next_request: AtomicUsize,
}

/// What a test sends.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) model: &'a str,
    pub(super) query: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) body: &'static str,
}

/// A call under way.
pub(super) struct UnderWay {
    /// Carries it out as long as it is there.
    pub(super) waiter: JoinHandle<Answered>,
    /// Ends with the execution. Aborted, it takes along what its waiter leaves.
    pub(super) execution: JoinHandle<()>,
}

/// Starts the two halves of a call.
pub(super) fn under_way((execution, waiter): (Execution, Waiter)) -> UnderWay {
    let (leave, left) = oneshot::channel::<JoinHandle<()>>();
    let detach = |execution| {
        if let Err(unwatched) = leave.send(tokio::spawn(execution)) {
            unwatched.abort();
        }
    };
    UnderWay {
        waiter: tokio::spawn(waiter.wait(execution, detach)),
        execution: tokio::spawn(async {
            if let Ok(execution) = left.await {
                execution.await.expect("it does not panic");
            }
        }),
    }
}

pub(super) fn call(body: &'static str) -> Call<'static> {
    Call {
        model: "flux-2",
        query: "",
        key: None,
        content_type: Some("application/json"),
        body,
    }
}

pub(super) fn keyed(body: &'static str) -> Call<'static> {
    Call {
        key: Some("key"),
        ..call(body)
    }
}

pub(super) const DEADLINE: Duration = Duration::from_secs(600);

/// What the definition of the model says; every single pause of the provider is another one.
pub(super) const POLLING: Polling = Polling {
    interval: Duration::from_secs(7),
    give_up_after: Some(Duration::from_secs(3600)),
};

impl House {
    /// With one model, whose body may have `cents` and a `prompt` of at most 5 characters; one account, `acme`, that has
    /// 1,000 cents and is billed.
    pub(super) async fn new() -> Self {
        let accounts = Arc::new(MemoryAccounts::new());
        let calls = Arc::new(MemoryCalls::new(accounts.clone()));
        let house = Self::over(calls, accounts);
        let mut account = Account::new(acme(), (&acme()).into(), start());
        account.billed = true;
        house.accounts.create(account).await.expect("a free id");
        house.grant(1_000).await;
        house
    }

    /// A router over what another one left.
    pub(super) fn over(calls: Arc<MemoryCalls>, accounts: Arc<MemoryAccounts>) -> Self {
        Self::with(calls.clone(), calls, accounts)
    }

    /// Another router over the same rows, at the same time.
    pub(super) fn beside(&self) -> Self {
        let calls = self.calls.clone();
        let clock = Arc::clone(&self.clock);
        let (accounts, quota) = (self.accounts.clone(), self.quota.clone());
        Self::at(clock, calls.clone(), calls, accounts, quota)
    }

    /// A router with other rows in between.
    pub(super) fn with(
        port: Arc<dyn SequentialCalls>,
        calls: Arc<MemoryCalls>,
        accounts: Arc<MemoryAccounts>,
    ) -> Self {
        let quota = calls.quota();
        Self::at(Arc::default(), port, calls, accounts, quota)
    }

    fn at(
        clock: Arc<Clock>,
        port: Arc<dyn SequentialCalls>,
        calls: Arc<MemoryCalls>,
        accounts: Arc<MemoryAccounts>,
        quota: MemoryQuota,
    ) -> Self {
        static OWNERS: AtomicUsize = AtomicUsize::new(1);
        let owner = OWNERS.fetch_add(1, Ordering::Relaxed);
        let (ask, asked) = mpsc::channel(64);
        let puppet = Arc::new(Puppet {
            asked: ask,
            submits: AtomicUsize::new(0),
            cancels: AtomicUsize::new(0),
        });
        let schema = json!({"type": "object", "properties": {
            "cents": {"type": "integer"}, "prompt": {"type": "string", "maxLength": 5}}});
        let model = Model::new(ModelDefinition {
            id: "bfl/flux-2".parse().expect("a valid id"),
            charges_on_policy_rejection: ChargesOnPolicyRejection::No,
            form: crate::ModelForm {
                files: vec!["/images/*/url".to_owned()],
                ..crate::ModelForm::default()
            },
            input_schema: Some(schema),
            polling: Some(POLLING),
            alternates: Vec::new(),
            provider: puppet.clone(),
        });
        let model = Arc::new(model.expect("a valid schema"));
        let catalog = Catalog::new(vec![model]).expect("one id");
        let aside = Arc::new(Aside::default());
        let ports = RouterPorts {
            calls: port.clone(),
            queue: calls.clone(),
            quota: Arc::new(quota.clone()),
            admissions: Arc::new(SequentialAdmissions {
                accounts: accounts.clone(),
                quota: quota.clone(),
                calls: port,
            }),
            accounts: accounts.clone(),
            timer: clock.clone(),
            threads: aside.clone(),
        };
        let config = RouterConfig {
            deadline: DEADLINE,
            // The model has its own.
            give_up_after: Duration::from_secs(60),
            queue_time: RouterConfig::QUEUE_TIME,
            queue_bounds: QueueBounds {
                of_account: 3,
                of_all: 100,
            },
            cursor_key: CursorKey::derived_from(b"secret"),
            owner: OwnerId(Uuid::from_u128(owner as u128)),
            lease: RouterConfig::LEASE,
        };
        Self {
            router: Router::new(ports, LiveCatalog::new(catalog), config),
            clock,
            aside,
            calls,
            accounts,
            quota,
            puppet,
            asked: AsyncMutex::new(asked),
            next_request: AtomicUsize::new(owner * 1_000),
        }
    }

    pub(super) async fn change(&self, change: AccountChange) {
        let changed = self.accounts.change(&acme(), vec![change]).await;
        changed.expect("the account is there");
    }

    pub(super) async fn grant(&self, cents: i32) {
        let n = self.next_request.fetch_add(1, Ordering::Relaxed);
        let grant = LedgerRef::Grant(Uuid::from_u128(n as u128));
        let granted = self.accounts.grant(&acme(), grant, cents, start()).await;
        granted.expect("the account is there");
    }

    pub(super) async fn windows(&self, text: &str) {
        let windows = RateWindow::read_list(text).expect("windows");
        self.change(AccountChange::RateWindows(Some(windows))).await;
    }

    pub(super) async fn caller(&self) -> Principal {
        let caller = self.accounts.by_id(&acme()).await;
        caller.expect("memory answers").expect("it is there")
    }

    pub(super) async fn load(&self) -> Load {
        let caller = self.caller().await;
        let load = self.router.load(&caller, self.clock.now()).await;
        load.expect("memory answers")
    }

    pub(super) async fn balance(&self) -> (i64, u64) {
        let credits = self.accounts.credits(&acme(), self.clock.now()).await;
        let credits = credits.expect("memory answers");
        (credits.balance_cents, credits.held_cents)
    }

    /// Opens a call; an answer that comes before the body is given as an error.
    pub(super) async fn open(&self, call: Call<'_>) -> Result<crate::OpenCall, RouterError> {
        let caller = self.caller().await;
        self.open_as(&caller, call).await
    }

    pub(super) async fn open_as(
        &self,
        caller: &Principal,
        call: Call<'_>,
    ) -> Result<crate::OpenCall, RouterError> {
        let n = self.next_request.fetch_add(1, Ordering::Relaxed);
        let keys: Vec<&[u8]> = call.key.iter().map(|key| key.as_bytes()).collect();
        let head = CallHead {
            request: RequestId(Uuid::from_u128(n as u128)),
            provider: "bfl",
            model: call.model,
            query: call.query,
            content_type: call.content_type,
            keys: &keys,
            labels: &[],
        };
        self.router.open(caller, head, self.clock.now()).await
    }

    /// Starts a call.
    pub(super) async fn begin(&self, call: Call<'_>) -> UnderWay {
        let open = self.open(call).await.expect("its head is right");
        under_way(open.run(Bytes::from_static(call.body.as_bytes())))
    }

    /// Makes a call that needs no word from the provider.
    pub(super) async fn ask(&self, call: Call<'_>) -> (Result<Answer, RouterError>, bool) {
        match self.open(call).await {
            Ok(open) => {
                let call = under_way(open.run(Bytes::from_static(call.body.as_bytes())));
                let answered = call.waiter.await.expect("it does not panic");
                answered.delivery.delivered();
                call.execution.await.expect("it does not panic");
                (answered.result, answered.replayed)
            }
            Err(error) => (Err(error), false),
        }
    }

    /// What a call with this body would cost.
    pub(super) async fn estimate(&self, body: &'static str) -> Result<Estimate, RouterError> {
        let (caller, now) = (self.caller().await, self.clock.now());
        let of = ("bfl", "flux-2");
        let open = self.router.open_estimate(&caller, of, ("", None), now);
        let body = Bytes::from_static(body.as_bytes());
        self.router.estimate(&open.await?, body).await
    }

    /// The error of a call, as `bucket: words`.
    pub(super) async fn refused(&self, call: Call<'_>) -> RouterError {
        self.ask(call).await.0.expect_err("it is refused")
    }

    /// The next thing that the provider is asked.
    pub(super) async fn asked(&self) -> Asked {
        self.asked
            .lock()
            .await
            .recv()
            .await
            .expect("the router asks")
    }

    /// The next submission, and where its answer goes.
    pub(super) async fn submitted(
        &self,
    ) -> (Submission, oneshot::Sender<Result<Submitted, Failure>>) {
        match self.asked().await {
            Asked::Submit(submission, answer) => (submission, answer),
            Asked::Collect(..) => panic!("a submission was expected"),
        }
    }

    /// Answers the next question for a result, and expects it to be one.
    pub(super) async fn collected(&self, collected: Result<Collected, Failure>) {
        match self.asked().await {
            Asked::Collect(handle, answer) => {
                assert_eq!(handle.0, "task-1", "the handle is the partner's");
                answer.send(collected).expect("it is awaited");
            }
            Asked::Submit(..) => panic!("a question for the result was expected"),
        }
    }

    pub(super) fn submits(&self) -> usize {
        self.puppet.submits.load(Ordering::Relaxed)
    }

    /// Every call on record, oldest first.
    pub(super) async fn record(&self) -> Vec<UsageRow> {
        let mut page = self
            .calls
            .page(&UsageQuery::default(), None, 100)
            .await
            .expect("memory answers");
        page.sort_by_key(|row| row.call.request);
        page
    }
}

impl UnderWay {
    /// Its answer, delivered and recorded.
    pub(super) async fn answer(self) -> Result<Answer, RouterError> {
        let answered = self.waiter.await.expect("it does not panic");
        answered.delivery.delivered();
        self.execution.await.expect("it does not panic");
        answered.result
    }

    /// Its answer while its execution goes on.
    pub(super) async fn early(self) -> (Result<Answer, RouterError>, JoinHandle<()>) {
        let answered = self.waiter.await.expect("it does not panic");
        answered.delivery.delivered();
        (answered.result, self.execution)
    }
}

pub(super) fn acme() -> AccountId {
    "acme".parse().expect("a valid id")
}

pub(super) fn done(body: &'static str) -> Done {
    Done {
        answer: Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from_static(body.as_bytes()),
        },
        charge: Charge::AsHeld,
        task_id: None,
    }
}

pub(super) fn accepted(seconds: u64) -> Submitted {
    Submitted::Accepted {
        handle: Handle(Bytes::from_static(b"task-1")),
        task_id: Some("task-1".to_owned()),
        poll_after: Duration::from_secs(seconds),
    }
}
