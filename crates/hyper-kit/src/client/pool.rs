//! The connections to each host: those of HTTP/1.1 that wait for a request, and the one of HTTP/2 that takes any number.
//!
//! A connection that waits has no task of its own. Whether it is still open is looked at when it is taken, and a request that
//! was sent over one that breaks is never sent again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, sleep_until};

use super::connect::{Connector, Stream};
use super::error::FetchError;
use super::policy::Target;
use crate::body::Body;

/// How often a silent HTTP/2 connection with requests under way is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);

/// The connections of a client. Clones share them.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

/// What a request goes over.
pub(super) enum Line {
    Http1(Lease),
    Http2(http2::SendRequest<Body>),
}

/// A connection for one request at a time. It is closed when it is dropped, unless it is kept.
pub(super) struct Lease {
    pub(super) stream: Stream,
    target: Target,
    pool: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    idle_per_host: usize,
    idle_timeout: Duration,
    hosts: Mutex<Hosts>,
}

#[derive(Default)]
struct Hosts {
    by_target: HashMap<Target, Kept>,
    /// Whether a task closes what was kept too long.
    is_swept: bool,
}

/// What is kept of a host.
#[derive(Default)]
struct Kept {
    /// The one that was used last at the end.
    idle: Vec<(Stream, Instant)>,
    http2: Option<(http2::SendRequest<Body>, Instant)>,
    /// Whether it was seen to speak HTTP/1.1.
    speaks_http1: bool,
    /// Held while it is connected to and may turn out to speak HTTP/2, of which one connection is enough.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

// === impl Pool ===

impl Pool {
    pub(super) fn new(connector: Connector, idle_per_host: usize, idle_timeout: Duration) -> Self {
        Self(Arc::new(Shared {
            connector,
            idle_per_host,
            idle_timeout,
            hosts: Mutex::default(),
        }))
    }

    /// A connection that was kept and is still open; the target comes back if there is none.
    pub(super) fn kept(&self, target: Target) -> Result<Line, Target> {
        loop {
            let taken = {
                let mut hosts = self.0.hosts();
                let Some(kept) = hosts.by_target.get_mut(&target) else {
                    return Err(target);
                };
                kept.http2.take_if(|(sender, _)| sender.is_closed());
                if let Some((sender, used)) = &mut kept.http2 {
                    *used = Instant::now();
                    return Ok(Line::Http2(sender.clone()));
                }
                kept.idle.pop()
            };
            let Some((mut stream, used)) = taken else {
                return Err(target);
            };
            // The sweep is late when the machine is busy.
            let is_fresh = used.elapsed() < self.0.idle_timeout;
            if is_fresh && stream.is_quiet() {
                return Ok(Line::Http1(self.lease(target, stream)));
            }
        }
    }

    /// A new connection, or one that others made while this one waited for its turn.
    pub(super) async fn connect(&self, target: Target) -> Result<Line, FetchError> {
        let Some(gate) = self.gate(&target) else {
            let stream = self.0.connector.connect(&target).await?;
            return self.line(target, stream).await;
        };
        let _turn = gate.lock().await;
        match self.kept(target) {
            Ok(line) => Ok(line),
            Err(target) => {
                let stream = self.0.connector.connect(&target).await?;
                self.line(target, stream).await
            }
        }
    }

    /// A new connection of HTTP/1.1 that is for one request and what comes of it.
    pub(super) async fn alone(&self, target: &Target) -> Result<Stream, FetchError> {
        self.0.connector.connect(target).await
    }

    fn lease(&self, target: Target, stream: Stream) -> Lease {
        Lease {
            stream,
            target,
            pool: Arc::clone(&self.0),
        }
    }

    /// What has to be held to connect to a host that may speak HTTP/2.
    fn gate(&self, target: &Target) -> Option<Arc<tokio::sync::Mutex<()>>> {
        if !target.https {
            return None;
        }
        self.0.change(target.clone(), |kept| {
            (!kept.speaks_http1).then(|| Arc::clone(&kept.connecting))
        })
    }

    async fn line(&self, target: Target, stream: Stream) -> Result<Line, FetchError> {
        if !stream.speaks_http2() {
            if target.https {
                self.0
                    .change(target.clone(), |kept| kept.speaks_http1 = true);
            }
            return Ok(Line::Http1(self.lease(target, stream)));
        }
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = handshake.map_err(|error| target.unreachable(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
        let shared = (sender.clone(), Instant::now());
        self.0.change(target, |kept| kept.http2 = Some(shared));
        Ok(Line::Http2(sender))
    }
}

// === impl Lease ===

impl Lease {
    /// The host as a request names it.
    pub(super) fn host(&self) -> String {
        self.target.named()
    }

    /// Where it leads.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Leaves the connection to the next request.
    pub(super) fn keep(self) {
        let Self {
            stream,
            target,
            pool,
        } = self;
        let most = pool.idle_per_host;
        // What is one too many is closed once the others may go on.
        drop(pool.change(target, |kept| {
            if kept.idle.len() >= most {
                return Some(stream);
            }
            kept.idle.push((stream, Instant::now()));
            None
        }));
    }
}

// === impl Shared ===

impl Shared {
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        // Every change is whole in itself.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is kept of a host, and sees to it that it is let go in time.
    fn change<T>(self: &Arc<Self>, target: Target, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut hosts = self.hosts();
        if !std::mem::replace(&mut hosts.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.idle_timeout));
        }
        change(hosts.by_target.entry(target).or_default())
    }
}

/// Lets go what was kept too long, until nothing is kept or the client is gone.
async fn sweep(pool: Weak<Shared>, idle_timeout: Duration) {
    let mut next = Instant::now() + idle_timeout;
    loop {
        sleep_until(next).await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let now = Instant::now();
        next = now + idle_timeout;
        let is_fresh = |used: &Instant| *used + idle_timeout > now;
        let mut hosts = pool.hosts();
        hosts.by_target.retain(|_, kept| {
            kept.idle.retain(|(_, used)| is_fresh(used));
            kept.http2
                .take_if(|(sender, used)| sender.is_closed() || !is_fresh(used));
            let idle = kept.idle.iter().map(|(_, used)| *used);
            let used = idle.chain(kept.http2.iter().map(|(_, used)| *used));
            next = used
                .map(|used| used + idle_timeout)
                .fold(next, Instant::min);
            !kept.idle.is_empty() || kept.http2.is_some() || Arc::strong_count(&kept.connecting) > 1
        });
        if hosts.by_target.is_empty() {
            hosts.is_swept = false;
            return;
        }
    }
}
