//! Two processes over one store: requests that both take in, dispatch, cancel and end, and results that both fetch, in an order that
//! a seed decides, beside a model of what is true. In the end both forget everything at once.

mod model;

use accounts::Fingerprint;
use accounts::contract::{Dice, either};
use futures_util::future::join;

use super::super::kept::{file, keeping, later, result};
use super::super::queue::call;
use super::super::{
    Bucket, CallRecord, Dispatched, Ending, Outcome, Settled, Stores, account, answered, at,
    generation, id, kept, record,
};
use super::{lasts, owner};
use crate::{
    Breakdown, Cancelled, DueResult, Enqueued, KeepOutcome, KeyDigest, QueueBounds, QueueFailure,
    QueueState, QueuedCall, ResultId, UsageQuery,
};
use model::{Fetched, Model, Request, State};

const STEPS: usize = 90;

/// How many requests are looked at after each step: the newest, since the others are over.
const LOOKED_AT: usize = 6;

/// More than any history takes in.
const WIDE: QueueBounds = QueueBounds {
    of_account: 10_000,
    of_all: 10_000,
};

/// What every generation of these histories costs.
const CENTS: u64 = 4;

/// Runs one history on the two handles of a fresh store.
pub(super) async fn history(handles: [Stores; 2], seed: u64) {
    handles[0].open_account().await;
    let mut history = History {
        handles,
        dice: Dice::new(seed),
        now: 60,
        next: 1,
        model: Model::default(),
        records: 0,
        charged: 0,
    };
    for _ in 0..STEPS {
        history.step().await;
        history.look().await;
    }
    history.end().await;
}

