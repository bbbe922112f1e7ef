//! How a server leaves: first it tells clients to go elsewhere; in the end it accepts every client that has connected already.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::{TcpStream, UnixStream};
use tokio_util::sync::CancellationToken;

use super::socket::{Listener, Stream, UNIX_PEER};

/// Most connections that are taken from the backlog at the end: more than any system keeps there, so that only a flood of new ones
/// is cut off.
const MOST_WAITING: usize = 65_536;

/// Whether a server leaves, which its connections look at.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Each answer of HTTP/1 looks at this one, which costs no lock,
    has_begun: AtomicBool,
    /// and connections of HTTP/2 wait for this one.
    begun: CancellationToken,
}

impl Leaving {
    /// From now on clients are told to go elsewhere.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
        self.begun.cancel();
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Completes when it has begun.
    pub(super) async fn begun(&self) {
        self.begun.cancelled().await;
    }
}

/// Closes a socket after everything that has connected to it is given to `admit`: the system has told those clients that they are
/// connected, so many of them do not try again elsewhere. A client that connects between the last look and the end is still cut.
pub(super) fn close(
    listener: Listener,
    mut admit: impl FnMut(Stream, SocketAddr),
) -> io::Result<()> {
    // The system is asked itself: the runtime may not have heard yet of those that came last.
    match listener {
        Listener::Tcp(listener) => {
            let listener = listener.into_std()?;
            accept_waiting(|| {
                let (stream, peer) = listener.accept()?;
                stream.set_nonblocking(true)?;
                admit(Stream::Tcp(TcpStream::from_std(stream)?), peer);
                Ok(())
            })
        }
        Listener::Unix(listener) => {
            let listener = listener.into_std()?;
            accept_waiting(|| {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                admit(Stream::Unix(UnixStream::from_std(stream)?), UNIX_PEER);
                Ok(())
            })
        }
    }
}

fn accept_waiting(mut accept: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    // One that left before it was accepted.
    let left = [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];
    for _ in 0..MOST_WAITING {
        match accept() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if left.contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
