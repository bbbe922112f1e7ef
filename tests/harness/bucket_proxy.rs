//! What stands between a server and an object store, and goes wrong on demand: each request that is named beforehand, or all of
//! them.
//!
//! A connection carries one request. Heads go on as they came, for they are signed.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::small_http::{Accepting, read_head};

/// How a request goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It goes no further, and is answered with this status and body.
    Refused(u16, &'static str),
    /// It is carried out, and the connection closes in place of the answer.
    LostAnswer,
    /// The connection closes after so many bytes of its answer's body.
    Cut(usize),
    /// Its body and that of its answer pass in pieces of 64 KiB, with this pause behind each.
    Slow(Duration),
}

/// A proxy in front of an object store. Dropping it cuts its connections.
#[derive(Debug)]
pub struct BucketProxy {
    /// Where it listens.
    pub address: SocketAddr,
    plan: Arc<Plan>,
    _accepting: Accepting,
}

/// What is to go wrong.
#[derive(Debug)]
struct Plan {
    upstream: SocketAddr,
    /// Of the next requests with a method.
    next: Mutex<VecDeque<(&'static str, Trouble)>>,
    /// Of all others.
    always: Mutex<Option<Trouble>>,
    requests: watch::Sender<usize>,
}

/// The size of a piece.
const PIECE: usize = 64 << 10;

impl BucketProxy {
    /// Starts one in front of the store at `upstream` (`http://127.0.0.1:8333`).
    ///
    /// # Errors
    /// If no port can be had.
    ///
    /// # Panics
    /// If that is no address of this machine.
    pub async fn start(upstream: &str) -> io::Result<Self> {
        let upstream = upstream.trim_start_matches("http://").parse();
        let plan = Arc::new(Plan {
            upstream: upstream.expect("an address with a port"),
            next: Mutex::default(),
            always: Mutex::default(),
            requests: watch::Sender::new(0),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, shared) = (listener.local_addr()?, Arc::clone(&plan));
        let serve = move |stream| serve(stream, Arc::clone(&shared));
        Ok(Self {
            address,
            plan,
            _accepting: Accepting::start(listener, serve),
        })
    }

    /// The address of the store through it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Has the next requests with this method go wrong, one after the other.
    pub fn next(&self, method: &'static str, troubles: impl IntoIterator<Item = Trouble>) {
        let troubles = troubles.into_iter().map(|trouble| (method, trouble));
        locked(&self.plan.next).extend(troubles);
    }

    /// Has every request go wrong from now on, or none.
    pub fn always(&self, trouble: Option<Trouble>) {
        *locked(&self.plan.always) = trouble;
    }

    /// How many of the troubles were not met.
    #[must_use]
    pub fn left(&self) -> usize {
        locked(&self.plan.next).len()
    }

    /// Waits until so many more requests have come.
    ///
    /// # Panics
    /// If they do not within two minutes.
    pub async fn more(&self, requests: usize) {
        let mut seen = self.plan.requests.subscribe();
        let enough = *seen.borrow() + requests;
        let waited = seen.wait_for(|count| *count >= enough);
        let waited = tokio::time::timeout(Duration::from_secs(120), waited).await;
        assert!(waited.is_ok(), "the store is not asked");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(mut client: TcpStream, plan: Arc<Plan>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut read = Vec::new();
    let Some(head) = read_head(&mut client, &mut read).await? else {
        return Ok(());
    };
    plan.requests.send_modify(|count| *count += 1);
    let method = head.split(' ').next().unwrap_or_default();
    let next = {
        let mut next = locked(&plan.next);
        let place = next.iter().position(|(of, _)| *of == method);
        place.and_then(|place| next.remove(place))
    };
    let trouble = match next {
        Some((_, trouble)) => Some(trouble),
        None => locked(&plan.always).clone(),
    };
    let pause = match trouble {
        Some(Trouble::Slow(pause)) => pause,
        _ => Duration::ZERO,
    };
    let length = length_of(&head)?;
    if let Some(Trouble::Refused(status, body)) = trouble {
        // Who is cut off in the middle of a request does not read the answer.
        pass(&mut client, &mut tokio::io::sink(), read, length, pause).await?;
        let answer = format!(
            "HTTP/1.1 {status} No\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        return client.write_all(answer.as_bytes()).await;
    }
    let mut server = TcpStream::connect(plan.upstream).await?;
    server.set_nodelay(true)?;
    // The store ends the connection behind its answer.
    let lines = head.trim_end().split("\r\n");
    let lines = lines.filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head = format!(
        "{}\r\nConnection: close\r\n\r\n",
        lines.collect::<Vec<_>>().join("\r\n")
    );
    server.write_all(head.as_bytes()).await?;
    pass(&mut client, &mut server, read, length, pause).await?;
    let mut read = Vec::new();
    let Some(head) = read_head(&mut server, &mut read).await? else {
        return Ok(());
    };
    let most = match trouble {
        Some(Trouble::LostAnswer) => {
            // It is carried out to its end.
            return tokio::io::copy(&mut server, &mut tokio::io::sink())
                .await
                .map(drop);
        }
        Some(Trouble::Cut(most)) => most,
        _ => usize::MAX,
    };
    client.write_all(head.as_bytes()).await?;
    pass(&mut server, &mut client, read, most, pause).await
}

/// Passes so many bytes on, of which some were `read` before, or all until the end.
async fn pass(
    from: &mut TcpStream,
    to: &mut (impl AsyncWriteExt + Unpin),
    read: Vec<u8>,
    mut most: usize,
    pause: Duration,
) -> io::Result<()> {
    let mut piece = read;
    while most > 0 {
        if piece.is_empty() {
            piece.reserve(PIECE.min(most));
            let count = (&mut *from)
                .take(PIECE.min(most) as u64)
                .read_buf(&mut piece)
                .await?;
            if count == 0 {
                return Ok(());
            }
        }
        piece.truncate(most);
        most -= piece.len();
        to.write_all(&piece).await?;
        piece.clear();
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
    Ok(())
}

/// How long the body of a request is: these all say so.
fn length_of(head: &str) -> io::Result<usize> {
    let lower = head.to_ascii_lowercase();
    if lower.contains("transfer-encoding:") {
        return Err(io::Error::other("a request of a length that nobody knows"));
    }
    let lines = lower.lines();
    let mut lengths = lines.filter_map(|line| line.strip_prefix("content-length:"));
    let length = lengths.next().map_or(Ok(0), |length| length.trim().parse());
    length.map_err(io::Error::other)
}
