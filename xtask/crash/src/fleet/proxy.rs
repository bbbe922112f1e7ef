//! What stands between a process and a server, so that the campaign can take the network away.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What the network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// It carries every byte.
    Whole,
    /// It holds bytes of both directions back, and delivers them once it is whole again.
    Held,
    /// Connections end, and no new one comes about.
    Refused,
    /// Requests are answered with 503: a server of HTTP that is not well.
    Unwell,
}

/// Where connections lead.
#[derive(Debug, Clone)]
pub(super) enum Upstream {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A running proxy. Dropping it cuts its connections.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    network: watch::Sender<Network>,
    accepting: JoinHandle<()>,
}

/// The most that is read of a request that is answered with 503: what comes behind it is cut.
const MOST_READ: usize = 4_096;

impl Proxy {
    /// Listens on a free port of loopback.
    pub(super) async fn start(upstream: Upstream) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let network = watch::Sender::new(Network::Whole);
        let accepting = tokio::spawn(accept(listener, upstream, network.subscribe()));
        Ok(Self {
            address,
            network,
            accepting,
        })
    }

    /// Changes what the network does.
    pub(super) fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections end with the task that owns them.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, upstream: Upstream, network: watch::Receiver<Network>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (upstream, network) = (upstream.clone(), network.clone());
        connections.spawn(async move {
            // Either side may go at any moment.
            let _ = serve(stream, upstream, network).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(
    mut client: TcpStream,
    upstream: Upstream,
    mut network: watch::Receiver<Network>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let now = *network
        .wait_for(|network| *network != Network::Held)
        .await
        .map_err(io::Error::other)?;
    match now {
        Network::Refused => return Ok(()),
        Network::Unwell => {
            let mut head = [0; MOST_READ];
            let _ = client.read(&mut head).await?;
            let answer =
                b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            return client.write_all(answer).await;
        }
        Network::Whole | Network::Held => {}
    }
    match upstream {
        Upstream::Tcp(address) => {
            let server = TcpStream::connect(address).await?;
            server.set_nodelay(true)?;
            relay_both(client, server, &network).await;
        }
        Upstream::Unix(path) => {
            relay_both(client, UnixStream::connect(path).await?, &network).await;
        }
    }
    Ok(())
}

async fn relay_both<C, S>(client: C, server: S, network: &watch::Receiver<Network>)
where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    // The end of either direction is the end of both: neither protocol goes on with one.
    tokio::select! {
        _ = relay(from_client, to_server, network.clone()) => {}
        _ = relay(from_server, to_client, network.clone()) => {}
    }
}

async fn relay(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut network: watch::Receiver<Network>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = tokio::select! {
            count = from.read(&mut bytes) => count?,
            () = refused(network.clone()) => return Ok(()),
        };
        let passes = network.wait_for(|network| *network != Network::Held).await;
        let is_cut = passes.map_or(true, |network| *network != Network::Whole);
        if count == 0 || is_cut {
            return Ok(());
        }
        to.write_all(&bytes[..count]).await?;
    }
}

/// Completes when connections are cut.
async fn refused(mut network: watch::Receiver<Network>) {
    let is_cut = |network: &Network| matches!(network, Network::Refused | Network::Unwell);
    if network.wait_for(is_cut).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn what_is_held_back_comes_later_and_what_is_refused_never() {
        let proxy = Proxy::start(Upstream::Tcp(echo().await)).await;
        let proxy = proxy.expect("a port");
        let mut client = TcpStream::connect(proxy.address).await.expect("it listens");
        let mut heard = [0; 2];
        client.write_all(b"ab").await.expect("it takes bytes");
        client.read_exact(&mut heard).await.expect("they come back");
        assert_eq!(&heard, b"ab");
        proxy.set(Network::Held);
        client.write_all(b"cd").await.expect("it takes bytes");
        let mut other = TcpStream::connect(proxy.address).await.expect("it listens");
        other.write_all(b"ef").await.expect("it takes bytes");
        proxy.set(Network::Whole);
        client.read_exact(&mut heard).await.expect("they come back");
        assert_eq!(&heard, b"cd");
        other.read_exact(&mut heard).await.expect("they come back");
        assert_eq!(&heard, b"ef");
        proxy.set(Network::Refused);
        assert!(matches!(client.read(&mut heard).await, Ok(0) | Err(_)));
        proxy.set(Network::Unwell);
        let mut client = TcpStream::connect(proxy.address).await.expect("it listens");
        client.write_all(b"GET").await.expect("it takes bytes");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 503 "));
    }
}
