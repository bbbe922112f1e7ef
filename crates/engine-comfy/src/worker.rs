//! One worker: what is known of it, what it is doing, and the loops that find out.

mod card;
mod fitness;
mod listen;
mod loaded;
mod watch;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;

use crate::address::WorkerUrl;
use crate::breaker::Breaker;
use crate::client::WorkerClient;
use crate::definitions::{Definitions, version_number};
use crate::durations::Durations;
use crate::frames::{Heard, Said};
use crate::slots::WorkerSlots;

use card::{Card, Known};
pub(crate) use fitness::Able;
#[cfg(feature = "bench")]
pub(crate) use listen::{FEATURES, Socket, open as open_socket};
use loaded::LoadedFiles;

/// After this silence of socket and health a worker counts as lost, and its jobs with it.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);

/// After this silence of its health a worker gets no job.
const UNREACHABLE_AFTER: Duration = Duration::from_millis(1900);

/// Messages that may wait for a run that is busy with a file. More of them are dropped: the history tells the end.
const MOST_SIGNALS: usize = 4096;

/// Messages that may wait before pictures are dropped.
const MOST_PICTURES: usize = 16;

/// Names of staged files that are remembered; then all are forgotten, and staged again.
const MOST_STAGED: usize = 100_000;

/// How long a prompt that is nobody's is watched for, and how many of them.
const STRAY_TIME: Duration = Duration::from_secs(600);
const MOST_STRAYS: usize = 1024;

/// The first version that interrupts a prompt by its id.
const INTERRUPTS_BY_ID: [u32; 3] = [0, 3, 57];

/// Versions from this one on cancel a prompt by its id in one step, whether it waits or runs. 0.8.0 does not; none between was tried.
const CANCELS_BY_ID: [u32; 3] = [0, 25, 0];

/// The first version that takes the id of a prompt from its client. An older one names prompts itself: a job could not be found
/// there again.
const TAKES_PROMPT_IDS: [u32; 3] = [0, 3, 45];

/// How a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It was never heard of.
    Starting,
    /// It waits for a job.
    Ready,
    /// It has jobs.
    Busy,
    /// It does not answer.
    Unreachable,
    /// It gets no more jobs; those that it has go on.
    Draining,
    /// It is drained, and has no job any more.
    Stopped,
    /// It failed again and again, and is asked again after a pause; or it is too old.
    Failed,
}

impl WorkerState {
    /// Its name, as commands and metrics show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// What is sent to the run of a worker.
#[derive(Debug)]
pub(crate) enum Signal {
    /// The worker said something.
    Heard(Heard),
    /// The socket is open again: something may have been missed.
    Reconnected,
}

/// The run that hears a worker.
#[derive(Debug)]
struct Route {
    prompt: String,
    signals: mpsc::Sender<Signal>,
    /// Whether the prompt that the worker spoke of last is this one.
    speaks: bool,
}

/// A worker.
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) url: WorkerUrl,
    pub(crate) client: WorkerClient,
    /// Names our socket at the worker, which sends the messages of a prompt to the socket that submitted it.
    pub(crate) client_id: String,
    /// Whether what it has is kept in the pool's folder.
    pub(crate) keeps_definitions: bool,
    /// How many jobs it may have at once.
    pub(crate) slots: WorkerSlots,
    /// One for every job that it has.
    pub(crate) places: Arc<Semaphore>,
    /// The one that runs.
    pub(crate) compute: Arc<Semaphore>,
    shared: Mutex<Shared>,
    /// What of it a choice reads without its lock.
    card: Card,
    route: Mutex<Option<Route>>,
    /// Its health is to be looked at now.
    look: Notify,
    /// Its socket was opened.
    opened: Notify,
}

/// What is known of a worker.
#[derive(Debug)]
pub(crate) struct Shared {
    reach: Reach,
    since: Timestamp,
    why: String,
    draining: bool,
    pub(crate) definitions: Option<Arc<Definitions>>,
    alive_at: Instant,
    /// Whether it was asked once, with whatever result.
    tried: bool,
    /// Whether it was added while the server ran.
    added: bool,
    /// Whether it gave a prompt another id than it was asked to.
    names_prompts: bool,
    connected: bool,
    last_number: f64,
    staged: HashSet<String>,
    files: LoadedFiles,
    pub(crate) breaker: Breaker,
    strays: Vec<(String, Instant)>,
    pub(crate) counts: Counts,
}

/// Whether a worker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Never,
    Up,
    Down,
    /// It answers and cannot be used.
    TooOld,
}

/// What is counted of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) staged_bytes: u64,
    pub(crate) output_bytes: u64,
    /// How long it took to answer the questions for its health.
    pub(crate) answers: Durations,
    /// How long jobs had it for themselves, those that were lost apart.
    pub(crate) runs: Durations,
}

