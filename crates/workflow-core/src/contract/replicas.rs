//! Two replicas over one store: what both of them do, in an order that a seed decides, beside a model of what is true.
//!
//! After each step the model knows every job as it is kept, and each replica must read it so. Some steps are made by both
//! replicas at once; then the answers tell which of them was first, and some order of the two explains both.

mod model;

use std::collections::HashMap;

use accounts::contract::{Dice, either};
use futures_util::future::join;

use super::*;
use crate::{LeaseNews, QueueDepth};
use model::{Known, Model, other_set};

/// How many histories run, and how many steps each of them has.
const SEEDS: u64 = 16;
const STEPS: usize = 150;

/// How long a claim counts without being renewed, in seconds.
const LEASE: i64 = 30;

/// How many seconds a job may wait.
const QUEUE_LIMIT: i64 = 150;

/// How many jobs of an account may wait.
const BOUND: u32 = 5;

/// Runs histories of two replicas, each on the two handles of a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn() -> [Stores; 2]) {
    for seed in 1..=SEEDS {
        let handles = fresh();
        let mut inputs = HashMap::new();
        for (n, name) in (1..).zip(["a", "b"]) {
            inputs.insert(account(name), upload(&handles[0], n, name).await);
        }
        let mut history = History {
            handles,
            dice: Dice::new(seed),
            now: 0,
            next: 1,
            inputs,
            seen: HashMap::new(),
            model: Model::default(),
        };
        for _ in 0..STEPS {
            history.step().await;
        }
        history.end().await;
    }
}

