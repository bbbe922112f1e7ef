//! Simulated partners: one server that speaks the dialect of every partner of the catalog, misbehaves on demand and
//! remembers every byte that it was sent.
//!
//! Nothing in it waits for a clock. A task ends after a planned number of looks at it or when a test says so, and an
//! answer that stalls comes when a test releases it. Each partner lives under a path of its own, so that one address is
//! enough for all; relocate the partner's host to [`Partners::base_url`] to have it asked.

pub mod console;

mod desk;
mod documented;
mod fault;
mod jwt;
mod partner;
mod serve;
mod styles;
mod wire;

pub use desk::{Outcome, Plan};
pub use documented::{Call, Documented, Example, Means, Sheet, Stream, sheets};
pub use fault::Fault;
pub use partner::Partner;
pub use wire::{Incoming, Recorded, Reply, Step, read};

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use desk::Desk;
use fault::Faults;

/// How long a test waits for requests.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running server of partners. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Partners {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What the connections have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    address: SocketAddr,
    world: Mutex<World>,
    /// Rings when a request has been recorded.
    recorded: watch::Sender<usize>,
    /// Counts the releases of stalled answers.
    released: watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    desks: BTreeMap<Partner, Desk>,
    faults: Faults,
    requests: Vec<Recorded>,
}

impl Partners {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            address,
            world: Mutex::default(),
            recorded: watch::Sender::new(0),
            released: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stands here for `https://` and the host of the partner.
    #[must_use]
    pub fn base_url(&self, partner: Partner) -> String {
        self.shared.base_url(partner)
    }

    /// Every partner's host with the address that stands for it here.
    #[must_use]
    pub fn relocations(&self) -> Vec<(&'static str, String)> {
        Partner::all()
            .map(|partner| (partner.host(), self.base_url(partner)))
            .collect()
    }

    /// Says what becomes of the next task or synchronous call that has no plan yet.
    pub fn plan(&self, partner: Partner, plan: Plan) {
        self.desk(partner, |desk| desk.plans.push_back(plan));
    }

    /// Has every later success of the partner answer with these bytes, of this media type.
    pub fn answer_with(&self, partner: Partner, media_type: &str, body: impl Into<Vec<u8>>) {
        let content = (media_type.to_owned(), body.into());
        self.desk(partner, |desk| desk.content = Some(content));
    }

    /// Has every later success of the partner answer with the very bytes that its submission brought.
    pub fn echo(&self, partner: Partner) {
        self.desk(partner, |desk| desk.echoes = true);
    }

    /// Has the next request of this kind that has no fault yet go wrong.
    pub fn fault(&self, partner: Partner, step: Step, fault: Fault) {
        self.shared.world().faults.add(partner, step, fault);
    }

    /// Ends a running task.
    ///
    /// # Panics
    /// If the partner has no such task: the test is wrong.
    pub fn end(&self, partner: Partner, task: &str, outcome: Outcome) {
        self.desk(partner, |desk| desk.end(task, outcome));
    }

    /// Lets every answer that stalls now go on its way.
    pub fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }

    /// The tasks of a partner, in the order of their submission.
    #[must_use]
    pub fn tasks(&self, partner: Partner) -> Vec<String> {
        let mut tasks = Vec::new();
        self.desk(partner, |desk| tasks = desk.ids());
        tasks
    }

    /// Every request so far, in the order in which they were read.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.world().requests.clone()
    }

    /// Forgets every request and task so far, for tests that send very many.
    pub fn forget(&self) {
        let mut world = self.shared.world();
        world.requests.clear();
        world.desks.values_mut().for_each(Desk::forget);
    }

    /// The requests of one kind.
    #[must_use]
    pub fn requests_of(&self, partner: Partner, step: Step) -> Vec<Recorded> {
        let wanted = |request: &&Recorded| request.partner == Some(partner) && request.step == step;
        let world = self.shared.world();
        world.requests.iter().filter(wanted).cloned().collect()
    }

    /// Waits until so many requests of one kind have come, and answers them.
    ///
    /// # Panics
    /// If the server is gone, or they have not come in five minutes.
    pub async fn seen(&self, partner: Partner, step: Step, count: usize) -> Vec<Recorded> {
        let mut bell = self.shared.recorded.subscribe();
        let end = Instant::now() + PATIENCE;
        loop {
            bell.mark_unchanged();
            let requests = self.requests_of(partner, step);
            if requests.len() >= count {
                return requests;
            }
            let rung = timeout_at(end, bell.changed()).await;
            let rung = rung.unwrap_or_else(|_| {
                let came = requests.len();
                panic!("{partner:?} has {came} of {count} requests of {step:?}")
            });
            rung.expect("the server holds the bell");
        }
    }

    fn desk(&self, partner: Partner, change: impl FnOnce(&mut Desk)) {
        change(self.shared.world().desks.entry(partner).or_default());
    }
}

impl Drop for Partners {
    fn drop(&mut self) {
        // The connections end with the task that owns them.
        self.accepting.abort();
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test panics holding it")
    }

    fn base_url(&self, partner: Partner) -> String {
        format!("http://{}/{}", self.address, partner.prefix())
    }
}
