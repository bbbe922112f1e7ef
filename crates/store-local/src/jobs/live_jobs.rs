//! What is known of jobs without asking the database: the live ones, the line-up, and those that ended lately.
//!
//! Operations of the writing thread decide by the newest state and change it as they go, for several of them may share a
//! commit; readers are told only what is committed. What is not committed after all is taken back.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::AccountId;
use jiff::Timestamp;
use workflow_core::{
    ClaimRequest, Demand, Epoch, FairQueue, Job, JobBody, JobEvent, JobId, JobQuery, JobStatus,
    LeaseNews, PresentWorkers, QueueDepth, QueuedAs, RequirementId, WaitingJobs, WorkerId,
};

use crate::webhooks::Hooks;

/// How many jobs that ended are kept at hand, at least; at most twice as many.
const RECENT: usize = 2048;

/// How many outputs the jobs of one generation of them have: some 400 bytes each, and a job may have thousands.
const RECENT_OUTPUTS: usize = 32_768;

/// How many bytes of bodies are kept at hand for the workers that will ask for them.
const BODY_BYTES: usize = 16 << 20;

/// The live jobs of a store, and who wants to hear of jobs. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct SharedLiveJobs {
    live_jobs: Arc<Mutex<LiveJobs>>,
    pub(crate) hooks: Hooks,
}

#[derive(Default)]
pub(crate) struct LiveJobs {
    live: HashMap<JobId, Live>,
    fair_queue: FairQueue,
    workers: PresentWorkers,
    recent: Recent,
    body_bytes: usize,
    /// Whether a job was added without its body since the queue was empty.
    lacks_bodies: bool,
}

/// A job that is not over.
pub(crate) struct Live {
    /// As operations left it.
    pub(crate) newest: Arc<Job>,
    /// As it is on disk or on its way there: what readers are told. `None` until it is inserted for good.
    pub(crate) committed: Option<Arc<Job>>,
    /// Its place in the queue; the number of its submission is that of its row.
    pub(crate) queued: QueuedAs,
    /// Most bytes that its account may have stored.
    pub(crate) stored_bytes: Option<u64>,
    /// What lies beside it, while there is room for it here.
    pub(crate) body: Option<Arc<JobBody>>,
    /// Until when its claim counts; of no meaning while it is queued.
    pub(crate) lease_until: Timestamp,
    /// What `newest` has and the rows have not.
    pub(crate) deferred: DeferredSave,
}

/// Saves that go into the rows with the next one of their job.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeferredSave {
    /// How many.
    pub(crate) saves: u64,
    /// The outputs among them, by their place in the job.
    pub(crate) outputs: Range<usize>,
}

/// Jobs that are over: of two generations the older one goes when the younger is full.
#[derive(Default)]
struct Recent {
    /// Outputs of the young ones, those of jobs that went since included.
    outputs: usize,
    young: HashMap<JobId, Arc<Job>>,
    old: HashMap<JobId, Arc<Job>>,
}

