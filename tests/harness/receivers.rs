//! Receivers of webhooks: one server whose path says how it behaves, and that remembers every message.
//!
//! `/takes/NAME` takes everything. `/fails/N/NAME` answers 500 to the first N attempts of each message. `/hangs/NAME` never answers.
//! `/redirects/NAME` answers 302 with the address of `/takes/redirected`. `/slow/MS/NAME` takes everything so late. `/gone/NAME`
//! answers 410. `/flaky/N/NAME` answers 500 to the first attempt of one message in N. `/later/NAME` answers 503 until [`Receivers::open`], and takes everything then.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::small_http::{Accepting, read_head};

/// A running server of receivers. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Receivers {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Ends with this.
    _accepting: Accepting,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    received: Mutex<Vec<Received>>,
    /// Attempts of each message at each path.
    attempts: Mutex<HashMap<(String, String), u32>>,
    is_open: AtomicBool,
    count: watch::Sender<usize>,
}

/// A message as it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path that it came to.
    pub path: String,
    /// Its `webhook-id`.
    pub id: String,
    /// Its `webhook-timestamp`.
    pub timestamp: String,
    /// Its `webhook-signature`.
    pub signature: String,
    /// The body.
    pub body: String,
    /// Whether it was taken: answered with 204.
    pub taken: bool,
    /// When it came.
    pub at: Instant,
}

impl Receivers {
    /// Listens on a free port of loopback.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            address,
            received: Mutex::default(),
            attempts: Mutex::default(),
            is_open: AtomicBool::new(false),
            count: watch::Sender::new(0),
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

    /// The address of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Host and port, as the setting `webhook_private_hosts` names them.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Lets `/later` take what comes.
    pub fn open(&self) {
        self.shared.is_open.store(true, Ordering::SeqCst);
    }

    /// Everything that came so far.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.received().clone()
    }

    /// The messages that a path took, in their order.
    #[must_use]
    pub fn taken(&self, path: &str) -> Vec<Received> {
        let received = self.shared.received();
        let taken = received.iter().filter(|it| it.taken && it.path == path);
        taken.cloned().collect()
    }

    /// Waits until what came is as it is to be.
    ///
    /// # Panics
    /// If nothing can come any more.
    pub async fn until(&self, mut enough: impl FnMut(&[Received]) -> bool) {
        let mut count = self.shared.count.subscribe();
        let seen = count.wait_for(|_| enough(&self.shared.received()));
        seen.await.expect("the server runs");
    }
}

impl Received {
    /// What it says.
    ///
    /// # Panics
    /// If it is no JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("messages are JSON")
    }

    /// How many of its signatures this secret made: written from the specification of Standard Webhooks, not from the program.
    ///
    /// # Panics
    /// If the secret is none.
    #[must_use]
    pub fn signatures_of(&self, secret: &str) -> usize {
        let key = secret.strip_prefix("whsec_").expect("a secret");
        let key = STANDARD.decode(key).expect("a secret is base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
        mac.update(format!("{}.{}.{}", self.id, self.timestamp, self.body).as_bytes());
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        self.signature
            .split(' ')
            .filter(|it| *it == expected)
            .count()
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().expect("no receiver panics")
    }

    /// What a message at a path is answered: status, and whether the answer comes at all and when.
    fn answer(&self, path: &str, id: &str) -> (u16, Option<Duration>) {
        let mut words = path.split('/').skip(1);
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        let at_once = Some(Duration::ZERO);
        match words.next() {
            Some("fails") => {
                let most = number(words.next());
                let mut attempts = self.attempts.lock().expect("no receiver panics");
                let attempts = attempts
                    .entry((path.to_owned(), id.to_owned()))
                    .or_default();
                *attempts += 1;
                match u64::from(*attempts) <= most {
                    true => (500, at_once),
                    false => (204, at_once),
                }
            }
            Some("flaky") => {
                let every = number(words.next()).max(1);
                let sum: u64 = id.bytes().map(u64::from).sum();
                let mut attempts = self.attempts.lock().expect("no receiver panics");
                let attempts = attempts
                    .entry((path.to_owned(), id.to_owned()))
                    .or_default();
                *attempts += 1;
                match sum.is_multiple_of(every) && *attempts == 1 {
                    true => (500, at_once),
                    false => (204, at_once),
                }
            }
            Some("hangs") => (0, None),
            Some("redirects") => (302, at_once),
            Some("gone") => (410, at_once),
            Some("slow") => (204, Some(Duration::from_millis(number(words.next())))),
            Some("later") if !self.is_open.load(Ordering::SeqCst) => (503, at_once),
            _ => (204, at_once),
        }
    }
}

/// Answers the requests of a connection, one after the other.
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut bytes).await? {
        let header = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
            found
                .next()
                .map(|(_, value)| value.to_owned())
                .unwrap_or_default()
        };
        let length: usize = header("content-length").parse().unwrap_or(0);
        while bytes.len() < length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let rest = bytes.split_off(length);
        let body = std::mem::replace(&mut bytes, rest);
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let id = header("webhook-id");
        let (status, when) = shared.answer(&path, &id);
        let received = Received {
            timestamp: header("webhook-timestamp"),
            signature: header("webhook-signature"),
            body: String::from_utf8_lossy(&body).into_owned(),
            taken: status == 204,
            at: Instant::now(),
            path,
            id,
        };
        let note = || {
            let mut all = shared.received();
            all.push(received);
            let count = all.len();
            drop(all);
            shared.count.send_replace(count);
        };
        let Some(when) = when else {
            note();
            // Until the other side gives up.
            while stream.read_buf(&mut bytes).await? > 0 {}
            return Ok(());
        };
        if !when.is_zero() {
            tokio::time::sleep(when).await;
        }
        note();
        let location = match status {
            302 => format!("location: http://{}/takes/redirected\r\n", shared.address),
            _ => String::new(),
        };
        let answer = format!("HTTP/1.1 {status} Said\r\n{location}content-length: 0\r\n\r\n");
        let answer = answer.replace("204 Said\r\ncontent-length: 0", "204 Said");
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
