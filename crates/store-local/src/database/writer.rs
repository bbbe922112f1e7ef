//! The thread that writes: it takes what is waiting, commits it, then tells everybody.
//!
//! It waits for nobody where few write, so a lone write is as fast as the disk. Where many do, a commit costs more than
//! all that it commits, so the thread lets a group gather before it takes it. A group in which nobody needs the disk is
//! committed without waiting for it. Where the disk is faster than waking a thread, a lone write is committed by whoever asks
//! for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use accounts::AccountId;
use tokio::sync::oneshot;

use super::DatabaseError;
use super::committer::{Asked, Committer};
use super::operation::{Durability, Operation, Task, Write};
use super::pace::{CROWD, IN_PLACE, gathering};
use super::places::{Places, QUEUE, QueuePlace};
use super::transaction::Transaction;

/// How many operations share a commit: enough to hide the disk, few enough to keep the first of them from waiting long.
const GROUP: usize = 64;

pub(super) struct Writer {
    /// Taken away to let the thread end.
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    places: Places,
    shared: Arc<Shared>,
}

/// What the thread shares with those who commit in its place.
struct Shared {
    committer: Mutex<Committer>,
    /// Operations in the queue.
    waiting: AtomicUsize,
    /// The size of the group that the thread took last.
    crowd: AtomicUsize,
    /// Whether the queue has a message that has the thread look.
    is_nudged: AtomicBool,
}

/// What came of asking for a write at once.
pub(super) enum WriteAttempt<T, F> {
    /// It is done.
    Now(Result<T, DatabaseError>),
    /// It is for the thread.
    Later(Task<T, F>),
}

/// What the thread will tell; it fails if the operation was given up.
type Answer<T> = oneshot::Receiver<Result<T, DatabaseError>>;

/// What the thread is told.
enum Message {
    /// To write this.
    Write(Queued),
    /// To look when a participant is due.
    Look,
}

struct Queued {
    how: Write,
    pending: Box<dyn Pending>,
    /// Free for the next caller once this is answered.
    _place: QueuePlace,
}

/// An operation with its waiting caller.
trait Pending: Send {
    fn operation(&mut self) -> &mut dyn Operation;

    /// Tells the caller, once the fate of the transaction is known.
    fn answer(self: Box<Self>, committed: Result<(), DatabaseError>);
}

struct Awaited<T, F> {
    task: Task<T, F>,
    caller: oneshot::Sender<Result<T, DatabaseError>>,
}

/// What the thread owns.
struct Thread {
    queue: Receiver<Message>,
    shared: Arc<Shared>,
}