impl SharedLiveJobs {
    pub(crate) fn new(live_jobs: LiveJobs, hooks: Hooks) -> Self {
        Self {
            live_jobs: Arc::new(Mutex::new(live_jobs)),
            hooks,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LiveJobs> {
        // A panic of an operation is followed by its undoing, which puts the live jobs in order.
        self.live_jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveJobs {
    /// A job as readers may see it.
    pub(crate) fn committed(&mut self, id: JobId) -> Option<Arc<Job>> {
        match self.live.get(&id) {
            Some(live) => live.committed.clone(),
            None => self.recent.get(id),
        }
    }

    /// A list of jobs that are not over, newest first, as readers may see them.
    pub(crate) fn in_flight(&self, query: &JobQuery, now: Timestamp) -> Vec<Arc<Job>> {
        let live = self.live.values();
        let live = live.filter_map(|live| live.committed.as_ref());
        let mut jobs: Vec<Arc<Job>> = live.filter(|job| query.fits(job, now)).cloned().collect();
        query.arrange(&mut jobs);
        jobs
    }

    /// A live job as operations left it.
    pub(crate) fn newest(&self, id: JobId) -> Option<&Arc<Job>> {
        self.live.get(&id).map(|live| &live.newest)
    }

    /// Hands over a job's body, where it is at hand: it is asked for when the job is claimed, and rarely again.
    pub(crate) fn take_body(&mut self, id: JobId) -> Option<Arc<JobBody>> {
        let body = self.live.get_mut(&id)?.body.take()?;
        self.body_bytes -= size_of_body(&body);
        Some(body)
    }

    /// Whether a claim may have to read a body from the rows, which may be long.
    pub(crate) fn lacks_bodies(&self) -> bool {
        self.lacks_bodies
    }

    /// Adds a live job.
    pub(crate) fn add(&mut self, mut live: Live) {
        let bytes = live.body.as_deref().map_or(0, size_of_body);
        if self.body_bytes + bytes > BODY_BYTES {
            live.body = None;
        } else {
            self.body_bytes += bytes;
        }
        self.lacks_bodies &= self.depth().queued > 0;
        self.lacks_bodies |= live.body.is_none();
        self.fair_queue.note(None, &live.newest, &live.queued);
        self.live.insert(live.newest.id, live);
    }

    /// Takes back an [`LiveJobs::add`] that was not committed.
    pub(crate) fn take_back(&mut self, id: JobId) {
        if let Some(live) = self.remove(id) {
            let mut gone = Job::clone(&live.newest);
            gone.status = JobStatus::Expired;
            self.fair_queue
                .note(Some(live.newest.status), &gone, &live.queued);
        }
    }

    /// Takes note of a live job's newest state, and what of it is put off; answers those before.
    pub(crate) fn stage(
        &mut self,
        job: Arc<Job>,
        deferred: DeferredSave,
    ) -> Option<(Arc<Job>, DeferredSave)> {
        let live = self.live.get_mut(&job.id)?;
        let before = mem::replace(&mut live.newest, job);
        let deferred = mem::replace(&mut live.deferred, deferred);
        self.fair_queue
            .note(Some(before.status), &live.newest, &live.queued);
        Some((before, deferred))
    }

    /// What the rows lack of a live job's newest state.
    pub(crate) fn deferred(&self, id: JobId) -> DeferredSave {
        self.live
            .get(&id)
            .map(|live| live.deferred.clone())
            .unwrap_or_default()
    }

    /// Lets readers see a state, once it is committed.
    pub(crate) fn publish(&mut self, job: Arc<Job>) {
        if job.status.is_terminal() {
            self.remove(job.id);
            self.recent.put(job);
        } else if let Some(live) = self.live.get_mut(&job.id) {
            live.committed = Some(job);
        }
    }

    /// Keeps a job that is over at hand, because a client asked for it.
    pub(crate) fn remember(&mut self, job: Arc<Job>) {
        self.recent.put(job);
    }

    /// Forgets jobs that are deleted.
    pub(crate) fn forget(&mut self, ids: &[JobId]) {
        for id in ids {
            self.recent.remove(*id);
        }
    }

    /// The next number of the sequence that submissions and claims share.
    pub(crate) fn number(&mut self) -> u64 {
        self.fair_queue.number()
    }

    /// Continues the sequence behind this number.
    pub(crate) fn continue_after(&mut self, number: u64) {
        self.fair_queue.continue_after(number);
    }

    /// Takes over the number of an account's last claim.
    pub(crate) fn note_claim(&mut self, account: &AccountId, claim: u64) {
        self.fair_queue.note_claim(account, claim);
    }

    /// What waits, and who is there.
    pub(crate) fn demand(&mut self, now: Timestamp) -> Demand {
        Demand {
            sets: self.fair_queue.sets(),
            workers: Arc::new(self.workers.now(now)),
        }
    }

    /// The jobs of these sets that wait, and that their accounts have room for.
    pub(crate) fn waiting(&self, sets: &HashSet<RequirementId>) -> WaitingJobs {
        let (jobs, oldest) = self.fair_queue.waiting(sets);
        let oldest = oldest.and_then(|id| self.newest(id));
        WaitingJobs {
            jobs,
            oldest: oldest.map(|job| job.created_at),
        }
    }

    /// The next job that the worker can run, and the number of its claim; its account's turn is then over.
    pub(crate) fn next(&mut self, request: &ClaimRequest) -> Option<(Arc<Job>, u64)> {
        let next = self.fair_queue.next(&request.sets, &request.rooms)?;
        Some((self.newest(next.job).cloned()?, next.claim))
    }

    /// Takes note that a worker is there until then.
    pub(crate) fn present(&mut self, worker: WorkerId, until: Timestamp) {
        self.workers.note(worker, until);
    }

    /// Begins or renews a claim.
    pub(crate) fn lease(&mut self, id: JobId, until: Timestamp) {
        if let Some(live) = self.live.get_mut(&id) {
            live.lease_until = until;
        }
    }

    /// Renews a claim if it counts.
    pub(crate) fn renew(
        &mut self,
        worker: WorkerId,
        id: JobId,
        epoch: Epoch,
        until: Timestamp,
    ) -> LeaseNews {
        let live = self.live.get_mut(&id);
        let news = LeaseNews::of(live.as_ref().map(|live| &*live.newest), worker, epoch);
        if let Some(live) = live.filter(|_| news != LeaseNews::Lost) {
            live.lease_until = until;
        }
        news
    }

    /// The live jobs for which `event` finds one, by their newest state and the end of their claim; oldest first.
    pub(crate) fn pick(
        &self,
        event: impl Fn(&Job, Timestamp) -> Option<JobEvent>,
    ) -> Vec<(Arc<Job>, JobEvent)> {
        let mut live: Vec<&Live> = self.live.values().collect();
        live.sort_unstable_by_key(|live| live.queued.order);
        let picked = live.into_iter().filter_map(|live| {
            let event = event(&live.newest, live.lease_until)?;
            Some((Arc::clone(&live.newest), event))
        });
        picked.collect()
    }

    /// Queued jobs of an account, and of all.
    pub(crate) fn queued(&self, account: &AccountId) -> (usize, u64) {
        (
            self.fair_queue.queued(account),
            self.fair_queue.depth().queued,
        )
    }

    pub(crate) fn position(&self, account: &AccountId, id: JobId) -> Option<u64> {
        let live = self.live.get(&id)?;
        let mine = live.newest.account == *account;
        mine.then(|| self.fair_queue.position(account, live.queued.order))?
    }

    pub(crate) fn depth(&self) -> QueueDepth {
        self.fair_queue.depth()
    }

    /// Most bytes that the account of a live job may have stored, if there is a bound, and those of its outputs that are in no
    /// row yet.
    pub(crate) fn stored_bound(&self, id: JobId) -> Option<(u64, u64)> {
        let live = self.live.get(&id)?;
        let deferred = live.newest.outputs.get(live.deferred.outputs.clone());
        let outputs = deferred.unwrap_or_default().iter();
        let put_off_bytes = outputs.map(|output| output.size_bytes).sum();
        Some((live.stored_bytes?, put_off_bytes))
    }

    /// A job's number, where it is live.
    pub(crate) fn seq(&self, id: JobId) -> Option<i64> {
        self.live
            .get(&id)
            .map(|live| live.queued.order.cast_signed())
    }

    fn remove(&mut self, id: JobId) -> Option<Live> {
        let live = self.live.remove(&id)?;
        self.body_bytes -= live.body.as_deref().map_or(0, size_of_body);
        Some(live)
    }
}

impl Recent {
    fn get(&mut self, id: JobId) -> Option<Arc<Job>> {
        if let Some(job) = self.young.get(&id) {
            return Some(Arc::clone(job));
        }
        // Asked for again, it stays.
        let job = self.old.remove(&id)?;
        self.put(Arc::clone(&job));
        Some(job)
    }

    fn put(&mut self, job: Arc<Job>) {
        if self.young.len() >= RECENT || self.outputs >= RECENT_OUTPUTS {
            self.old = mem::take(&mut self.young);
            self.outputs = 0;
        }
        self.outputs += job.outputs.len();
        self.young.insert(job.id, job);
    }

    fn remove(&mut self, id: JobId) {
        self.young.remove(&id);
        self.old.remove(&id);
    }
}

fn size_of_body(body: &JobBody) -> usize {
    body.workflow.len() + body.origin.len()
}