impl Worker {
    pub(crate) fn new(
        name: String,
        client: WorkerClient,
        client_id: String,
        url: WorkerUrl,
        slots: WorkerSlots,
    ) -> Self {
        Self {
            name,
            url,
            client,
            client_id,
            keeps_definitions: true,
            slots,
            places: Arc::new(Semaphore::new(slots.places())),
            compute: Arc::new(Semaphore::new(1)),
            shared: Mutex::new(Shared {
                reach: Reach::Never,
                since: Timestamp::now(),
                why: "it did not answer yet".to_owned(),
                draining: false,
                definitions: None,
                alive_at: Instant::now(),
                tried: false,
                added: false,
                names_prompts: false,
                connected: false,
                last_number: -1.0,
                staged: HashSet::new(),
                files: LoadedFiles::default(),
                breaker: Breaker::default(),
                strays: Vec::new(),
                counts: Counts::default(),
            }),
            card: Card::default(),
            route: Mutex::default(),
            look: Notify::new(),
            opened: Notify::new(),
        }
    }

    /// How many jobs it has.
    pub(crate) fn jobs(&self) -> usize {
        let places = self.slots.places();
        places - self.places.available_permits().min(places)
    }

    /// How it is, since when, and why in a sentence.
    pub(crate) fn state(&self) -> (WorkerState, Timestamp, String) {
        let jobs = self.jobs();
        let shared = self.shared();
        let (state, why) = match (shared.draining, shared.reach) {
            (true, _) if jobs == 0 => (WorkerState::Stopped, "an operator drained it".to_owned()),
            (true, _) => (WorkerState::Draining, "an operator drains it".to_owned()),
            (false, Reach::Never) => (WorkerState::Starting, shared.why.clone()),
            (false, Reach::Down) => (WorkerState::Unreachable, shared.why.clone()),
            (false, Reach::TooOld) => (WorkerState::Failed, shared.why.clone()),
            (false, Reach::Up) => match shared.breaker.open(Instant::now()) {
                Some(why) => (WorkerState::Failed, why.to_owned()),
                None if jobs > 0 => (WorkerState::Busy, format!("it has {jobs} jobs")),
                None => (WorkerState::Ready, "it answers".to_owned()),
            },
        };
        (state, shared.since, why)
    }

    /// How long neither its health nor its socket was heard.
    pub(crate) fn silent_for(&self) -> Duration {
        self.shared().alive_at.elapsed()
    }