impl Writer {
    pub(super) fn start(committer: Committer) -> Self {
        let (sender, queue) = mpsc::sync_channel(QUEUE + 1);
        let shared = Arc::new(Shared {
            committer: Mutex::new(committer),
            waiting: AtomicUsize::new(0),
            crowd: AtomicUsize::new(0),
            is_nudged: AtomicBool::new(false),
        });
        let state = Thread {
            queue,
            shared: Arc::clone(&shared),
        };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || state.run())
            .expect("the system has room for one more thread");
        Self {
            queue: Some(sender),
            thread: Some(thread),
            places: Places::new(),
            shared,
        }
    }

    /// Commits an operation at once, if that is quick.
    pub(super) fn write_at_once<T, F>(&self, how: Write, operation: F) -> WriteAttempt<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let mut task = Task::new(operation);
        let Some(mut committer) = self.idle(how) else {
            return WriteAttempt::Later(task);
        };
        let asked = Asked {
            how,
            operation: &mut task,
        };
        let committed = committer.commit(&mut [asked]);
        let is_log_long = committer.is_log_long();
        drop(committer);
        if is_log_long {
            self.nudge();
        }
        WriteAttempt::Now(task.answer(committed))
    }

    /// Puts an operation in the queue, as soon as there is a place for one of this account.
    pub(super) async fn write<T, F>(
        &self,
        account: Option<&AccountId>,
        how: Write,
        task: Task<T, F>,
    ) -> Result<Answer<T>, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let place = self.places.take(account).await?;
        let (caller, answer) = oneshot::channel();
        let pending = Box::new(Awaited { task, caller });
        self.send(Queued {
            how,
            pending,
            _place: place,
        })?;
        Ok(answer)
    }

    /// Has the thread look when a participant is due.
    pub(super) fn nudge(&self) {
        if let Some(queue) = &self.queue {
            // One message is enough, and so one place beside those of the operations.
            if !self.shared.is_nudged.swap(true, Ordering::Relaxed) {
                let _ = queue.try_send(Message::Look);
            }
        }
    }

    /// Leaves nothing for the next start to bring in or look through, as far as it is committed now. Waits for the disk.
    pub(super) fn write_back(&self) {
        if let Ok(mut committer) = self.shared.committer.lock() {
            committer.end();
        }
    }

    /// What commits, if nobody else wants it and it need not wait for the disk.
    fn idle(&self, how: Write) -> Option<MutexGuard<'_, Committer>> {
        let shared = &self.shared;
        if !how.is_quick
            || shared.waiting.load(Ordering::Relaxed) > 0
            || shared.crowd.load(Ordering::Relaxed) >= CROWD
        {
            return None;
        }
        let committer = shared.committer.try_lock().ok()?;
        let is_fast = how.durability != Durability::Now || committer.wait() < IN_PLACE;
        is_fast.then_some(committer)
    }

    fn send(&self, queued: Queued) -> Result<(), DatabaseError> {
        let queue = self.queue.as_ref().ok_or(DatabaseError::Abandoned)?;
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        queue.try_send(Message::Write(queued)).map_err(|refused| {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            match refused {
                // A caller with a place finds room.
                TrySendError::Full(_) => DatabaseError::Busy,
                TrySendError::Disconnected(_) => DatabaseError::Abandoned,
            }
        })
    }

    /// Lets the thread finish what is queued and waits for it.
    pub(super) fn stop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            // The last handle may go with an effect, on the thread itself, which then ends by itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the writing thread of the store panicked");
        }
    }
}

impl Thread {
    fn run(self) {
        let mut before = 0;
        while let Some(group) = self.next_group(before) {
            // It looks after this group at whatever was noted until now.
            self.shared.is_nudged.store(false, Ordering::Relaxed);
            before = group.len();
            self.shared.waiting.fetch_sub(before, Ordering::Relaxed);
            self.shared.crowd.store(before, Ordering::Relaxed);
            let Ok(mut committer) = self.shared.committer.lock() else {
                // A panic in it is a defect, and leaves a transaction that nobody can trust.
                return;
            };
            self.commit(&mut committer, group);
            committer.do_chores();
        }
        if let Ok(mut committer) = self.shared.committer.lock() {
            committer.end();
        }
    }

    fn commit(&self, committer: &mut Committer, mut group: Vec<Queued>) {
        if group.is_empty() {
            return;
        }
        let asked = group.iter_mut().map(|queued| Asked {
            how: queued.how,
            operation: queued.pending.operation(),
        });
        let committed = committer.commit(&mut asked.collect::<Vec<_>>());
        for queued in group {
            queued.pending.answer(committed.clone());
        }
    }

    /// What is to be committed next, nothing when it is only time to look at the log; `None` once nobody can send any more.
    /// `before` is the size of the group before.
    fn next_group(&self, before: usize) -> Option<Vec<Queued>> {
        let first = match self.due() {
            None => self.queue.recv().ok()?,
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                match self.queue.recv_timeout(left) {
                    Ok(first) => first,
                    Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        };
        let Message::Write(first) = first else {
            return Some(Vec::new());
        };
        let mut group = vec![first];
        if let Some(gathering) = gathering(before) {
            // Away from the queue: there, every write that comes would wake this thread to add itself.
            thread::park_timeout(gathering);
        }
        let others = self.queue.try_iter().take(GROUP - 1);
        group.extend(others.filter_map(|message| match message {
            Message::Write(queued) => Some(queued),
            // It is looked at after every group.
            Message::Look => None,
        }));
        Some(group)
    }

    /// When a participant is due.
    fn due(&self) -> Option<Instant> {
        self.shared.committer.lock().ok()?.due()
    }
}

impl<T, F> Pending for Awaited<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> rusqlite::Result<T> + Send,
{
    fn operation(&mut self) -> &mut dyn Operation {
        &mut self.task
    }

    fn answer(self: Box<Self>, committed: Result<(), DatabaseError>) {
        let Self { task, caller } = *self;
        // A caller that stopped waiting does not want to know.
        let _ = caller.send(task.answer(committed));
    }
}