struct History {
    handles: [Stores; 2],
    dice: Dice,
    now: i64,
    /// The number of the next request.
    next: u128,
    model: Model,
    /// How many calls are on record.
    records: usize,
    /// What was billed.
    charged: u64,
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(16) {
            0 => self.enqueue(handle).await,
            1 | 2 => self.enqueue_at_once().await,
            3 => self.enqueue_under_a_bound_at_once().await,
            4 => self.take(handle).await,
            5 | 6 => self.take_at_once().await,
            7 | 8 => self.dispatch(handle).await,
            9 => self.cancel_at_once().await,
            10 => self.end_undispatched().await,
            11 => self.settle(handle).await,
            12 => self.fetch_at_once().await,
            13 => self.note(handle).await,
            14 => self.renew(handle).await,
            _ => self.now += i64::try_from(self.dice.roll(20)).expect("few"),
        }
    }

    fn request(&mut self) -> QueuedCall {
        let n = self.next;
        self.next += 1;
        let key = match self.dice.roll(3) {
            0 => KeyDigest::of_request(id(n)),
            _ => KeyDigest([u8::try_from(self.dice.roll(5)).expect("few"); 32]),
        };
        QueuedCall {
            key,
            ..call("acme", n)
        }
    }

    async fn enqueue_by(&self, handle: usize, call: &QueuedCall, bounds: QueueBounds) -> Enqueued {
        let queue = &self.handles[handle].queue;
        let enqueued = queue.enqueue(call.clone(), Fingerprint([1; 32]), bounds, at(0));
        enqueued.await.expect("the store answers")
    }

    async fn enqueue(&mut self, handle: usize) {
        let call = self.request();
        let answer = self.enqueue_by(handle, &call, WIDE).await;
        let n = call.id.0.as_u128();
        assert_eq!(answer, self.model.enqueue(n, call.key, WIDE));
    }

    /// One key is one request.
    async fn enqueue_at_once(&mut self) {
        let (one, mut other) = (self.request(), self.request());
        if self.dice.roll(2) == 0 {
            other.key = one.key;
        }
        self.both_enqueue([one, other], WIDE).await;
    }

    /// Both ask for the one place that is left.
    async fn enqueue_under_a_bound_at_once(&mut self) {
        // Those that were taken may have their place back.
        if !self
            .model
            .in_state(|it| matches!(it, State::Taken(_)))
            .is_empty()
        {
            return;
        }
        let waiting = self.model.in_state(|state| *state == State::Waits).len();
        let bounds = QueueBounds {
            of_account: waiting + 1,
            ..WIDE
        };
        let calls = [self.request(), self.request()];
        self.both_enqueue(calls, bounds).await;
    }

    async fn both_enqueue(&mut self, calls: [QueuedCall; 2], bounds: QueueBounds) {
        let answers = join(
            self.enqueue_by(0, &calls[0], bounds),
            self.enqueue_by(1, &calls[1], bounds),
        )
        .await;
        let act = |model: &mut Model, handle: usize| {
            let call = &calls[handle];
            model.enqueue(call.id.0.as_u128(), call.key, bounds)
        };
        either(&mut self.model, act, &answers);
    }

    /// One of the newest requests.
    fn any(&mut self) -> Option<u128> {
        let all: Vec<u128> = self.model.requests.keys().rev().copied().collect();
        self.dice.pick(&all[..all.len().min(LOOKED_AT)])
    }

    async fn take_by(&self, handle: usize, n: u128) -> bool {
        let taken = self.handles[handle].queue.take(id(n), at(self.now)).await;
        let taken = taken.expect("the store answers");
        if let Some(taken) = &taken {
            let (key, whole) = (self.model.requests[&n].key, call("acme", n));
            assert_eq!((taken.id, taken.key), (id(n), key));
            assert_eq!(taken.body, whole.body);
        }
        taken.is_some()
    }

    async fn take(&mut self, handle: usize) {
        let Some(n) = self.any() else { return };
        let taken = self.take_by(handle, n).await;
        assert_eq!(taken, self.model.take(handle, n), "{n}");
    }

    /// One of both has it.
    async fn take_at_once(&mut self) {
        let waiting = self.model.in_state(|state| *state == State::Waits);
        let Some(n) = self.dice.pick(&waiting) else {
            return;
        };
        let answers = join(self.take_by(0, n), self.take_by(1, n)).await;
        let act = |model: &mut Model, handle: usize| model.take(handle, n);
        either(&mut self.model, act, &answers);
    }

    /// A process dispatches what it took.
    async fn dispatch(&mut self, handle: usize) {
        let taken = self.model.in_state(|state| *state == State::Taken(handle));
        let Some(n) = self.dice.pick(&taken) else {
            return;
        };
        let key = self.model.requests[&n].key;
        let stores = &self.handles[handle];
        let generation = crate::Generation {
            dispatched_at: at(self.now),
            ..generation(n, CENTS)
        };
        let begun = stores.dispatch_with(owner(handle), Some(key), generation);
        assert_eq!(begun.await, Dispatched::Begun);
        let noted = stores.queue.dispatched(id(n)).await;
        noted.expect("the store answers");
        let call: CallRecord = record(n, 0);
        stores.record(call);
        self.records += 1;
        self.request_mut(n).state = State::Runs(handle, false);
    }

    fn request_mut(&mut self, n: u128) -> &mut Request {
        self.model.requests.get_mut(&n).expect("it was taken in")
    }

    async fn cancel_by(&self, handle: usize, n: u128) -> Option<Cancelled> {
        let queue = &self.handles[handle].queue;
        let cancelled = queue.cancel(&account("acme"), id(n), at(self.now)).await;
        cancelled.expect("the store answers")
    }

    /// One of both withdrew it. What a process is about to dispatch is left alone here.
    async fn cancel_at_once(&mut self) {
        let Some(n) = self.any() else { return };
        if matches!(self.model.requests[&n].state, State::Taken(_)) {
            return;
        }
        let answers = join(self.cancel_by(0, n), self.cancel_by(1, n)).await;
        either(&mut self.model, |model, _| model.cancel(n), &answers);
    }

    /// What waits or was taken ends for two reasons at once: one of them stands, and the key is free.
    async fn end_undispatched(&mut self) {
        let open = self
            .model
            .in_state(|state| matches!(state, State::Waits | State::Taken(_)));
        let Some(n) = self.dice.pick(&open) else {
            return;
        };
        let failures = [
            QueueFailure::WaitedTooLong,
            QueueFailure::NotDispatched {
                bucket: Bucket::InsufficientCredits,
                message: "too poor".to_owned(),
            },
        ];
        let end = async |handle: usize| {
            let queue = &self.handles[handle].queue;
            let ended = queue.end(id(n), failures[handle].clone(), at(self.now));
            ended.await.expect("the store answers");
        };
        join(end(0), end(1)).await;
        let QueueState::Over(Some(failure)) = self.state_at(1, n).await else {
            panic!("{n} is over");
        };
        assert!(failures.contains(&failure), "{failure:?}");
        self.request_mut(n).state = State::Over(Some(failure));
    }

    /// Both say how a generation ended; its owner is right.
    async fn settle(&mut self, handle: usize) {
        let running = self.model.in_state(|it| matches!(it, State::Runs(..)));
        let Some(n) = self.dice.pick(&running) else {
            return;
        };
        let State::Runs(by, wish) = self.model.requests[&n].state else {
            return;
        };
        let failed = Outcome::Failed {
            bucket: Bucket::ProviderError,
            message: "it failed".to_owned(),
        };
        let told = |bucket| {
            Some(match wish {
                true => QueueFailure::Cancelled,
                false => QueueFailure::Failed(bucket),
            })
        };
        let (ending, over, cents): (Ending, _, _) = match self.dice.roll(4) {
            0 => (kept(failed, 0), told(Bucket::ProviderError), 0),
            1 => (answered(b"{}", CENTS), None, CENTS),
            _ => (keeping(n), None, CENTS),
        };
        let names_results = matches!(&ending, Ending::Kept { results, .. } if !results.is_empty());
        for asked in [1 - by, by] {
            let stores = &self.handles[asked];
            let settled = stores.settle_by(owner(asked), "acme", n, ending.clone());
            let expected = match asked == by {
                true => Settled::Now,
                false => Settled::Before,
            };
            assert_eq!(settled.await, expected, "{n} by {asked}");
        }
        let again = self.handles[handle].settle_by(owner(handle), "acme", n, ending);
        assert_eq!(again.await, Settled::Before, "{n} ends once");
        self.request_mut(n).state = State::Over(over);
        self.charged += cents;
        if names_results {
            for place in [0, 1] {
                let fetched = Fetched {
                    due: 60,
                    attempts: 0,
                    by: None,
                    is_over: false,
                };
                self.model.results.insert(result(n, place), fetched);
            }
        }
    }

    /// Each result is fetched by one of both at a time.
    async fn fetch_at_once(&mut self) {
        let due = self.model.due(self.now);
        let answers = join(self.fetch_by(0), self.fetch_by(1)).await;
        let taken = [answers.0, answers.1];
        let count = taken.iter().flatten().count();
        assert_eq!(count, due.len().min(2), "{due:?} are due: {taken:?}");
        for (handle, one) in taken.into_iter().enumerate() {
            let Some(one) = one else { continue };
            assert!(self.model.is_due(one.id, self.now), "{one:?}");
            let until = self.now + lasts();
            let fetched = self.model.results.get_mut(&one.id).expect("it is due");
            fetched.attempts += 1;
            fetched.by = Some((handle, until));
            assert_eq!(one.attempt, fetched.attempts);
        }
    }

    async fn fetch_by(&self, handle: usize) -> Option<DueResult> {
        let stores = &self.handles[handle];
        stores
            .take_in_turn(owner(handle), None, &[], self.now)
            .await
    }

    /// A result that was begun, and nobody else may have by now.
    fn fetched(&mut self) -> Option<(ResultId, usize)> {
        let now = self.now;
        let all = self.model.results.iter();
        let held: Vec<(ResultId, usize)> = all
            .filter_map(|(result, one)| Some((*result, one.by?)))
            .filter(|(_, (_, until))| *until > now)
            .map(|(result, (by, _))| (result, by))
            .collect();
        self.dice.pick(&held)
    }

    /// Only who has a result says what came of it, and once.
    async fn note(&mut self, handle: usize) {
        let Some((result, by)) = self.fetched() else {
            return;
        };
        let due = self.now + i64::try_from(self.dice.roll(40)).expect("few");
        let came = match self.dice.roll(3) {
            0 => KeepOutcome::Kept(file()),
            1 => later(due),
            _ => KeepOutcome::GivenBack,
        };
        let noted = self.handles[handle].note(owner(handle), result, came.clone(), self.now);
        let expected = match by == handle {
            true => Settled::Now,
            false => Settled::Before,
        };
        assert_eq!(noted.await, expected, "{result:?} of {by} by {handle}");
        if by != handle {
            return;
        }
        let now = self.now;
        let fetched = self.model.results.get_mut(&result).expect("it is there");
        fetched.by = None;
        match came {
            KeepOutcome::Later { .. } => fetched.due = due,
            KeepOutcome::GivenBack => {
                fetched.attempts -= 1;
                fetched.due = fetched.due.min(now);
            }
            KeepOutcome::Kept(_) | KeepOutcome::Failed { .. } => fetched.is_over = true,
        }
    }

    async fn renew(&mut self, handle: usize) {
        let now = self.now;
        // Nobody may have taken what lapsed.
        let known = self.model.results.iter();
        let known = known.filter(|(_, one)| one.by.is_none_or(|(_, until)| until > now));
        let results: Vec<ResultId> = known.map(|(result, _)| *result).collect();
        let lost = self.handles[handle].renew_results(owner(handle), &results, now);
        let lost = lost.await;
        for result in results {
            let one = self.model.results.get_mut(&result).expect("it is there");
            let is_own = one.by.is_some_and(|(by, _)| by == handle);
            assert_eq!(lost.contains(&result), !is_own, "{result:?} of {one:?}");
            if is_own {
                one.by = Some((handle, now + lasts()));
            }
        }
    }

    async fn state_at(&self, handle: usize, n: u128) -> QueueState {
        let queue = &self.handles[handle].queue;
        let found = queue.find(&account("acme"), id(n)).await;
        found
            .expect("the store answers")
            .expect("it was taken in")
            .state
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        for (handle, stores) in self.handles.iter().enumerate() {
            for (n, request) in self.model.requests.iter().rev().take(LOOKED_AT) {
                let seen = self.state_at(handle, *n).await;
                let fits = match (&request.state, &seen) {
                    (State::Waits, QueueState::Waiting { .. }) => true,
                    (State::Taken(_) | State::Runs(..), QueueState::Running) => true,
                    (State::Over(expected), QueueState::Over(seen)) => expected == seen,
                    _ => false,
                };
                assert!(fits, "{n} is {request:?} and seen as {seen:?}");
            }
            let totals = stores
                .usage
                .totals(&UsageQuery::default(), Breakdown::default())
                .await;
            let totals = totals.expect("the store answers");
            let charged: u64 = totals.iter().map(|total| total.charge_cents).sum();
            assert_eq!(charged, self.charged, "what ended was billed once");
        }
    }

    /// What runs ends; then both forget everything in bounded steps at once, and neither finds it any more.
    async fn end(mut self) {
        for handle in [0, 1] {
            for n in self
                .model
                .in_state(|it| matches!(it, State::Runs(by, _) if *by == handle))
            {
                let ending = answered(b"{}", CENTS);
                let settled = self.handles[handle].settle_by(owner(handle), "acme", n, ending);
                assert_eq!(settled.await, Settled::Now);
                self.charged += CENTS;
                self.request_mut(n).state = State::Over(None);
            }
        }
        self.look().await;
        for stores in &self.handles {
            let page = stores.usage.page(&UsageQuery::default(), None, 1_000).await;
            assert_eq!(page.expect("the store answers").len(), self.records);
        }
        let later = at(10 * 24 * 3_600);
        let expire = async |handle: usize| {
            let retention = &self.handles[handle].retention;
            while retention
                .expire(later, later, 7)
                .await
                .expect("the store answers")
                > 0
            {}
        };
        join(expire(0), expire(1)).await;
        for stores in &self.handles {
            let page = stores.usage.page(&UsageQuery::default(), None, 1_000).await;
            assert_eq!(page.expect("the store answers"), []);
            for result in self.model.results.keys() {
                assert_eq!(stores.results(result.generation.0.as_u128()).await, []);
            }
        }
    }
}
