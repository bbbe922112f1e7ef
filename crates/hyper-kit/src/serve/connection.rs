//! One connection: learn its protocol, serve it, drain it, cut it.
//!
//! The protocol is learnt here and not by `hyper-util`'s automatic builder: that one waits for the first bytes without a
//! deadline, and does not pass on hyper's bound on the size of a head.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::Ticket;
use super::answer::{Activity, Served, answer};
use super::frames::FrameWatch;
use super::io::{ConnectionIo, Watch};
use super::leave::Leaving;
use super::limits::WritePace;
use super::progress::{Ended, watched};
use super::socket::Stream;
use super::wire::HeadWatch;
use super::{Application, ServerLimits, ServerStats, Shared};

/// What a client of HTTP/2 sends first.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection to its end.
///
/// What it waits with lies on the heap in pieces of its own, so that a connection that waits for hours, as most do, holds nothing
/// of how it began.
pub(super) fn run<A: Application>(
    stream: Stream,
    peer: SocketAddr,
    ticket: Ticket,
    shared: Arc<Shared<A>>,
) -> impl Future<Output = ()> + Send {
    let begun = begin(stream, peer, ticket, shared).boxed();
    async move {
        let Some(serving) = begun.await else {
            return;
        };
        if let Err(error) = serving.await {
            // Clients break off for reasons of their own, many a second under attack.
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "connection broke off"
            );
        }
    }
}

/// Learns what a connection speaks, and returns what serves it; `None` if it ended before.
async fn begin<A: Application>(
    mut stream: Stream,
    peer: SocketAddr,
    ticket: Ticket,
    shared: Arc<Shared<A>>,
) -> Option<BoxFuture<'static, hyper::Result<()>>> {
    // Only a socket that is gone already has none.
    let info = stream.info(peer)?;
    stream.tune(&shared.limits);
    let (protocol, prefix) = learn_protocol(&mut stream, &shared).await?;
    let stats = Arc::clone(&shared.stats);
    let watch = match protocol {
        Protocol::Http1 => Watch::Heads(HeadWatch::new()),
        Protocol::Http2 => Watch::Frames(FrameWatch::new(H2_PREFACE.len())),
    };
    let peer_use = ticket.peer();
    let io = ConnectionIo::new(stream, prefix, watch, &shared.limits, stats, ticket);
    let served = Arc::new(Served {
        activity: Activity::default(),
        signals: io.signals(),
        info,
        peer: peer_use,
    });
    // Boxed to be handed on: what serves it would keep the room of its arguments.
    let io = Box::new(io);
    Some(match protocol {
        Protocol::Http1 => serve_http1(io, served, shared).boxed(),
        Protocol::Http2 => serve_http2(io, served, shared).boxed(),
    })
}

enum Protocol {
    Http1,
    Http2,
}

/// Reads until the first bytes can no longer be, or are, the preface of HTTP/2. `None` when the client left or was too
/// slow: once the server drains, [`ServerLimits::first_request`] is all that it has.
async fn learn_protocol<A>(stream: &mut Stream, shared: &Shared<A>) -> Option<(Protocol, Bytes)> {
    let mut prefix = BytesMut::with_capacity(H2_PREFACE.len());
    let reading = async {
        loop {
            let mut rest = [0; H2_PREFACE.len()];
            let wanted = &mut rest[prefix.len()..];
            let read = stream.read(wanted).await?;
            prefix.extend_from_slice(&wanted[..read]);
            if read == 0 || !H2_PREFACE.starts_with(&prefix) {
                return io::Result::Ok(Protocol::Http1);
            }
            if prefix.len() == H2_PREFACE.len() {
                return Ok(Protocol::Http2);
            }
        }
    };
    // A client that connected a moment before the end has a request on its way.
    let closing = async {
        shared.drain.cancelled().await;
        tokio::select! {
            () = sleep(shared.limits.first_request) => {}
            () = shared.cut.cancelled() => {}
        }
    };
    let protocol = tokio::select! {
        biased;
        read = timeout(shared.limits.header_read_timeout, reading) => read.ok()?.ok()?,
        () = closing => return None,
    };
    (!prefix.is_empty()).then(|| (protocol, prefix.freeze()))
}

/// The connection is polled first, so a request whose bytes have arrived is served even when the drain has begun. When the server
/// drains, the connection ends after that request. When it is cut, it is dropped.
async fn serve_http1<A: Application>(
    io: Box<ConnectionIo>,
    served: Arc<Served>,
    shared: Arc<Shared<A>>,
) -> hyper::Result<()> {
    let limits = &shared.limits;
    let service = service_fn(|request| answer(request, &served, &shared));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_header_size(limits.max_header_bytes as usize)
        .max_buf_size(limits.buffer_bytes.max(limits.max_header_bytes as usize))
        .serve_connection(TokioIo::new(*io), service)
        .with_upgrades();
    let mut connection = Box::pin(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = shared.drain.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = shared.cut.cancelled() => Ok(()),
    }
}

