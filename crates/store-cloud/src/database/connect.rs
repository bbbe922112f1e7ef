//! How connections are made, and how those end that PostgreSQL is silent on.
//!
//! A machine that lost its power answers nothing, and neither does a server that was stopped in the middle: nothing tells it from
//! one that is slow. So every wait for a server has a bound here, and none of them is the wait for a statement: a statement may
//! wait long for a lock. Only work that never takes long is watched.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::{Connect, PoolError, TimeoutType};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use super::{DatabaseError, DatabaseStream};

/// The settings of every connection, whatever the server's defaults are: an answer that a client got is on disk; a process that was
/// stopped in the middle of a transaction loses its locks; no statement is worth compiling.
const SESSION: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '10s'; SET jit = off";

/// What those have besides that carry out steps: [`crate::step`] says why. As settings of the session they cost a step nothing.
const BY_INDEX: &str = "; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off";

/// How long a host may take for TLS, the password and what it is asked first, once it accepted a connection.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// How long work may take that takes milliseconds where all is well: longer than a lock of another transaction that is about to
/// end, and than a failover.
const SILENCE: Duration = Duration::from_secs(15);

/// How long connections are left alone at most after they were ended. A backend that waits for a lock, or for a standby, does not
/// notice that its client has gone: each end leaves some of them behind.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// After how long without an end the next one is the first again.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// The hosts of an address, each with a configuration of its own: the driver bounds the first step to a host alone, and one that
/// accepts and says nothing would keep the others from being asked. Clones are the same.
#[derive(Clone)]
pub(super) struct Hosts {
    each: Arc<[Config]>,
    tls: MakeRustlsConnect,
    order: Order,
    /// The one that answered last.
    latest: Arc<AtomicUsize>,
    connections: Connections,
    is_by_index: bool,
}

/// Which host is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AsWritten,
    Random,
    /// One of them is right, and it is most likely the one that was.
    LatestFirst,
}

/// The connections of all pools over one database. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(Arc<Mutex<State>>);

/// What clones share.
#[derive(Debug, Default)]
struct State {
    made: Vec<Made>,
    /// When connections were ended last, and how long it takes until they may be again.
    ended: Option<(Instant, Duration)>,
}

/// Whether one pool gives connections to those who ask.
#[derive(Debug, Default)]
pub(super) struct Giving(Mutex<Gave>);

#[derive(Debug, Default)]
struct Gave {
    /// When it gave a connection last.
    last: Option<Instant>,
    /// Since when it gave none, though it was asked.
    starved: Option<Instant>,
}

/// A connection, by the task that reads it.
#[derive(Debug)]
struct Made {
    at: Instant,
    task: AbortHandle,
}

impl Hosts {
    pub(super) fn of(config: &Config, tls: MakeRustlsConnect, connections: Connections) -> Self {
        let order = match (
            config.get_load_balance_hosts(),
            config.get_target_session_attrs(),
        ) {
            (LoadBalanceHosts::Random, _) => Order::Random,
            (_, TargetSessionAttrs::ReadWrite) => Order::LatestFirst,
            _ => Order::AsWritten,
        };
        Self {
            each: split(config).into(),
            tls,
            order,
            latest: Arc::default(),
            connections,
            is_by_index: false,
        }
    }

    /// The same for connections whose statements are planned as those of steps are.
    pub(super) fn by_index(&self) -> Self {
        Self {
            is_by_index: true,
            ..self.clone()
        }
    }

    /// How long all of them may take together.
    pub(super) fn patience(&self) -> Duration {
        self.each.iter().map(patience_with).sum()
    }

    /// A connection to the first host that gives one; `None` if the last of them is silent.
    async fn ask(&self) -> Result<(Client, Connection<Socket, DatabaseStream>), Option<Error>> {
        let count = self.each.len();
        let first = match self.order {
            Order::AsWritten => 0,
            Order::Random => Uuid::new_v4().as_fields().0 as usize % count,
            Order::LatestFirst => self.latest.load(Ordering::Relaxed),
        };
        let mut failed = None;
        for place in (first..first + count).map(|place| place % count) {
            let host = &self.each[place];
            failed = match timeout(patience_with(host), host.connect(self.tls.clone())).await {
                Ok(Ok(made)) => {
                    self.latest.store(place, Ordering::Relaxed);
                    return Ok(made);
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
        }
        Err(failed)
    }

    /// A connection that is of no pool.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, Connection<Socket, DatabaseStream>), DatabaseError> {
        let made = self.ask().await;
        made.map_err(|error| match error {
            Some(error) => error.into(),
            None => DatabaseError::NoConnection(PoolError::Timeout(TimeoutType::Create)),
        })
    }
}

impl Connect for Hosts {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        async {
            let (client, connection) = match self.ask().await {
                Ok(made) => made,
                Err(Some(error)) => return Err(error),
                // The driver has no error for it; the pool has, when its time is over.
                Err(None) => std::future::pending().await,
            };
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::warn!(error = %error, "a connection to PostgreSQL broke");
                }
            });
            self.connections.add(task.abort_handle());
            match self.is_by_index {
                true => client.batch_execute(&[SESSION, BY_INDEX].concat()).await?,
                false => client.batch_execute(SESSION).await?,
            }
            Ok((client, task))
        }
        .boxed()
    }
}

