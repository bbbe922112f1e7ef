//! A world in memory: one model that three partners serve, each of which does what it is told, rows that outlive routers, and a
//! clock that moves when everybody waits. Any call of a port may be the last thing that a router does.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use accounts::{
    Account, AccountAdmin, AccountChange, AccountId, Accounts, CreditLedger, MemoryAccounts,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::harness::{acme, start};
use crate::{
    Alternate, Answer, Answered, BlockingPool, CallHead, CallQueue, CallRecord, Calls, CallsError,
    Catalog, Charge, ChargesOnPolicyRejection, Claimed, Collected, Contact, CursorKey, Dispatched,
    Done, Ending, Execution, Failure, Generation, GenerationId, Handle, KeyClaim, KeyDigest, Lease,
    LiveCatalog, MemoryCalls, MemoryQuota, Model, ModelDefinition, ModelForm, OwnerId, Polling,
    Price, Provider, Ran, RequestId, Router, RouterConfig, RouterError, RouterPorts,
    SequentialAdmissions, SequentialCalls, Serving, Settled, Submission, Submitted, Timer,
    Translated, Translation, Unfinished, Unsaid, Violation, ViolationStep,
};

mod ports;

/// The partners by their names, and what a call costs at each. The first one is the model's own.
pub(super) const PARTNERS: [(&str, u64); 3] = [("own", 5), ("other", 7), ("third", 3)];

/// How a submission goes.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// The result comes at once.
    Answers,
    /// It is accepted, and ends so after some looks.
    Accepts(u32, Box<Result<(), Failure>>),
    /// It fails.
    Fails(Failure),
}

/// What happened at the partners.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) generation: GenerationId,
    pub(super) partner: &'static str,
    pub(super) body: Value,
    /// How it ended, as far as the router was told; `None` while it was not.
    pub(super) told: Option<Result<(), Failure>>,
    looks: u32,
    deed: Deed,
}

#[derive(Default)]
struct State {
    now: Duration,
    sleepers: BTreeSet<Duration>,
    deeds: [VecDeque<Deed>; 3],
    sent: Vec<Sent>,
    /// After so many calls of ports the router is gone; `None`: it lives on.
    dies_after: Option<u32>,
    is_dead: bool,
    /// Whether another process takes the generation over before the next attempt is written down.
    is_stolen: bool,
    /// How often a partner was asked after work of another one.
    wrong_handles: u32,
}

type Shared = Arc<Mutex<State>>;

/// Shared by everything.
#[derive(Clone)]
pub(super) struct World {
    state: Shared,
    models: Vec<Arc<Model>>,
    pub(super) calls: Arc<MemoryCalls>,
    pub(super) accounts: Arc<MemoryAccounts>,
    quota: MemoryQuota,
}

struct Partner {
    state: Shared,
    place: usize,
}

/// Rows whose caller may die on the way to them or on the way back.
struct Mortal(World);

struct Clock(World);

struct AtOnce;

/// Calls a prompt a text, and has no seed, no style and no pictures.
struct Renaming;

impl World {
    pub(super) async fn new() -> Self {
        let state = Shared::default();
        let models = (0..PARTNERS.len()).map(|place| Arc::new(model(&state, place)));
        Self::with(models.collect(), state).await
    }

    /// Another world with the same models, whose schemas take most of the time that a world takes.
    pub(super) async fn another(self) -> Self {
        *self.state() = State::default();
        Self::with(self.models, self.state).await
    }

