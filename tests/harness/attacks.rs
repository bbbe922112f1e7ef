//! Attacks of one account on a server that it shares with others, each in a file of its own, all of one shape: an attack
//! begins, is asked whether it holds still, and ends.
//!
//! An attack has lanes that strike at the same time, again and again. Whatever the server cuts, a lane takes anew at once;
//! a refusal that the documents name ends the lane, since the server has then set its bound. Anything else that comes back
//! is a fault of the server, and [`Running::still`] says so. No lane waits for a clock, but for uploads, which
//! trickle by one, and for jobs whose events are refused, which are looked at once a second.

mod bodies;
mod calls;
mod events;
mod graphs;
mod history;
mod json;
mod lane;
mod pictures;
mod queue;
mod regex;
mod sockets;
mod uploads;
mod wire;
mod zero_window;

pub use lane::Counts;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use lane::{End, Lane};

/// Far longer than an attack takes to begin on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// What is attacked, and as whom.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where the server listens.
    pub server: SocketAddr,
    /// An API key of the account that attacks. Its quotas of the router are so high that they stop no attack.
    pub key: String,
    /// An API key of an account whose billing is on and which has no credits.
    pub penniless: String,
    /// The largest body of JSON that the APIs of workflows take, in bytes.
    pub json_bytes: usize,
    /// Jobs of the account that the server runs at once.
    pub job_slots: usize,
}

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Jobs whose regular expressions backtrack without end, cancelled while they run.
    Regex,
    /// HTTP/2 streams of one file that let no byte of it be sent, half of them through a signed link.
    ZeroWindow,
    /// The largest bodies that are taken, which hold nothing but small numbers, to both APIs of workflows.
    Json,
    /// Large bodies whose last byte does not come, most of them calls of an account without credits.
    Bodies,
    /// The history and the queue of many large jobs, asked for again and again, by readers and by clients that do not read.
    History,
    /// Hundreds of uploads that trickle.
    Uploads,
    /// More event streams than an account may have.
    Events,
    /// Submissions of long jobs until the queue of the account is full.
    Queue,
    /// Hundreds of WebSockets.
    Sockets,
    /// Jobs with pictures up to and beyond the memory of a job.
    Pictures,
    /// More than a thousand calls of a model under keys, which the partner does not end.
    Calls,
}

/// What the lanes of an attack have in common.
#[async_trait]
trait Strike: Send + Sync {
    /// How many strike at the same time.
    fn lanes(&self) -> usize;

    /// Statuses, each with a word of its answer, with which the documents say that the server sets a bound here.
    fn refusals(&self) -> &'static [(u16, &'static str)];

    /// Statuses that the documents give to what is struck with, and after which a lane strikes again.
    fn answers(&self) -> &'static [u16];

    /// Takes what it needs of the queue of the account, right before its lanes strike.
    async fn occupy(&self) -> io::Result<()>;

    /// Strikes once, until the server has ended it.
    async fn strike(&self, lane: &Lane) -> io::Result<End>;
}

/// An attack that was begun. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    attack: Attack,
    lanes: JoinSet<()>,
    /// How many lanes there are.
    needed: usize,
    counts: watch::Receiver<Counts>,
}