impl Connections {
    fn add(&self, task: AbortHandle) {
        let mut state = self.state();
        state.made.retain(|one| !one.task.is_finished());
        state.made.push(Made {
            at: Instant::now(),
            task,
        });
    }

    /// Waits for work whose statements never take long. As long as they do, all connections that are older than the wait end: what
    /// is under way on them fails as it does when the server goes away, and the pool makes new ones, to another host if need be.
    pub(crate) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let began = Instant::now();
            if let Ok(done) = timeout(SILENCE, &mut work).await {
                return done;
            }
            self.end_those_before(began);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end_those_before(&self, moment: Instant) {
        let mut state = self.state();
        let now = Instant::now();
        let since = |(at, _): (Instant, Duration)| now - at;
        let last = state.ended.filter(|last| since(*last) < FORGOTTEN);
        if last.is_some_and(|last| since(last) < last.1) {
            return;
        }
        let before = state.made.len();
        state.made.retain(|one| {
            let stays = one.at >= moment;
            if !stays {
                one.task.abort();
            }
            stays
        });
        if state.made.len() < before {
            let pause = last.map_or(SILENCE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
            state.ended = Some((now, pause));
            tracing::warn!(
                seconds = SILENCE.as_secs(),
                "PostgreSQL said nothing for long; its connections are made anew"
            );
        }
    }
}

impl Giving {
    /// Notes that it gave a connection.
    pub(super) fn gave(&self) {
        *self.state() = Gave {
            last: Some(Instant::now()),
            starved: None,
        };
    }

    /// Notes that a caller who asked at `asked` got no connection in time. Once it gave none for as long as watched work may take, the
    /// answer is since when: the server is silent on all of its connections then, and watched work gets none to notice it by.
    pub(super) fn starved(&self, asked: Instant) -> Option<Instant> {
        let mut state = self.state();
        // Another caller may have got one after this one asked.
        let asked = state.last.map_or(asked, |last| asked.max(last));
        let since = *state.starved.get_or_insert(asked);
        (since.elapsed() >= SILENCE).then(|| {
            state.starved = None;
            since
        })
    }

    fn state(&self) -> MutexGuard<'_, Gave> {
        // A panic under the lock leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a host may take for a connection.
fn patience_with(host: &Config) -> Duration {
    host.get_connect_timeout().copied().unwrap_or_default() + HANDSHAKE
}

/// A configuration for each host of one.
fn split(all: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let fits = |parts: usize, few: usize| parts <= few || parts == hosts.len();
    if hosts.len() <= 1 || !fits(ports.len(), 1) || !fits(addresses.len(), 0) {
        // One host, or what the driver refuses with its own words.
        return vec![all.clone()];
    }
    (0..hosts.len())
        .map(|place| {
            let mut one = without_hosts(all);
            match hosts.get(place) {
                Some(Host::Tcp(name)) => one.host(name),
                Some(Host::Unix(folder)) => one.host_path(folder),
                None => &mut one,
            };
            if let Some(address) = addresses.get(place) {
                one.hostaddr(*address);
            }
            if let Some(port) = ports.get(place).or(ports.first()) {
                one.port(*port);
            }
            one
        })
        .collect()
}

/// Everything of a configuration but its hosts and ports.
fn without_hosts(all: &Config) -> Config {
    let mut one = Config::new();
    one.ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts());
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(bound) = all.get_connect_timeout() {
        one.connect_timeout(*bound);
    }
    if let Some(bound) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*bound);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever ends connections leaves backends behind each time, so the pauses between grow.
    #[tokio::test(start_paused = true)]
    async fn connections_end_ever_more_seldom_until_all_is_well_for_an_hour() {
        let connections = Connections::default();
        let ended = async || {
            let began = Instant::now();
            let task = tokio::spawn(std::future::pending::<()>());
            connections.add(task.abort_handle());
            tokio::time::sleep(Duration::from_secs(1)).await;
            let silent = async {
                while !task.is_finished() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            connections.watch(silent).await;
            began.elapsed().as_secs()
        };
        // It is looked at once in 15 s.
        for pause in [15, 15, 30, 60, 120, 240, 480, 600, 600] {
            let took = ended().await;
            assert!((pause..pause + 18).contains(&took), "{took} s of {pause}");
        }
        tokio::time::sleep(FORGOTTEN).await;
        assert!((15..18).contains(&ended().await));
    }
}