async fn serve_http2<A: Application>(
    io: Box<ConnectionIo>,
    served: Arc<Served>,
    shared: Arc<Shared<A>>,
) -> hyper::Result<()> {
    let limits = &shared.limits;
    let executor = Joined {
        tasks: shared.tasks.clone(),
        cut: shared.cut.clone(),
        pace: limits.write_pace(),
        stats: Arc::clone(&shared.stats),
        served: Arc::clone(&served),
    };
    let service = {
        let (served, shared) = (Arc::clone(&served), Arc::clone(&shared));
        // Streams are tasks of their own.
        service_fn(move |request| {
            let (served, shared) = (Arc::clone(&served), Arc::clone(&shared));
            async move { answer(request, &served, &shared).await }
        })
    };
    let connection = http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.h2_max_streams)
        .max_pending_accept_reset_streams(limits.h2_max_pending_resets)
        .max_local_error_reset_streams(limits.h2_max_local_resets)
        .max_header_list_size(limits.max_header_bytes)
        .max_send_buf_size(limits.buffer_bytes)
        .keep_alive_interval(limits.h2_keep_alive)
        .keep_alive_timeout(limits.h2_keep_alive)
        .serve_connection(TokioIo::new(*io), service);
    let connection = Box::pin(connection);
    let idle = Idle {
        activity: &served.activity,
        limits,
    };
    drive(connection, |it| it.graceful_shutdown(), &idle, &shared).await
}

/// How a connection without requests is told from one at work.
struct Idle<'a> {
    activity: &'a Activity,
    limits: &'a ServerLimits,
}

/// Polls a connection of HTTP/2 to its end. When the server leaves or drains, or when the connection idles, the client is asked to end
/// it. When it is cut, or idles on after that, it is dropped: nobody waits for a client that does not answer.
///
/// The connection is polled first, so a request whose bytes have arrived is served even when the drain has begun.
async fn drive<C, A>(
    mut connection: Pin<Box<C>>,
    tell: impl Fn(Pin<&mut C>),
    idle: &Idle<'_>,
    shared: &Shared<A>,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            // One at a time, since a cut drains first and each is looked at whenever a connection moves.
            () = shared.drain.cancelled(), if !told => {}
            () = shared.cut.cancelled(), if told => return Ok(()),
            () = leaves(idle, &shared.leaving), if !told => {}
            () = abandoned(idle) => return Ok(()),
            () = ceases(idle, told) => {
                if told {
                    return Ok(());
                }
            }
        }
        tell(connection.as_mut());
        told = true;
    }
}

/// Ends when the server leaves and the connection had a request: one that has had none could not be used otherwise. HTTP/1 says it in
/// its answers.
async fn leaves(idle: &Idle<'_>, leaving: &Leaving) {
    leaving.begun().await;
    poll_fn(|cx| idle.activity.poll_asked(cx)).await;
}

/// Ends when a response was abandoned to its client.
async fn abandoned(idle: &Idle<'_>) {
    poll_fn(|cx| idle.activity.poll_abandoned(cx)).await;
}

/// Ends when no request was open or began for a whole span of the idle time.
async fn ceases(Idle { activity, limits }: &Idle<'_>, told: bool) {
    let mut seen = u64::MAX;
    loop {
        let total = activity.total.load(Ordering::Relaxed);
        if activity.open.load(Ordering::Relaxed) == 0 && total == seen {
            return;
        }
        seen = total;
        sleep(span(limits, total, told)).await;
    }
}

/// How long a connection of HTTP/2 may have no request open.
fn span(limits: &ServerLimits, requests: u64, told: bool) -> Duration {
    match (told, requests) {
        // A client that reads has said goodbye by then.
        (true, _) => limits.linger.min(limits.h2_idle),
        (false, 0) => limits.header_read_timeout.min(limits.h2_idle),
        (false, _) => limits.h2_idle,
    }
}

/// Spawns the streams of HTTP/2 where the server joins and cuts them, and cuts those whose client does not take them.
#[derive(Clone)]
struct Joined {
    tasks: TaskTracker,
    cut: CancellationToken,
    pace: WritePace,
    stats: Arc<ServerStats>,
    served: Arc<Served>,
}

impl<F> hyper::rt::Executor<F> for Joined
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let (pace, stats) = (self.pace, Arc::clone(&self.stats));
        let served = Arc::clone(&self.served);
        let stream = async move {
            match watched(future, pace).await {
                Ended::Whole => {}
                Ended::Reset => stats.response_stalls.add(1),
                Ended::Abandoned => {
                    stats.response_stalls.add(1);
                    served.activity.abandon();
                }
            }
        };
        let cut = self.cut.clone();
        self.tasks.spawn(cut.run_until_cancelled_owned(stream));
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};

    use super::super::{ConnectionInfo, Incoming, Refusal};
    use super::*;
    use crate::body::Body;

    struct Quiet;

    impl Application for Quiet {
        async fn call(&self, _: Request<Incoming>, _: ConnectionInfo) -> Response<Body> {
            Response::default()
        }

        fn refuse(&self, _: Refusal, _: &str) -> Response<Body> {
            Response::default()
        }
    }

    /// There are thousands of them, most of which wait.
    #[test]
    fn a_connection_holds_little_of_its_own() {
        type Begin<F> = fn(Stream, SocketAddr, Ticket, Arc<Shared<Quiet>>) -> F;
        fn bytes_of<F>(_: Begin<F>) -> usize {
            size_of::<F>()
        }
        let bytes = bytes_of(run::<Quiet>);
        assert!(bytes <= 64, "its task has {bytes} bytes");
        type Serve<F> = fn(Box<ConnectionIo>, Arc<Served>, Arc<Shared<Quiet>>) -> F;
        fn bytes_served<F>(_: Serve<F>) -> usize {
            size_of::<F>()
        }
        let bytes = bytes_served(serve_http1::<Quiet>);
        assert!(bytes <= 192, "what serves HTTP/1 has {bytes} bytes");
    }
}
