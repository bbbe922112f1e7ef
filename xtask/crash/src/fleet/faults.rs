//! What goes wrong, and when: each kind once in an order that follows from the seed, then any of them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use it::random::Random;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::audit::DATABASE;
use super::database::{Database, Turn};
use super::members::{Member, Role};
use super::proxy::Network;

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    /// A process is killed, and started again.
    Kill,
    /// A process is stopped until its leases have lapsed, and goes on.
    Sleep,
    /// The network of a process holds everything back until its leases have lapsed, and delivers it then.
    Hold,
    /// The network of a process cuts its connections and takes no new ones for a while.
    Refuse,
    /// Every connection of the database is ended.
    Backends,
    /// PostgreSQL is stopped at once and started again.
    Restart,
    /// PostgreSQL crashes and is started again.
    Crash,
    /// PostgreSQL takes connections and bytes, and says nothing until everybody who watches it has given it up.
    Silence,
    /// PostgreSQL crashes, and its standby takes its place.
    Promote,
    /// The standby hears nothing for a while.
    Deaf,
    /// The bucket answers 503 for a while.
    Bucket,
}

impl Fault {
    /// Those that last long come first, so that a short campaign has them.
    pub(super) const ALL: [Self; 11] = [
        Self::Sleep,
        Self::Hold,
        Self::Silence,
        Self::Promote,
        Self::Kill,
        Self::Refuse,
        Self::Backends,
        Self::Restart,
        Self::Crash,
        Self::Deaf,
        Self::Bucket,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "processes killed",
            Self::Sleep => "processes stopped past their leases",
            Self::Hold => "networks held past the leases",
            Self::Refuse => "networks cut",
            Self::Backends => "all connections of the database ended",
            Self::Restart => "PostgreSQL restarted",
            Self::Crash => "PostgreSQL crashed",
            Self::Silence => "PostgreSQL silent for long",
            Self::Promote => "standbys promoted",
            Self::Deaf => "networks of the standby cut",
            Self::Bucket => "bucket answered 503",
        }
    }
}

/// Longer than the lease of a job (15 s), and than that of a call and its permit (30 s).
const PAST_JOBS: Duration = Duration::from_secs(17);
const PAST_CALLS: Duration = Duration::from_secs(33);
/// Longer than the silence of PostgreSQL after which its connections are given up (15 s), and made anew.
const PAST_SILENCE: Duration = Duration::from_secs(20);
/// How many processes may be in trouble at once: one of those that answer, and two of those that run jobs.
const MOST_APIS: usize = 1;
const MOST_WORKERS: usize = 2;

/// What faults happen to.
#[derive(Debug)]
pub(super) struct Victims {
    pub(super) members: Vec<Arc<Member>>,
    pub(super) database: Arc<Database>,
}

/// Lets things of these kinds go wrong until `stop`, then waits until all is well again; how often each kind happened.
pub(super) async fn run(
    victims: Arc<Victims>,
    kinds: Vec<Fault>,
    mut random: Random,
    mut stop: watch::Receiver<bool>,
) -> BTreeMap<Fault, u64> {
    let mut counts = BTreeMap::new();
    let mut under_way = JoinSet::new();
    let mut next = kinds.clone();
    next.reverse();
    while !*stop.borrow() {
        let fault = match next.pop() {
            Some(fault) => fault,
            None => kinds[random.index(kinds.len())],
        };
        let own = Random::of(random.next());
        if let Some(happening) = begin(fault, &victims, own, stop.clone()) {
            *counts.entry(fault).or_default() += 1;
            under_way.spawn(happening);
        } else if counts.len() < kinds.len() && !counts.contains_key(&fault) {
            // Its victims are all in trouble: later.
            next.insert(0, fault);
        }
        let pause = Duration::from_millis(1_500 + random.below(2_500));
        pause_unless(&mut stop, pause).await;
    }
    under_way.join_all().await;
    counts
}

