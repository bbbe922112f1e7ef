//! Records the exchanges with a partner, for people who write catalogs. Secrets are masked before a listener gets anything.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// One request and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The address, its secrets masked.
    pub url: String,
    /// The headers that were sent, their secrets masked.
    pub headers: Vec<(String, String)>,
    /// The body that was sent.
    pub body: Bytes,
    /// The answer, or why there is none.
    pub outcome: Result<Received, String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The status.
    pub status: u16,
    /// The headers, secrets masked.
    pub headers: Vec<(String, String)>,
    /// The body, as it came; text in it has its secrets masked.
    pub body: Bytes,
}

/// What is heard of a talk, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An exchange that is over.
    Exchange(Exchange),
    /// An exchange whose answer is a stream: its body is empty and follows.
    Stream(Exchange),
    /// More of a stream: whole lines, and at its end what is left. Their secrets are masked.
    More(Bytes),
    /// The stream is over; or why it broke off.
    Ended(Result<(), String>),
}

/// Who listens in.
type Listener = dyn FnMut(Heard) + Send;

/// Tells a listener of exchanges while they happen.
#[derive(Clone)]
pub struct ExchangeRecorder(Arc<Mutex<Listener>>);

impl ExchangeRecorder {
    /// Tells `listener`.
    #[must_use]
    pub fn new(listener: impl FnMut(Heard) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(listener)))
    }

    pub(crate) fn tell(&self, heard: Heard) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listener(heard);
    }
}

impl fmt::Debug for ExchangeRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExchangeRecorder")
    }
}
