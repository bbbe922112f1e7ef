//! What the small servers of tests have in common: connections that end with the server, and the heads of requests.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Accepts connections. Dropping it cuts every one of them.
#[derive(Debug)]
pub(crate) struct Accepting(JoinHandle<()>);

impl Accepting {
    /// Serves each connection by `serve`.
    pub(crate) fn start<F>(
        listener: TcpListener,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
                while connections.try_join_next().is_some() {}
            }
        }))
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The head of the next request of a connection; `None` at the end of the connection. `bytes` has what was read beyond it, then
/// and before.
pub(crate) async fn read_head(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8_lossy(bytes).into_owned();
            *bytes = rest;
            return Ok(Some(head));
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}
