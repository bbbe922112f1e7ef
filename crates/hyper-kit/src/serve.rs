//! The accept loop, and its end: stop accepting, let what runs finish, cut what does not.
//!
//! Nothing here ends the loop but the shutdown: not a full process, not a flood, not a panic in a handler. Every
//! connection is a task of its own that this function joins, so when it returns none is left (upgraded ones excepted:
//! those belong to the handler that upgraded them).

mod accept;
mod admission;
mod answer;
mod application;
mod connection;
mod frames;
mod front;
mod incoming;
mod io;
mod leave;
mod limits;
mod progress;
mod socket;
mod stats;
mod streams;
mod wire;

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use application::{Application, ConnectionInfo};
pub use front::Refusal;
pub use incoming::Incoming;
pub use limits::ServerLimits;
pub use socket::Listener;
pub use stats::{Counter, ServerStats};

use accept::{AcceptRetry, Backoff};
use admission::{Admission, Refused};
use leave::Leaving;
use socket::Stream;
use streams::Streams;

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// The tasks that were still at work after the grace and were cut: connections, and streams of HTTP/2. 0 is a clean
    /// end.
    pub cut: usize,
}

/// What every connection of one server shares.
#[derive(Debug)]
struct Shared<A> {
    application: A,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    streams: Arc<Streams>,
    leaving: Leaving,
    /// Cancelled when nothing shall go on.
    cut: CancellationToken,
    /// Cancelled when no new request shall begin, and by a cut.
    drain: CancellationToken,
    tasks: TaskTracker,
}

/// Serves HTTP/1.1 and HTTP/2 on `listener` until `shutdown`, then drains within [`ServerLimits::grace`].
///
/// Dropping the future instead cuts every connection at once.
pub async fn serve<A: Application>(
    listener: impl Into<Listener>,
    application: A,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    serve_and_leave(listener, application, limits, stats, pending(), shutdown).await
}

/// Serves as [`serve`] does, and tells clients to go elsewhere from `leaving` on: answers of HTTP/1 end their connections
/// (`Connection: close`), and connections of HTTP/2 that had a request get GOAWAY. Until `shutdown`, new connections are accepted
/// all the same.
pub async fn serve_and_leave<A: Application>(
    listener: impl Into<Listener>,
    application: A,
    limits: ServerLimits,
    stats: Arc<ServerStats>,
    leaving: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let listener = listener.into();
    let admission = Admission::new(&limits, Arc::clone(&stats));
    let cut = CancellationToken::new();
    let shared = Arc::new(Shared {
        application,
        streams: Arc::new(Streams::new(&limits)),
        leaving: Leaving::default(),
        limits,
        stats,
        drain: cut.child_token(),
        cut,
        tasks: TaskTracker::new(),
    });
    let _cut_when_dropped = shared.cut.clone().drop_guard();

    let leave = async {
        leaving.await;
        shared.leaving.begin();
        pending::<Infallible>().await
    };
    tokio::select! {
        () = accept_until(&listener, &admission, &shared, shutdown) => {}
        never = leave => match never {},
    }
    // New connections go elsewhere from here on, while those at work still finish.
    shared.leaving.begin();
    let closed = leave::close(listener, |stream, peer| {
        admit(stream, peer, &admission, &shared)
    });
    if let Err(error) = closed {
        tracing::warn!(%error, "connections that waited to be accepted were cut");
    }
    shared.drain.cancel();
    shared.tasks.close();

    let clean = timeout(shared.limits.grace, shared.tasks.wait()).await;
    let cut = if clean.is_ok() { 0 } else { shared.tasks.len() };
    shared.cut.cancel();
    shared.tasks.wait().await;
    Drained { cut }
}

async fn accept_until<A: Application>(
    listener: &Listener,
    admission: &Admission,
    shared: &Arc<Shared<A>>,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut backoff = Backoff::default();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => return,
            accepted = listener.accept() => accepted,
        };
        let pause = match accepted {
            Ok((stream, peer)) => {
                backoff = Backoff::default();
                admit(stream, peer, admission, shared);
                continue;
            }
            Err(error) => match backoff.judge(&error) {
                AcceptRetry::Again => continue,
                AcceptRetry::After { pause, first } => {
                    shared.stats.accept_faults.add(1);
                    if first {
                        tracing::warn!(%error, "connections cannot be accepted; trying again until they can");
                    }
                    pause
                }
            },
        };
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            () = sleep(pause) => {}
        }
    }
}

fn admit<A: Application>(
    stream: Stream,
    peer: SocketAddr,
    admission: &Admission,
    shared: &Arc<Shared<A>>,
) {
    // A refused connection is closed by dropping it: a flood gets no answers.
    match admission.admit(peer.ip()) {
        Ok(ticket) => {
            shared.stats.accepted.add(1);
            let connection = connection::run(stream, peer, ticket, Arc::clone(shared));
            shared.tasks.spawn(connection);
        }
        Err(Refused::Full) => shared.stats.refused_full.add(1),
        Err(Refused::Peer) => shared.stats.refused_peer.add(1),
    }
}