    async fn with(models: Vec<Arc<Model>>, state: Shared) -> Self {
        let accounts = Arc::new(MemoryAccounts::new());
        let mut account = Account::new(acme(), (&acme()).into(), start());
        account.billed = true;
        accounts.create(account).await.expect("a free id");
        let grant = accounts::LedgerRef::Grant(Uuid::from_u128(1));
        let granted = accounts.grant(&acme(), grant, 1_000, start()).await;
        granted.expect("the account is there");
        let calls = Arc::new(MemoryCalls::new(accounts.clone()));
        Self {
            state,
            models,
            quota: calls.quota(),
            calls,
            accounts,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// What a partner does with its next submissions. Without any it answers.
    pub(super) fn plan(&self, place: usize, deeds: impl IntoIterator<Item = Deed>) {
        self.state().deeds[place].extend(deeds);
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        self.state().sent.clone()
    }

    pub(super) async fn change(&self, change: AccountChange) {
        let changed = self.accounts.change(&acme(), vec![change]).await;
        changed.expect("the account is there");
    }

    /// Has another process take the generation over before the next attempt is written down.
    pub(super) fn steal(&self) {
        self.state().is_stolen = true;
    }

    /// How often a partner was asked after work of another one.
    pub(super) fn wrong_handles(&self) -> u32 {
        self.state().wrong_handles
    }

    pub(super) fn advance(&self, by: Duration) {
        self.state().now += by;
    }

    pub(super) fn now(&self) -> Timestamp {
        start() + SignedDuration::try_from(self.state().now).expect("in range")
    }

    pub(super) async fn balance(&self) -> (i64, u64) {
        let credits = self.accounts.credits(&acme(), self.now()).await;
        let credits = credits.expect("memory answers");
        (credits.balance_cents, credits.held_cents)
    }

    /// A router that dies after so many calls of its ports.
    pub(super) fn router(&self, owner: u128, dies_after: Option<u32>) -> Router {
        {
            let mut state = self.state();
            state.dies_after = dies_after;
            state.is_dead = false;
        }
        let catalog = Catalog::new(self.models.clone()).expect("different ids");
        let calls = Arc::new(Mortal(self.clone()));
        let ports = RouterPorts {
            calls: calls.clone(),
            queue: self.calls.clone() as Arc<dyn CallQueue>,
            quota: Arc::new(self.quota.clone()),
            admissions: Arc::new(SequentialAdmissions {
                accounts: self.accounts.clone(),
                quota: self.quota.clone(),
                calls,
            }),
            accounts: self.accounts.clone(),
            timer: Arc::new(Clock(self.clone())),
            threads: Arc::new(AtOnce),
        };
        let config = RouterConfig {
            deadline: Duration::from_secs(100_000),
            give_up_after: Duration::from_secs(60),
            queue_time: RouterConfig::QUEUE_TIME,
            queue_bounds: RouterConfig::QUEUE_BOUNDS,
            cursor_key: CursorKey::derived_from(b"secret"),
            owner: OwnerId(Uuid::from_u128(owner)),
            lease: RouterConfig::LEASE,
        };
        Router::new(ports, LiveCatalog::new(catalog), config)
    }

    /// Polls to the end, with the clock moving whenever nothing else does; `None` if the router died. What it held is dropped.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return Some(done);
            }
            let mut state = self.state();
            if state.is_dead {
                return None;
            }
            let now = state.now;
            let next = state.sleepers.iter().find(|until| **until > now).copied();
            state.now = next.expect("somebody sleeps, or everybody waits for ever");
            state
                .sleepers
                .retain(|until| next.is_none_or(|next| *until > next));
        }
    }

    /// Makes a call and sees it to its end; `None` if the router died.
    pub(super) fn ask(&self, router: &Router, n: u128, ask: Ask<'_>) -> Option<Told> {
        self.run(async {
            let caller = self.accounts.by_id(&acme()).await;
            let caller = caller.expect("memory answers").expect("it is there");
            let keys: Vec<&[u8]> = ask.key.iter().map(|key| key.as_bytes()).collect();
            let head = CallHead {
                request: RequestId(Uuid::from_u128(n)),
                provider: "own",
                model: "flux",
                query: ask.query,
                content_type: None,
                keys: &keys,
                labels: &[],
            };
            let open = match router.open(&caller, head, self.now()).await {
                Ok(open) => open,
                Err(error) => return Told::of(Err(error)),
            };
            let (execution, waiter) = open.run(Bytes::copy_from_slice(ask.body.as_bytes()));
            let answered = waiter.wait(execution, drop).await;
            Told::answered(answered)
        })
    }

    /// Takes over what a dead router left, and sees it to its end; `None` if this router dies of it.
    pub(super) fn recover(&self, router: &Router) -> Option<()> {
        let executions: Vec<Execution> = self.run(router.recover())?.expect("memory answers");
        for execution in executions {
            self.run(execution)?;
        }
        Some(())
    }
}

fn model(state: &Shared, place: usize) -> Model {
    let (name, _) = PARTNERS[place];
    let schema = match place {
        0 => json!({"type": "object", "properties": {"prompt": {"type": "string"}}}),
        _ => json!({"type": "object", "additionalProperties": false,
            "properties": {"text": {"type": "string", "maxLength": 5}}}),
    };
    let alternates = PARTNERS[1..].iter().map(|(name, _)| Alternate {
        model: format!("{name}/flux").parse().expect("an id"),
        translation: Arc::new(Renaming),
    });
    let model = Model::new(ModelDefinition {
        id: format!("{name}/flux").parse().expect("an id"),
        charges_on_policy_rejection: ChargesOnPolicyRejection::No,
        form: ModelForm::default(),
        input_schema: Some(schema),
        polling: Some(Polling {
            interval: Duration::from_secs(1),
            give_up_after: None,
        }),
        alternates: match place {
            0 => alternates.collect(),
            _ => Vec::new(),
        },
        provider: Arc::new(Partner {
            state: Arc::clone(state),
            place,
        }),
    });
    model.expect("a valid schema")
}

fn locked(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Comes back, unless the router dies here.
async fn step(state: &Shared) {
    let dies = {
        let mut state = locked(state);
        match &mut state.dies_after {
            Some(0) => {
                state.is_dead = true;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    };
    if dies {
        pending::<()>().await;
    }
}

/// What a test asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) query: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) body: &'a str,
}

/// What a caller is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) result: Result<Answer, RouterError>,
    pub(super) replayed: bool,
    pub(super) serving: Option<Box<Serving>>,
    pub(super) charge_cents: Option<u64>,
}

impl Told {
    fn of(result: Result<Answer, RouterError>) -> Self {
        Self {
            result,
            replayed: false,
            serving: None,
            charge_cents: None,
        }
    }

    fn answered(answered: Answered) -> Self {
        answered.delivery.delivered();
        Self {
            replayed: answered.replayed,
            serving: answered.serving,
            charge_cents: answered.charge_cents,
            ..Self::of(answered.result)
        }
    }

    /// The answer as JSON.
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        let answer = self.result.as_ref().expect("a result");
        serde_json::from_slice(&answer.body).expect("JSON")
    }
}

/// Nothing ran.
pub(super) fn nothing_ran() -> Failure {
    Failure::Failed {
        ran: Ran::Nothing,
        message: "the provider turned it away".to_owned(),
    }
}

/// It failed for good, and free.
pub(super) fn in_vain() -> Failure {
    Failure::Failed {
        ran: Ran::InVain,
        message: "the provider failed to run the model".to_owned(),
    }
}

/// Nobody knows.
pub(super) fn unknown() -> Failure {
    Failure::Failed {
        ran: Ran::Perhaps,
        message: "the connection broke".to_owned(),
    }
}

/// Polls a future that does not wait for anything.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory answers at once")
}