/// A fault that is under way.
type Happening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A fault that begins now; `None` if nothing is left that may break.
fn begin(
    fault: Fault,
    victims: &Arc<Victims>,
    mut random: Random,
    mut stop: watch::Receiver<bool>,
) -> Option<Happening> {
    let victims = Arc::clone(victims);
    Some(match fault {
        Fault::Kill | Fault::Sleep | Fault::Hold | Fault::Refuse => {
            let member = take(&victims.members, &mut random)?;
            Box::pin(async move {
                trouble(fault, &member, &mut random, &mut stop).await;
                member.set_network(Network::Whole);
                member.give_back();
            })
        }
        Fault::Backends
        | Fault::Restart
        | Fault::Crash
        | Fault::Silence
        | Fault::Promote
        | Fault::Deaf => {
            let turn = victims.database.take()?;
            Box::pin(async move {
                let pause = short(&mut random);
                trouble_database(fault, &victims.database, &turn, pause, &mut stop).await;
            })
        }
        Fault::Bucket => Box::pin(async move {
            for member in &victims.members {
                member.set_bucket(Network::Unwell);
            }
            pause_unless(&mut stop, Duration::from_secs(3)).await;
            for member in &victims.members {
                member.restore_bucket();
            }
        }),
    })
}

/// Shorter than any lease.
fn short(random: &mut Random) -> Duration {
    Duration::from_millis(500 + random.below(4_000))
}

async fn trouble_database(
    fault: Fault,
    database: &Database,
    turn: &Turn,
    pause: Duration,
    stop: &mut watch::Receiver<bool>,
) {
    match fault {
        Fault::Backends => {
            const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name LIKE 'easel%'";
            database.primary().execute(DATABASE, END).await;
        }
        Fault::Restart => database.restart("INT", turn).await,
        Fault::Crash => database.restart("QUIT", turn).await,
        Fault::Silence => {
            let silent = database.silence(turn).await;
            pause_unless(stop, PAST_SILENCE).await;
            silent.wake().await;
        }
        Fault::Promote => database.promote(pause, turn).await,
        Fault::Deaf => {
            database.set_link(Network::Refused, turn);
            pause_unless(stop, pause).await;
            database.set_link(Network::Whole, turn);
        }
        Fault::Kill | Fault::Sleep | Fault::Hold | Fault::Refuse | Fault::Bucket => {}
    }
}

async fn trouble(
    fault: Fault,
    member: &Member,
    random: &mut Random,
    stop: &mut watch::Receiver<bool>,
) {
    let past = match (member.role, random.one_in(2)) {
        (Role::Api, true) => PAST_CALLS,
        (Role::Api, false) | (Role::Worker, _) => PAST_JOBS,
    };
    match fault {
        Fault::Kill => {
            let killed = member.kill().await;
            pause_unless(stop, Duration::from_millis(random.below(3_000))).await;
            // A process that cannot be started is missed at the end, by its name.
            let _ = killed.and(member.start().await);
        }
        Fault::Sleep => {
            let _ = member.signal("STOP").await;
            pause_unless(stop, past).await;
            let _ = member.signal("CONT").await;
        }
        Fault::Hold => {
            member.set_network(Network::Held);
            pause_unless(stop, past).await;
        }
        Fault::Refuse => {
            member.set_network(Network::Refused);
            pause_unless(stop, short(random)).await;
        }
        Fault::Backends
        | Fault::Restart
        | Fault::Crash
        | Fault::Silence
        | Fault::Promote
        | Fault::Deaf
        | Fault::Bucket => {}
    }
}

/// One that may be in trouble besides those that are.
fn take(members: &[Arc<Member>], random: &mut Random) -> Option<Arc<Member>> {
    let taken = |role| {
        let same = members.iter().filter(|member| member.role == role);
        same.filter(|member| member.is_taken()).count()
    };
    let (apis, workers) = (taken(Role::Api), taken(Role::Worker));
    let free: Vec<&Arc<Member>> = members
        .iter()
        .filter(|member| !member.is_taken())
        .filter(|member| match member.role {
            Role::Api => apis < MOST_APIS,
            Role::Worker => workers < MOST_WORKERS,
        })
        .collect();
    let member = random.pick(&free)?;
    member.take().then(|| Arc::clone(member))
}

/// Waits, but not beyond `stop`.
async fn pause_unless(stop: &mut watch::Receiver<bool>, pause: Duration) {
    tokio::select! {
        () = sleep(pause) => {}
        // A sender that is gone has stopped, too.
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