struct History {
    handles: [Stores; 2],
    dice: Dice,
    now: i64,
    /// The number of the next job.
    next: u128,
    /// A file of each account.
    inputs: HashMap<AccountId, AssetId>,
    /// A job as a replica once read it, perhaps long ago.
    seen: HashMap<(usize, u128), Arc<Job>>,
    model: Model,
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(16) {
            0 | 1 => self.submit(handle).await,
            2 => self.submit_at_once().await,
            3 | 4 => self.claim(handle).await,
            5 => self.claim_at_once().await,
            6 | 7 => self.save(handle).await,
            8 => self.save_at_once().await,
            9 => self.commit_at_once().await,
            10 => self.put_off(handle).await,
            11 => self.renew(handle).await,
            12 => self.reap_at_once().await,
            13 => self.expire(handle).await,
            14 => self.remove_input(handle).await,
            _ => self.now += i64::try_from(self.dice.roll(25)).expect("few"),
        }
        self.look().await;
    }

    fn now(&self) -> Timestamp {
        at(self.now)
    }

    /// A submission: perhaps with a key, an input, or other needs.
    fn submission(&mut self, key: Option<u8>) -> InsertJob {
        let (n, name) = (self.next, ["a", "b"][self.dice.roll(2)]);
        self.next += 1;
        let mut insert = insert_of(n, name);
        insert.job.created_at = self.now();
        insert.job.updated_at = self.now();
        insert.job.retention = SignedDuration::from_secs(100);
        insert.job.expires_at = at(self.now + 100);
        insert.bounds.account = BOUND;
        if self.dice.roll(3) == 0 {
            insert.inputs = vec![self.inputs[&insert.job.account]];
        }
        if self.dice.roll(4) == 0 {
            insert.body.placement.requirements = other_set();
        }
        match key {
            Some(key) => keyed(insert, key, u8::from(self.dice.roll(4) == 0)),
            None => insert,
        }
    }

    fn key(&mut self) -> u8 {
        u8::try_from(self.dice.roll(3)).expect("few")
    }

    async fn insert(&self, handle: usize, insert: InsertJob) -> InsertJobOutcome {
        let inserted = self.handles[handle].jobs.insert(insert, self.now()).await;
        inserted.expect("the store answers")
    }

    async fn submit(&mut self, handle: usize) {
        let key = (self.dice.roll(2) == 0).then(|| self.key());
        let insert = self.submission(key);
        let outcome = self.insert(handle, insert.clone()).await;
        assert_eq!(outcome, self.model.insert(insert, self.now()));
    }

    /// Two submissions of one account with one key, perhaps with one request: one of them at most is taken in, so that the answers
    /// tell which was first.
    async fn submit_at_once(&mut self) {
        let key = self.key();
        let mut asked = [self.submission(Some(key)), self.submission(Some(key))];
        let account = asked[0].job.account.clone();
        asked[1].job.account = account;
        asked[1].inputs.clear();
        let [first, second] = asked.clone();
        let answers = join(self.insert(0, first), self.insert(1, second)).await;
        let now = self.now();
        either(
            &mut self.model,
            |model, handle| model.insert(asked[handle].clone(), now),
            &answers,
        );
    }

    fn request(handle: usize) -> ClaimRequest {
        let mut request = request(worker_of(handle));
        if handle == 1 {
            // The other worker can run less.
            request.sets.insert(other_set().id());
        }
        request
    }

    async fn claim_by(&self, handle: usize, request: &ClaimRequest) -> Option<Arc<Job>> {
        let claimed = self.handles[handle].queue.claim(request, self.now()).await;
        let claimed = claimed.expect("the queue answers")?;
        let n = claimed.job.id.0.as_u128();
        assert_eq!(claimed.body.workflow, format!("{{\"{n}\": {{}}}}"));
        Some(claimed.job)
    }

    async fn claim(&mut self, handle: usize) {
        let request = Self::request(handle);
        let claimed = self.claim_by(handle, &request).await;
        let now = self.now();
        assert_eq!(claimed, self.model.claim(&request, now));
        self.remember(handle, claimed);
    }

    /// Two workers that can run the same: whoever has the job whose turn it was came first.
    async fn claim_at_once(&mut self) {
        let requests = [0, 1].map(|handle| ClaimRequest {
            sets: Self::request(1).sets,
            ..Self::request(handle)
        });
        let [first, second] = &requests;
        let answers = join(self.claim_by(0, first), self.claim_by(1, second)).await;
        let now = self.now();
        let (first, second) = answers.clone();
        either(
            &mut self.model,
            |model, handle| model.claim(&requests[handle], now),
            &answers,
        );
        self.remember(0, first);
        self.remember(1, second);
    }

    fn remember(&mut self, handle: usize, job: Option<Arc<Job>>) {
        if let Some(job) = job {
            self.seen.insert((handle, job.id.0.as_u128()), job);
        }
    }

    /// A job as a replica has it: as it is, or as it was when the replica last read it.
    async fn some_job(&mut self, handle: usize) -> Option<Arc<Job>> {
        let all: Vec<u128> = self.model.jobs.keys().copied().collect();
        // The newest ones: most of the others have ended.
        let n = self.dice.pick(&all[all.len().saturating_sub(8)..])?;
        if self.dice.roll(3) == 0
            && let Some(old) = self.seen.get(&(handle, n))
        {
            return Some(Arc::clone(old));
        }
        let job = Arc::clone(&self.model.jobs[&n].job);
        let loaded = load(&self.handles[handle], &job, self.now()).await;
        self.remember(handle, loaded.clone());
        loaded
    }

    fn event(&mut self, job: &Job) -> JobEvent {
        let epoch = job.epoch;
        match self.dice.roll(6) {
            0 => JobEvent::CancelRequested,
            1 => JobEvent::Finished { epoch },
            2 => JobEvent::Stopped { epoch },
            3 => JobEvent::GivenBack { epoch },
            _ => advanced(job),
        }
    }

    /// A save of what an event makes of a job, if it fits, with perhaps an output of that number.
    fn save_of(&self, job: &Job, event: JobEvent, output: Option<u32>) -> Option<SaveJob> {
        let mut next = job.clone();
        let is_cancel = event == JobEvent::CancelRequested;
        next.apply(event, self.now()).ok()?;
        if is_cancel && next.status == job.status {
            // A cancel that came too late changes nothing and is not saved.
            return None;
        }
        let outputs = output.map(|index| {
            let asset = next.id.0.as_u128() * 1_000 + u128::from(index);
            picture("9", index, 10_000_000 + asset)
        });
        Some(SaveJob {
            outputs: outputs.into_iter().collect(),
            job: next,
            log: None,
            durability: Durability::Now,
            reports: Vec::new(),
        })
    }

    async fn save_by(&self, handle: usize, save: SaveJob) -> SaveOutcome {
        let saved = self.handles[handle].jobs.save(save).await;
        saved.expect("the store answers")
    }

    async fn save(&mut self, handle: usize) {
        let Some(job) = self.some_job(handle).await else {
            return;
        };
        let event = self.event(&job);
        let output = (self.dice.roll(2) == 0 && job.worker.is_some()).then_some(0);
        let Some(save) = self.save_of(&job, event, output) else {
            return;
        };
        let outcome = self.save_by(handle, save.clone()).await;
        assert_eq!(outcome, self.model.save(save));
    }

    /// Both saw a job, and each lets something else happen to it.
    async fn save_at_once(&mut self) {
        let Some(job) = self.some_job(0).await else {
            return;
        };
        let events = [self.event(&job), self.event(&job)];
        let [one, other] = events.map(|event| self.save_of(&job, event, None));
        let (Some(one), Some(other)) = (one, other) else {
            return;
        };
        let answers = join(self.save_by(0, one.clone()), self.save_by(1, other.clone())).await;
        let saves = [one, other];
        either(
            &mut self.model,
            |model, handle| model.save(saves[handle].clone()),
            &answers,
        );
    }

    /// Two jobs commit an output each, under names that are counted together if their account is the same.
    async fn commit_at_once(&mut self) {
        let running = self.model.jobs.values();
        let running: Vec<Arc<Job>> = running
            .map(|known| Arc::clone(&known.job))
            .filter(|job| job.status == JobStatus::Running)
            .collect();
        let [one, .., other] = &running[..] else {
            return;
        };
        let index = u32::try_from(self.dice.roll(3)).expect("few");
        let saves = [one, other].map(|job| {
            let save = self.save_of(job, advanced(job), Some(index));
            save.expect("it runs")
        });
        let [first, second] = saves.clone();
        let answers = join(self.save_by(0, first), self.save_by(1, second)).await;
        either(
            &mut self.model,
            |model, handle| model.save(saves[handle].clone()),
            &answers,
        );
    }

    /// A run saves an output that may wait for its next save, and the other replica meets it.
    async fn put_off(&mut self, handle: usize) {
        let is_running = |known: &&Known| known.job.status == JobStatus::Running;
        let running = self.model.jobs.values().find(is_running);
        let Some(job) = running.map(|known| Arc::clone(&known.job)) else {
            return;
        };
        let save = self.save_of(&job, advanced(&job), Some(7));
        let save = SaveJob {
            durability: Durability::WithNext,
            reports: Vec::new(),
            ..save.expect("it runs")
        };
        let outcome = self.save_by(handle, save.clone()).await;
        assert_eq!(outcome, self.model.save(save));
        let late = self.save_of(&job, JobEvent::CancelRequested, None);
        let late = self.save_by(1 - handle, late.expect("it runs")).await;
        assert_eq!(late, SaveOutcome::Conflict, "and the next load finds it");
    }

    async fn renew(&mut self, handle: usize) {
        let claims = self.model.jobs.values();
        let claims = claims.map(|known| (known.job.id, known.job.epoch));
        let claims: Vec<(JobId, Epoch)> = claims.collect();
        let (worker, lease) = (worker(worker_of(handle)), Duration::from_secs(LEASE as u64));
        let queue = &self.handles[handle].queue;
        let news = queue.renew(worker, &claims, lease, self.now()).await;
        let news: Vec<LeaseNews> = news.expect("the queue answers");
        let until = at(self.now + LEASE);
        assert_eq!(news, self.model.renew(worker, &claims, until));
    }

    /// What is overdue happens once, whoever looks.
    async fn reap_at_once(&mut self) {
        let (now, queued_before) = (self.now(), at(self.now - QUEUE_LIMIT));
        let reap = async |handle: usize| {
            let reaped = self.handles[handle].queue.reap(queued_before, now).await;
            reaped.expect("the queue answers")
        };
        let (mut reaped, others) = join(reap(0), reap(1)).await;
        reaped.extend(others);
        let once = self.model.reap(queued_before, now);
        // A job that the one queued again may have waited too long for the other.
        let again = self.model.clone().reap(queued_before, now);
        for job in &once {
            assert!(reaped.contains(job), "{job:?} is overdue");
        }
        reaped.retain(|job| !once.contains(job));
        for job in reaped {
            assert!(again.contains(&job), "{job:?} is not overdue");
            self.model.keep(job);
        }
    }

    async fn expire(&mut self, handle: usize) {
        let now = self.now();
        let expired = self.handles[handle].jobs.expire(now, 1_000).await;
        let before = self.model.jobs.len();
        self.model
            .jobs
            .retain(|_, known| !known.job.is_expired(now));
        let gone = before - self.model.jobs.len();
        assert_eq!(expired.expect("the store answers"), gone);
    }

    /// A file that a job needs which is not over stays, whichever replica took the job in.
    async fn remove_input(&mut self, handle: usize) {
        for (account, input) in &self.inputs {
            if self.model.holds(*input) {
                let records = &self.handles[handle].records;
                let removed = records.remove(account, *input, self.now()).await;
                assert_eq!(
                    removed.expect("the store answers"),
                    asset_store::Removal::Held
                );
            }
        }
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        let (now, depth) = (self.now(), self.model.depth());
        let mut positions: [Vec<Option<u64>>; 2] = Default::default();
        for (handle, stores) in self.handles.iter().enumerate() {
            for known in self.model.jobs.values() {
                let job = &known.job;
                let loaded = load(stores, job, now).await;
                let expected = (!job.is_expired(now)).then(|| Arc::clone(job));
                assert_eq!(loaded, expected);
                let position = stores.queue.position(&job.account, job.id).await;
                let position = position.expect("the queue answers");
                assert_eq!(position.is_some(), job.status == JobStatus::Queued);
                positions[handle].push(position);
            }
            let counted: QueueDepth = stores.queue.depth().await.expect("an answer");
            assert_eq!(counted, depth);
            let demand = stores.queue.demand(now).await.expect("an answer");
            let sets: HashSet<_> = demand.sets.iter().map(RequirementSet::id).collect();
            assert_eq!(sets, self.model.waiting_sets());
            assert_eq!(*demand.workers, self.model.present(now));
        }
        assert_eq!(positions[0], positions[1]);
    }

    /// Whatever still runs or waits ends once its time is over.
    async fn end(mut self) {
        self.now += 2 * QUEUE_LIMIT;
        self.reap_at_once().await;
        self.reap_at_once().await;
        self.look().await;
        let running = self.model.depth().running;
        assert_eq!(running, 0);
        self.now += 1_000;
        self.reap_at_once().await;
        self.now += 1_000;
        self.expire(0).await;
        self.look().await;
        assert_eq!(self.model.jobs.len(), 0);
    }
}

/// The number of the worker of a replica.
fn worker_of(handle: usize) -> u128 {
    handle as u128 + 1
}