impl Attack {
    /// All of them, in an order in which none keeps those after it from beginning.
    pub const ALL: &'static [Self] = &[
        // The first two need a slot, which the long jobs of the others leave to nobody of the account.
        Self::Regex,
        Self::Pictures,
        // It submits large jobs, which later compete with other large bodies.
        Self::History,
        Self::ZeroWindow,
        Self::Json,
        Self::Bodies,
        Self::Uploads,
        // Sockets and streams of events have one bound together, and these would leave nothing to the sockets.
        Self::Sockets,
        Self::Events,
        Self::Calls,
        // The last, since no job of the others would find a place in the queue any more.
        Self::Queue,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Regex => "regex",
            Self::ZeroWindow => "zero-window",
            Self::Json => "json",
            Self::Bodies => "bodies",
            Self::History => "history",
            Self::Uploads => "uploads",
            Self::Events => "events",
            Self::Queue => "queue",
            Self::Sockets => "sockets",
            Self::Pictures => "pictures",
            Self::Calls => "calls",
        }
    }

    /// Begins attacks, one after the other, and waits until every lane of each holds something of the server, was answered or
    /// was refused. Files and finished jobs are made before the first of them begins, since the server may refuse them to the
    /// account afterwards; waiting jobs are made when the attack begins that needs them, since they leave no slot to the others.
    ///
    /// # Errors
    /// If one of them cannot be made ready, or does not get that far.
    pub async fn begin_all(attacks: &[Self], target: &Target) -> io::Result<Vec<Running>> {
        let mut ready = Vec::new();
        for attack in attacks {
            ready.push((*attack, attack.prepare(target).await?));
        }
        let mut running = Vec::new();
        for (attack, strike) in ready {
            running.push(attack.begin(strike).await?);
        }
        Ok(running)
    }

    async fn prepare(self, target: &Target) -> io::Result<Arc<dyn Strike>> {
        Ok(match self {
            Self::Regex => Arc::new(regex::Regex::new(target)),
            Self::ZeroWindow => Arc::new(zero_window::ZeroWindow::prepare(target).await?),
            Self::Json => Arc::new(json::Json::new(target)),
            Self::Bodies => Arc::new(bodies::Bodies::new(target)),
            Self::History => Arc::new(history::History::prepare(target).await?),
            Self::Uploads => Arc::new(uploads::Uploads::new(target)),
            Self::Events => Arc::new(events::Events::new(target)),
            Self::Queue => Arc::new(queue::Queue::new(target)),
            Self::Sockets => Arc::new(sockets::Sockets::new(target)),
            Self::Pictures => Arc::new(pictures::Pictures::new(target)),
            Self::Calls => Arc::new(calls::Calls::new(target)),
        })
    }

    async fn begin(self, strike: Arc<dyn Strike>) -> io::Result<Running> {
        strike.occupy().await?;
        let counts = watch::Sender::default();
        let mut running = Running {
            attack: self,
            lanes: JoinSet::new(),
            needed: strike.lanes(),
            counts: counts.subscribe(),
        };
        let counts = Arc::new(counts);
        for number in 0..strike.lanes() {
            let lane = Lane::new(number, strike.refusals(), strike.answers(), &counts);
            running.lanes.spawn(fight(Arc::clone(&strike), lane));
        }
        let lanes = strike.lanes();
        let begun = |counts: &Counts| counts.begun >= lanes || !counts.wrong.is_empty();
        running.wait(begun, "does not begin").await?;
        Ok(running)
    }
}

/// Strikes until the server refuses, or does what it should not.
async fn fight(strike: Arc<dyn Strike>, lane: Lane) {
    while lane.goes_on_after(strike.strike(&lane).await) {
        // A lane whose strikes end without waiting must not keep others from theirs.
        tokio::task::yield_now().await;
    }
}

impl Running {
    /// The name of the attack.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.attack.name()
    }

    /// What came of it so far; returns once it holds something of the server, or was refused.
    ///
    /// # Errors
    /// If it does neither any more, or the server did what no document says.
    pub async fn still(&mut self) -> io::Result<Counts> {
        self.wait(
            |counts| counts.held > 0 || counts.refused > 0 || !counts.wrong.is_empty(),
            "holds nothing any more and was not refused",
        )
        .await
    }

    /// Whether the attack has done what it can: of one that strikes again and again, each lane has struck once.
    #[must_use]
    pub fn has_struck(&self) -> bool {
        let counts = self.counts.borrow();
        match self.attack {
            Attack::Regex | Attack::Json | Attack::History | Attack::Pictures => {
                counts.answered + counts.refused >= self.needed
            }
            // Of the queue, each lane was refused a place.
            Attack::Queue => counts.refused >= self.needed,
            Attack::ZeroWindow
            | Attack::Bodies
            | Attack::Uploads
            | Attack::Events
            | Attack::Sockets
            | Attack::Calls => true,
        }
    }

    /// Ends it: every connection of it is cut.
    pub async fn end(mut self) {
        self.lanes.shutdown().await;
    }

    async fn wait(
        &mut self,
        until: impl FnMut(&Counts) -> bool,
        complaint: &str,
    ) -> io::Result<Counts> {
        let name = self.attack.name();
        let counts = timeout(PATIENCE, self.counts.wait_for(until)).await;
        let Ok(Ok(counts)) = counts.map(|counts| counts.map(|counts| counts.clone())) else {
            let counts = self.counts.borrow().clone();
            return Err(io::Error::other(format!("{name} {complaint}: {counts:?}")));
        };
        match counts.wrong.first() {
            None => Ok(counts),
            Some(wrong) => Err(io::Error::other(format!("{name} met {wrong}: {counts:?}"))),
        }
    }
}

/// Writes the catalog that the attacks need into a folder: a model whose partner is asked once and then left alone for the
/// length of any test. `shipped` is the catalog of the program.
///
/// # Errors
/// If it cannot be read or written.
pub fn write_catalog(shipped: &Path, folder: &Path) -> io::Result<()> {
    calls::write_catalog(shipped, folder)
}
