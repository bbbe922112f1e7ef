//! Threads that nodes are called on, and what becomes of one whose call does not end.
//!
//! Nothing can end a thread from outside. A call that goes on for [`ABANDON_AFTER`] after its run ended is abandoned: another
//! thread takes the place of its own, so that the engine runs as many calls as before, and its own ends with it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};
use workflow_core::{JobId, NodeId, Shares, Taken};

use images::parallel;

/// How long a call may go on after its run ended: far longer than any node of this crate works between two looks at whether
/// to stop.
const ABANDON_AFTER: Duration = Duration::from_secs(5);

/// Calls that may be abandoned at a time. Each has a thread, and what its job may hold in memory.
const MAX_ABANDONED: usize = 16;

/// The stack of a thread.
const STACK_BYTES: usize = 8 << 20;

/// The threads.
pub(super) struct NodeThreads {
    shared: Arc<Shared>,
    /// One per thread: more calls under way would only wait for each other.
    shares: Shares,
    /// How many of them one account may have.
    of_account: usize,
}

struct Shared {
    state: Mutex<State>,
    has_work: Condvar,
    /// Where large pictures are worked on.
    pool: Arc<ThreadPool>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    is_closed: bool,
    abandoned: usize,
    /// Calls that would be abandoned if fewer were.
    stuck: Vec<Weak<Call>>,
}

/// Answers whether its thread goes on.
type Work = Box<dyn FnOnce(&Shared) -> bool + Send>;

/// A call on a thread, or on its way there.
pub(super) struct Call {
    job: JobId,
    node: NodeId,
    class: String,
    stage: Mutex<Stage>,
}

enum Stage {
    /// No thread has it yet.
    Queued(Taken),
    Running {
        _permit: Taken,
    },
    /// Its permit is another thread's.
    Abandoned,
    Over,
}

/// How many calls do not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// Calls that go on after their job ended, and whose threads were replaced.
    pub abandoned: usize,
    /// Calls that go on after their job ended, and whose threads were not replaced because too many were.
    pub stuck: usize,
}

impl NodeThreads {
    /// Starts `count` threads for the calls of one account, one more that is left to others, and `count` to work on large
    /// pictures.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .stack_size(STACK_BYTES)
            .thread_name(|index| format!("pixels-{index}"))
            .build()
            .map_err(io::Error::other)?;
        let threads = Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                has_work: Condvar::new(),
                pool: Arc::new(pool),
            }),
            shares: Shares::new(count + 1, count),
            of_account: count,
        };
        for _ in 0..=count {
            start_thread(&threads.shared)?;
        }
        Ok(threads)
    }

    /// What each account's calls may have of them.
    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// How many calls of one account run at a time.
    pub(super) fn count(&self) -> usize {
        self.of_account
    }

    /// Has work done that is the engine's own.
    pub(super) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.push(Box::new(|_| {
            work();
            true
        }));
    }

    /// Has a call made; `done` gets what it gave, when its permit is free again.
    pub(super) fn call<T: 'static>(
        &self,
        call: Arc<Call>,
        make: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        self.push(Box::new(move |shared| {
            call.begin();
            let made = make();
            let goes_on = call.end(shared);
            drop(call);
            done(made);
            goes_on
        }));
    }

    /// What becomes of calls that still run now that their run is over. It is to be a task of its own: nobody waits for it.
    pub(super) async fn outlived(self: Arc<Self>, calls: Vec<Weak<Call>>) {
        tokio::time::sleep(ABANDON_AFTER).await;
        for call in calls.iter().filter_map(Weak::upgrade) {
            self.abandon(&call);
        }
    }

    /// Calls that do not end.
    pub(super) fn overdue(&self) -> Overdue {
        let mut state = self.shared.state();
        state.stuck.retain(|call| call.strong_count() > 0);
        Overdue {
            abandoned: state.abandoned,
            stuck: state.stuck.len(),
        }
    }

    fn push(&self, work: Work) {
        self.shared.state().queue.push_back(work);
        self.shared.has_work.notify_one();
    }

    /// Puts another thread in the place of a call's, if the call still runs.
    fn abandon(&self, call: &Arc<Call>) {
        let mut state = self.shared.state();
        let mut stage = call.stage();
        if !matches!(*stage, Stage::Running { .. }) {
            return;
        }
        let (job, node, class) = (call.job, &call.node, &call.class);
        if state.abandoned == MAX_ABANDONED {
            state.stuck.retain(|call| call.strong_count() > 0);
            state.stuck.push(Arc::downgrade(call));
            tracing::error!(
                job.id = %job, node.id = %node, node.class = %class, stuck = state.stuck.len(), threads = self.count(),
                "a node still runs after its job ended, and keeps its thread because {MAX_ABANDONED} others do the same; \
                 restart the server"
            );
            return;
        }
        if let Err(error) = start_thread(&self.shared) {
            state.stuck.push(Arc::downgrade(call));
            tracing::error!(
                job.id = %job, node.id = %node, node.class = %class, %error,
                "a node still runs after its job ended, and no thread could be started in its place; restart the server"
            );
            return;
        }
        state.abandoned += 1;
        tracing::warn!(
            job.id = %job, node.id = %node, node.class = %class, abandoned = state.abandoned,
            "a node still runs after its job ended; another thread replaces its own"
        );
        *stage = Stage::Abandoned;
    }
}

impl Drop for NodeThreads {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.has_work.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next work; `None` when there will be none.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if let Some(work) = state.queue.pop_front() {
                return Some(work);
            }
            if state.is_closed {
                return None;
            }
            let woken = self.has_work.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Call {
    pub(super) fn new(job: JobId, node: NodeId, class: String, permit: Taken) -> Arc<Self> {
        Arc::new(Self {
            job,
            node,
            class,
            stage: Mutex::new(Stage::Queued(permit)),
        })
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        let mut stage = self.stage();
        *stage = match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Queued(permit) => Stage::Running { _permit: permit },
            // A call begins once.
            begun @ (Stage::Running { .. } | Stage::Abandoned | Stage::Over) => begun,
        };
    }

    /// Frees the permit; answers whether the thread goes on. That of an abandoned call ends, unless it can take the place of
    /// one that is stuck.
    fn end(&self, shared: &Shared) -> bool {
        let mut state = shared.state();
        match std::mem::replace(&mut *self.stage(), Stage::Over) {
            Stage::Queued(_) | Stage::Running { .. } | Stage::Over => return true,
            Stage::Abandoned => state.abandoned -= 1,
        }
        tracing::info!(
            job.id = %self.job, node.id = %self.node, node.class = %self.class, abandoned = state.abandoned,
            "a node that went on after its job has ended at last"
        );
        while let Some(stuck) = state.stuck.pop() {
            let Some(stuck) = stuck.upgrade() else {
                continue;
            };
            let mut stage = stuck.stage();
            if matches!(*stage, Stage::Running { .. }) {
                *stage = Stage::Abandoned;
                state.abandoned += 1;
                return true;
            }
        }
        false
    }
}

fn start_thread(shared: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let run = move || {
        parallel::use_pool(Arc::clone(&shared.pool));
        while let Some(work) = shared.next() {
            // Calls catch their own panics; this is for the engine's, which must not cost a thread either.
            let goes_on = catch_unwind(AssertUnwindSafe(|| work(&shared)));
            if goes_on.is_err() {
                tracing::error!("the engine panicked outside a node");
            }
            if matches!(goes_on, Ok(false)) {
                return;
            }
        }
    };
    let thread = thread::Builder::new()
        .name("engine".to_owned())
        .stack_size(STACK_BYTES);
    thread.spawn(run).map(drop)
}
