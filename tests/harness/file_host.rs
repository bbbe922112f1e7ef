//! A host of files, such as partners name in their answers: its path says how it behaves, and it remembers every request.
//!
//! `/file/NAME` answers the bytes that [`FileHost::file`] tells. `/missing/NAME` answers 404. `/fails/N/NAME` answers 503 to the
//! first N requests. `/held/NAME` sends a head and half of a file, and the rest once [`FileHost::release`] is called.
//! `/endless/NAME` never stops sending. `/moved/NAME` redirects to `/file/NAME`. Queries do not matter to it, as where they sign.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::small_http::{Accepting, read_head};

/// A running host of files. Dropping it cuts every connection.
#[derive(Debug)]
pub struct FileHost {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends with this.
    _accepting: Accepting,
}

#[derive(Debug)]
struct Shared {
    /// The heads of requests, as they came.
    seen: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
    released: watch::Sender<bool>,
    attempts: Mutex<HashMap<String, u32>>,
}

impl FileHost {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            released: watch::Sender::new(false),
            attempts: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let accepting = Accepting::start(listener, move |stream| {
            let shared = Arc::clone(&serving);
            async move { serve(stream, &shared).await }
        });
        Ok(Self {
            address,
            shared,
            _accepting: accepting,
        })
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The address of a path, signed as partners sign theirs.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}?signature={SECRET}", self.address)
    }

    /// The bytes of a file.
    #[must_use]
    pub fn file(name: &str) -> Vec<u8> {
        format!("\u{89}PNG of {name}, ").repeat(1_000).into_bytes()
    }

    /// The targets that were asked for so far.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        let heads = self.heads();
        let targets = heads.iter().filter_map(|head| head.split(' ').nth(1));
        targets
            .filter_map(|target| target.split('?').next())
            .map(str::to_owned)
            .collect()
    }

    /// The heads of requests so far.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.shared.seen().clone()
    }

    /// Waits until so many requests of a path have come.
    ///
    /// # Panics
    /// If nothing can come any more.
    pub async fn until(&self, path: &str, count: usize) {
        let mut news = self.shared.count.subscribe();
        let enough = |_: &usize| self.seen().iter().filter(|it| *it == path).count() >= count;
        news.wait_for(enough).await.expect("the server runs");
    }

    /// Lets go of what is held.
    pub fn release(&self) {
        self.shared.released.send_replace(true);
    }
}

/// What the addresses of this host are signed with: to be seen nowhere.
pub const SECRET: &str = "s3cr3t-of-a-partner";

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.seen.lock().expect("no test panics holding it")
    }
}

/// Answers the requests of a connection, one after the other.
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut bytes).await? {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let count = {
            let mut seen = shared.seen();
            seen.push(head);
            seen.len()
        };
        shared.count.send_replace(count);
        answer(&mut stream, shared, &path).await?;
    }
    Ok(())
}

async fn answer(stream: &mut TcpStream, shared: &Shared, path: &str) -> io::Result<()> {
    let mut words = path.split('/').skip(1);
    let kind = words.next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let file = FileHost::file(name);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: {}\r\n\r\n",
        file.len()
    );
    let failed = |status: u16| format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n");
    match kind {
        "missing" => stream.write_all(failed(404).as_bytes()).await,
        "moved" => {
            let moved = format!(
                "HTTP/1.1 302 Moved\r\nlocation: /file/{name}\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(moved.as_bytes()).await
        }
        "fails" => {
            let most: u32 = words.next().and_then(|most| most.parse().ok()).unwrap_or(0);
            let attempt = {
                let mut attempts = shared.attempts.lock().expect("no test panics holding it");
                let attempt = attempts.entry(path.to_owned()).or_default();
                *attempt += 1;
                *attempt
            };
            if attempt <= most {
                return stream.write_all(failed(503).as_bytes()).await;
            }
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&file).await
        }
        "held" => {
            stream.write_all(head.as_bytes()).await?;
            let (first, rest) = file.split_at(file.len() / 2);
            stream.write_all(first).await?;
            let mut released = shared.released.subscribe();
            let released = released.wait_for(|released| *released).await;
            released.map_err(io::Error::other)?;
            stream.write_all(rest).await
        }
        "endless" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&file).await?;
            }
        }
        _ => {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&file).await
        }
    }
}
