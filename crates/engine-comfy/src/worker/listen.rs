//! The socket of a worker: one for all of its jobs, opened again whenever it ends.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use super::{LOST_AFTER, Signal, Worker};
use crate::client::{WorkerClient, WorkerError};
use crate::frames::{MOST_TEXT_BYTES, read_binary, read_text};

/// How often a socket is pinged: a worker that works answers while its nodes do not speak.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Pauses before a socket is opened again: the first and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Longest message, in bytes: pictures of previews and of `SaveImageWebsocket`.
const MOST_BYTES: usize = 32 << 20;

/// What our socket understands.
pub(crate) const FEATURES: &str =
    r#"{"type":"feature_flags","data":{"supports_preview_metadata":true}}"#;

/// A socket to a worker.
pub(crate) type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

impl Worker {
    /// Hears the worker for ever.
    pub(super) async fn listen(&self) {
        let mut pause = AGAIN.0;
        loop {
            match open(&self.client, &self.client_id).await {
                Ok(socket) => {
                    pause = AGAIN.0;
                    self.opened();
                    self.hear(socket).await;
                    self.shared().connected = false;
                    // Why it ended is seen at its health.
                    self.look.notify_one();
                }
                Err(error) => {
                    tracing::debug!(worker = self.name, %error, "no socket to a worker");
                    pause = (pause * 2).min(AGAIN.1);
                }
            }
            sleep(pause).await;
        }
    }

    fn opened(&self) {
        self.shared().connected = true;
        self.opened.notify_waiters();
        if let Some(route) = &*self.routes() {
            // A run that has thousands of messages to read looks at the history anyway.
            let _ = route.signals.try_send(Signal::Reconnected);
        }
    }

    /// Hears a socket until it ends, or nothing comes for long.
    async fn hear(&self, mut socket: Socket) {
        if socket.send(Message::text(FEATURES)).await.is_err() {
            return;
        }
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        loop {
            tokio::select! {
                message = socket.next() => {
                    let Some(Ok(message)) = message else {
                        return;
                    };
                    heard_at = Instant::now();
                    self.shared().alive_at = heard_at;
                    self.said(message);
                }
                _ = ping.tick() => {
                    let is_dead = heard_at.elapsed() > LOST_AFTER;
                    let pinged = tokio::time::timeout(PING_EVERY, socket.send(Message::Ping(Default::default())));
                    if is_dead || !matches!(pinged.await, Ok(Ok(()))) {
                        return;
                    }
                }
            }
        }
    }

    fn said(&self, message: Message) {
        let heard = match message {
            Message::Text(text) if text.len() <= MOST_TEXT_BYTES => read_text(&text),
            Message::Binary(bytes) => read_binary(bytes),
            Message::Text(_)
            | Message::Ping(_)
            | Message::Pong(_)
            | Message::Close(_)
            | Message::Frame(_) => None,
        };
        if let Some(heard) = heard {
            self.hand_on(heard);
        }
    }
}

/// Opens a socket to the worker of a client.
pub(crate) async fn open(client: &WorkerClient, client_id: &str) -> Result<Socket, WorkerError> {
    let key = generate_key();
    let answer = client.upgrade(client_id, &key).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = answer.status().as_u16();
        return Err(WorkerError::Status {
            path: "/ws",
            status,
        });
    }
    let accepted = answer.headers().get(http::header::SEC_WEBSOCKET_ACCEPT);
    if accepted
        .is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
    {
        return Err(WorkerError::Garbage("/ws"));
    }
    let upgraded = hyper::upgrade::on(answer).await;
    let upgraded = upgraded.map_err(|_| WorkerError::Garbage("/ws"))?;
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(MOST_BYTES);
    config.max_frame_size = Some(MOST_BYTES);
    let socket =
        WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config));
    Ok(socket.await)
}
