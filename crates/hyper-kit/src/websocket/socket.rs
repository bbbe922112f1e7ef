//! One socket from its upgrade to its end.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use super::{Conversation, Outgoing, SocketLimits};

/// Pings that may go unanswered.
const MISSES: u32 = 2;

type Stream = WebSocketStream<TokioIo<Upgraded>>;

/// How a socket ends.
enum End {
    /// There is nobody to say goodbye to: the client closed, broke off, stalled or died.
    Gone,
    /// This side ends it.
    Close(CloseCode),
}

/// Speaks until either side ends it. The conversation is over before the goodbye is said.
pub(super) async fn run<C: Conversation>(
    upgraded: Upgraded,
    conversation: Box<C>,
    limits: &SocketLimits,
    drain: &CancellationToken,
) {
    let config = WebSocketConfig::default()
        .read_buffer_size(limits.read_buffer_bytes)
        // Every message is written at once: there is nothing to gather.
        .write_buffer_size(0)
        .max_write_buffer_size(limits.outbound_bytes)
        .max_message_size(Some(limits.inbound_bytes))
        .max_frame_size(Some(limits.inbound_bytes));
    let io = TokioIo::new(upgraded);
    let mut stream = Stream::from_raw_socket(io, Role::Server, Some(config)).await;
    match converse(&mut stream, conversation, limits, drain).await {
        End::Gone => {}
        End::Close(code) => say_goodbye(&mut stream, code, limits.goodbye).await,
    }
}

async fn converse<C: Conversation>(
    stream: &mut Stream,
    mut conversation: Box<C>,
    limits: &SocketLimits,
    drain: &CancellationToken,
) -> End {
    let mut pings = interval_at(Instant::now() + limits.ping, limits.ping);
    // A tick that comes late is no reason for another one at once: what is sent in between would wait for both.
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut silent = 0;
    loop {
        let message = tokio::select! {
            biased;
            () = drain.cancelled() => return End::Close(CloseCode::Away),
            heard = stream.next() => {
                silent = 0;
                match heard {
                    Some(Ok(Message::Text(text))) => conversation.hear(&text),
                    // Pings are answered and closes confirmed by the stream itself, with what is written next.
                    Some(Ok(Message::Ping(_))) => {
                        if timeout(limits.stall, stream.flush()).await.is_err() {
                            return End::Gone;
                        }
                    }
                    Some(Ok(Message::Binary(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_))) => return End::Close(CloseCode::Normal),
                    Some(Err(error)) => return refused(&error),
                    None => return End::Gone,
                }
                continue;
            }
            _ = pings.tick() => {
                if silent == MISSES {
                    return End::Gone;
                }
                silent += 1;
                // Nobody waits for a store that hangs, least of all a drain.
                let asked = timeout(limits.goodbye, conversation.may_stay());
                let may_stay = tokio::select! {
                    biased;
                    () = drain.cancelled() => return End::Close(CloseCode::Away),
                    may_stay = asked => may_stay,
                };
                if matches!(may_stay, Ok(false)) {
                    return End::Close(CloseCode::Policy);
                }
                Message::Ping(Bytes::new())
            }
            said = conversation.next() => match said {
                Some(said) => message(said),
                None => return End::Close(CloseCode::Normal),
            },
        };
        if message.len() > limits.outbound_bytes {
            return End::Close(CloseCode::Size);
        }
        // Nobody waits for a drain behind a reader that stalls: its deadline is short enough.
        match timeout(limits.stall, stream.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return End::Gone,
        }
    }
}

/// What a client that breaks the rules is told.
fn refused(error: &tokio_tungstenite::tungstenite::Error) -> End {
    use tokio_tungstenite::tungstenite::Error;
    tracing::debug!(%error, "a socket broke off");
    if matches!(error, Error::Capacity(_)) {
        End::Close(CloseCode::Size)
    } else if matches!(error, Error::Protocol(_)) {
        End::Close(CloseCode::Protocol)
    } else if matches!(error, Error::Utf8(_)) {
        End::Close(CloseCode::Invalid)
    } else {
        End::Gone
    }
}

fn message(said: Outgoing) -> Message {
    match said {
        Outgoing::Text(text) => Message::Text(Utf8Bytes::from(&*text)),
        Outgoing::Binary(head, rest) => {
            let mut bytes = BytesMut::with_capacity(head.len() + rest.len());
            bytes.put(head);
            bytes.put(rest);
            Message::Binary(bytes.freeze())
        }
    }
}

/// Says why the socket ends and waits a little for the other side to agree.
async fn say_goodbye(stream: &mut Stream, code: CloseCode, patience: Duration) {
    let reason = Utf8Bytes::from_static(if code == CloseCode::Away {
        "the server goes away"
    } else if code == CloseCode::Policy {
        "the credential counts no more"
    } else {
        ""
    });
    let goodbye = async {
        if stream
            .close(Some(CloseFrame { code, reason }))
            .await
            .is_ok()
        {
            while let Some(Ok(_)) = stream.next().await {}
        }
    };
    // A peer that does not answer has had its chance.
    let _ = timeout(patience, goodbye).await;
}
