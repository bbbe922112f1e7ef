//! An answer that comes as a stream: the partner's pieces go to the caller as they come, and a copy is kept for the key.
//!
//! The work does not end with its caller. Who left, or takes nothing for a while, is given up, and the rest of the stream is
//! read all the same: it tells what the call costs, and its copy answers the key. What is held of a stream is bounded by
//! [`WAITING_PIECES`] and by the cap on what a key replays.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::call::running::Running;
use crate::{Answer, Bucket, Serving, Timer};

/// Pieces that may wait for a caller: at some 32 KiB each, 128 KiB for a caller that reads slowly.
const WAITING_PIECES: usize = 4;

/// How long a caller may take nothing. Then its stream is cut, because the partner must not be held up without end.
const STALL: Duration = Duration::from_secs(30);

/// Where a provider puts an answer that comes as a stream.
pub struct AnswerSink {
    content_type: String,
    kept: BytesMut,
    /// Most bytes that are kept.
    most_kept: usize,
    /// Who hears of it, in a router.
    audience: Option<Audience>,
}

struct Audience {
    running: Arc<Running>,
    timer: Arc<dyn Timer>,
    /// Who serves the call, if it names its providers.
    serving: Option<Box<Serving>>,
    caller: Caller,
}

/// The caller of a stream.
enum Caller {
    /// It waits for the first piece.
    Waiting,
    /// It gets every piece.
    Taking(mpsc::Sender<Bytes>),
    /// It left or takes nothing, or there was none.
    Gone,
}

/// The pieces behind the first one of an answer that comes as a stream.
pub struct AnswerStream {
    pieces: mpsc::Receiver<Bytes>,
    ending: oneshot::Receiver<StreamEnding>,
    deadline: Option<BoxFuture<'static, ()>>,
    is_over: bool,
}

/// The next of an [`AnswerStream`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// More bytes.
    Piece(Bytes),
    /// That was all; comes once.
    Ended(StreamEnding),
}

/// How a stream ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// The partner ended it. If an event of it told a failure, this is its bucket.
    Whole(Option<Bucket>),
    /// It broke off: the caller must not take what it has for the whole.
    Cut(Bucket),
}

// === impl AnswerSink ===

impl AnswerSink {
    /// Passes a stream to nobody and keeps its bytes, whose number its provider bounds.
    #[must_use]
    pub fn keeping() -> Self {
        Self {
            content_type: String::new(),
            kept: BytesMut::new(),
            most_kept: usize::MAX,
            audience: None,
        }
    }

    /// Passes a stream to the caller of a generation, and keeps at most so many of its bytes.
    pub(crate) fn passing(
        running: &Arc<Running>,
        timer: &Arc<dyn Timer>,
        serving: Option<Box<Serving>>,
        most_kept: usize,
    ) -> Self {
        Self {
            content_type: String::new(),
            kept: BytesMut::new(),
            most_kept,
            audience: Some(Audience {
                running: Arc::clone(running),
                timer: Arc::clone(timer),
                serving,
                caller: Caller::Waiting,
            }),
        }
    }

    /// The partner answers with a stream of this media type. Nothing is passed on before its first bytes.
    pub fn begin(&mut self, content_type: String) {
        self.content_type = content_type;
    }

    /// Passes bytes on. Waits while the caller takes nothing, for a bounded time.
    pub async fn pass(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let room = self.most_kept.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(audience) = &mut self.audience {
            audience.pass(bytes, &self.content_type).await;
        }
    }

    /// The partner ended the stream: all of it was passed on. What is kept of it is the answer: nothing if nobody else can ask
    /// for it, and more than [`REPLAY_CAP_BYTES`](crate::REPLAY_CAP_BYTES) where a key does not replay the whole.
    #[must_use]
    pub fn finish(self) -> Answer {
        if let Some(audience) = &self.audience {
            audience.running.streamed();
        }
        Answer {
            content_type: self.content_type,
            body: self.kept.freeze(),
        }
    }
}

impl Audience {
    async fn pass(&mut self, bytes: Bytes, content_type: &str) {
        match &self.caller {
            Caller::Gone => {}
            Caller::Waiting => {
                let answer = Answer {
                    content_type: content_type.to_owned(),
                    body: bytes,
                };
                let begun = self.running.stream(answer, self.serving.take());
                self.caller = begun.map_or(Caller::Gone, Caller::Taking);
            }
            Caller::Taking(caller) => {
                let sent = match caller.try_send(bytes) {
                    Ok(()) => true,
                    Err(mpsc::error::TrySendError::Closed(_)) => false,
                    Err(mpsc::error::TrySendError::Full(bytes)) => tokio::select! {
                        biased;
                        sent = caller.send(bytes) => sent.is_ok(),
                        () = self.timer.sleep(STALL) => false,
                    },
                };
                if !sent {
                    self.running.cut_stream(Bucket::ClientDisconnected);
                    self.caller = Caller::Gone;
                }
            }
        }
    }
}

// === impl AnswerStream ===

/// A stream for a caller, and what feeds and ends it.
pub(crate) fn channel() -> (
    mpsc::Sender<Bytes>,
    oneshot::Sender<StreamEnding>,
    AnswerStream,
) {
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    let (end, ending) = oneshot::channel();
    let stream = AnswerStream {
        pieces,
        ending,
        deadline: None,
        is_over: false,
    };
    (sender, end, stream)
}

impl AnswerStream {
    /// Cuts the stream after so long.
    pub(crate) fn bounded(&mut self, timer: Arc<dyn Timer>, left: Duration) {
        self.deadline = Some(async move { timer.sleep(left).await }.boxed());
    }

    /// The next piece, or how it ended; `None` after that. The end comes once the end of the work is durable.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamStep>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let is_late = self
            .deadline
            .as_mut()
            .is_some_and(|deadline| deadline.poll_unpin(cx).is_ready());
        let ending = if is_late {
            StreamEnding::Cut(Bucket::DeadlineExceeded)
        } else {
            if let Some(piece) = ready!(self.pieces.poll_recv(cx)) {
                return Poll::Ready(Some(StreamStep::Piece(piece)));
            }
            // Nobody is left to tell how it ended when the router stops.
            let ending = ready!(self.ending.poll_unpin(cx));
            ending.unwrap_or(StreamEnding::Cut(Bucket::ServiceUnavailable))
        };
        self.is_over = true;
        self.pieces.close();
        Poll::Ready(Some(StreamStep::Ended(ending)))
    }
}

impl std::fmt::Debug for AnswerSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnswerSink({})", self.content_type)
    }
}

impl std::fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerStream")
    }
}