    /// Whether it never answered, or was away for longer than `time`.
    pub(crate) fn is_away_for(&self, time: Duration) -> bool {
        let shared = self.shared();
        match shared.reach {
            Reach::Up => false,
            Reach::Never => shared.definitions.is_none() || shared.alive_at.elapsed() > time,
            Reach::Down => shared.alive_at.elapsed() > time,
            Reach::TooOld => true,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        let shared = self.shared();
        shared.reach == Reach::Up && !shared.draining
    }

    /// Whether it answers, drained or not.
    pub(crate) fn answers(&self) -> bool {
        matches!(self.shared().reach, Reach::Up | Reach::TooOld)
    }

    /// Whether it was asked once since the start, and what it has is known if it answered.
    pub(crate) fn is_tried(&self) -> bool {
        self.shared().tried
    }

    /// It refused a connection: it gets no job until its health is seen.
    pub(crate) fn unreachable(&self) {
        let was_there = {
            let mut shared = self.shared();
            let was_there = shared.reach == Reach::Up;
            if was_there {
                shared.reach = Reach::Down;
                shared.since = Timestamp::now();
                "it refuses connections".clone_into(&mut shared.why);
            }
            was_there
        };
        if was_there {
            tracing::warn!(worker = self.name, "a worker refuses connections");
        }
        self.look.notify_one();
    }

    pub(crate) fn is_added(&self) -> bool {
        self.shared().added
    }

    pub(crate) fn set_added(&self) {
        self.shared().added = true;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared().draining
    }

    pub(crate) fn set_draining(&self, draining: bool) {
        let mut shared = self.shared();
        shared.draining = draining;
        shared.since = Timestamp::now();
    }

    /// Waits until its socket is open, not for ever.
    pub(crate) async fn connected(&self) {
        let opened = self.opened.notified();
        if !self.shared().connected {
            let _ = tokio::time::timeout(UNREACHABLE_AFTER, opened).await;
        }
    }

    /// Sends what the worker says of a prompt to a run from now on; one run at a time.
    pub(crate) fn route(&self, prompt: &str) -> mpsc::Receiver<Signal> {
        let (signals, receiver) = mpsc::channel(MOST_SIGNALS);
        let route = Route {
            prompt: prompt.to_owned(),
            signals,
            speaks: false,
        };
        *self.routes() = Some(route);
        receiver
    }

    /// Hands a message to the run that it concerns. What concerns none is passed over.
    fn hand_on(&self, heard: Heard) {
        let mut route = self.routes();
        let Some(route) = route.as_mut() else {
            return;
        };
        if let Some(prompt) = &heard.prompt {
            route.speaks = *prompt == route.prompt;
        }
        // Pictures are large: a run that is busy misses some. Results of SaveImageWebsocket are few.
        let is_picture = matches!(heard.said, Said::Picture(..));
        let waiting = MOST_SIGNALS - route.signals.capacity();
        if route.speaks && !(is_picture && waiting >= MOST_PICTURES) {
            // A run that cannot keep up learns the end from the history.
            let _ = route.signals.try_send(Signal::Heard(heard));
        }
    }

    /// Whether a file is at the worker, as far as is known.
    pub(crate) fn has_staged(&self, name: &str) -> bool {
        self.shared().staged.contains(name)
    }

    pub(crate) fn staged(&self, name: &str, bytes: u64) {
        let mut shared = self.shared();
        if shared.staged.len() >= MOST_STAGED {
            shared.staged.clear();
        }
        shared.staged.insert(name.to_owned());
        shared.counts.staged_bytes += bytes;
    }

    /// Its folder of inputs may be empty again.
    pub(crate) fn forget_staged(&self) {
        self.shared().staged.clear();
    }

    /// Takes down the number of a prompt; a number that begins again says that the worker was restarted.
    pub(crate) fn numbered(&self, number: f64) {
        let mut shared = self.shared();
        if number < shared.last_number {
            tracing::info!(worker = self.name, "the worker was restarted");
            shared.staged.clear();
            shared.files.unloaded();
        }
        shared.last_number = number;
    }

    /// It does not take the ids of prompts: it gets no job until it is another version.
    pub(crate) fn names_prompts(&self) {
        let mut shared = self.shared();
        shared.names_prompts = true;
        shared.too_old();
        tracing::warn!(
            worker = self.name,
            why = shared.why,
            "a worker cannot be used"
        );
    }

    pub(crate) fn failed(&self, why: &str) {
        tracing::warn!(worker = self.name, why, "a worker failed");
        self.shared().breaker.failed(why, Instant::now());
    }

    pub(crate) fn succeeded(&self) {
        let mut shared = self.shared();
        let was_closed = shared.breaker.is_closed();
        shared.breaker.succeeded();
        if !was_closed {
            tracing::info!(worker = self.name, "a worker takes jobs again");
        }
    }

    /// A prompt that may still appear there, and must not run.
    pub(crate) fn stray(&self, prompt: &str) {
        let mut shared = self.shared();
        if shared.strays.len() >= MOST_STRAYS {
            shared.strays.remove(0);
        }
        let until = Instant::now() + STRAY_TIME;
        shared.strays.push((prompt.to_owned(), until));
        drop(shared);
        self.look.notify_one();
    }

    /// A prompt that a run takes up again.
    pub(crate) fn not_stray(&self, prompt: &str) {
        self.shared().strays.retain(|(stray, _)| stray != prompt);
    }

    /// Whether its version interrupts a prompt by id.
    pub(crate) fn interrupts_by_id(&self) -> bool {
        self.is_since(INTERRUPTS_BY_ID)
    }

    /// Whether its version cancels a prompt by id.
    pub(crate) fn cancels_by_id(&self) -> bool {
        self.is_since(CANCELS_BY_ID)
    }

    fn is_since(&self, since: [u32; 3]) -> bool {
        let shared = self.shared();
        let version = shared
            .definitions
            .as_ref()
            .map(|definitions| version_number(&definitions.version));
        version.is_some_and(|version| version.as_slice() >= since.as_slice())
    }

    /// Its health is looked at at once.
    pub(crate) fn look_now(&self) {
        self.look.notify_one();
    }

    pub(crate) fn shared(&self) -> Known<'_> {
        // Every change is a few assignments that cannot panic half-way.
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Known::new(shared, &self.card)
    }

    fn routes(&self) -> MutexGuard<'_, Option<Route>> {
        self.route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Its definitions are of no use: no graph may count on its classes.
    fn too_old(&mut self) {
        if self.reach != Reach::TooOld {
            self.reach = Reach::TooOld;
            self.since = Timestamp::now();
        }
        let version = TAKES_PROMPT_IDS.map(|part| part.to_string()).join(".");
        self.why = format!("this ComfyUI names prompts itself; update it to {version} or newer");
        self.definitions = None;
    }
}

/// Whether a version takes the ids of prompts; one that is not said is believed to.
fn takes_prompt_ids(version: &str) -> bool {
    version.is_empty() || version_number(version).as_slice() >= TAKES_PROMPT_IDS.as_slice()
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
