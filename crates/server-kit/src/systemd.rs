//! What systemd and a service tell each other: the socket that was bound for it, and how far it is.
//!
//! Nothing here needs systemd: without its variables there is no socket, and nobody is told.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use hyper_kit::Listener;
use listenfd::ListenFd;

/// Why there is no socket to take.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSocket {
    /// Not exactly one came.
    #[error("systemd passed {0} sockets")]
    Count(usize),
    /// It is of another kind.
    #[error("its socket is neither a TCP nor a Unix stream socket")]
    Kind(#[source] io::Error),
    /// The system refused.
    #[error("its socket cannot be served")]
    Io(#[from] io::Error),
}

/// Takes the one socket that systemd passes to this process by `LISTEN_FDS` and `LISTEN_PID`, which are unset.
pub(crate) fn socket() -> Result<Listener, NoSocket> {
    let mut passed = ListenFd::from_env();
    if passed.len() != 1 {
        return Err(NoSocket::Count(passed.len()));
    }
    if let Ok(Some(listener)) = passed.take_tcp_listener(0) {
        listener.set_nonblocking(true)?;
        return Ok(tokio::net::TcpListener::from_std(listener)?.into());
    }
    match passed.take_unix_listener(0) {
        Ok(Some(listener)) => {
            listener.set_nonblocking(true)?;
            Ok(tokio::net::UnixListener::from_std(listener)?.into())
        }
        Ok(None) => Err(NoSocket::Count(0)),
        Err(error) => Err(NoSocket::Kind(error)),
    }
}

/// Tells systemd how far the service is, such as `READY=1`; nothing where it does not ask.
pub(crate) fn notify(state: &str) {
    let Some(address) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&address, state) {
        tracing::warn!(%error, state, "systemd could not be notified");
    }
}

fn send(address: &OsStr, state: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    match address.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => {
            use std::os::linux::net::SocketAddrExt;
            socket.send_to_addr(state.as_bytes(), &SocketAddr::from_abstract_name(name)?)?
        }
        _ => socket.send_to_addr(state.as_bytes(), &SocketAddr::from_pathname(address)?)?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_one_datagram() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        send(path.as_os_str(), "READY=1").expect("sent");
        let mut bytes = [0; 32];
        let read = socket.recv(&mut bytes).expect("received");
        assert_eq!(&bytes[..read], b"READY=1");
    }
}
