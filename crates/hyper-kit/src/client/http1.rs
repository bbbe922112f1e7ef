//! One request and its answer over a connection of HTTP/1.1.
//!
//! A call of a partner waits for minutes, thousands of them at once, so nothing is held meanwhile but the socket: the request
//! is gone once it is written, and room for the answer is made when it comes. The waiting task is woken by the socket itself.

mod framing;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod head;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::broken;
use super::connect::Stream;
use super::error::FetchError;
use super::policy::Target;
use super::pool::Lease;
use crate::body::{Body, BoxError};
use framing::Framing;
use head::{Announced, Head, Malformed};

/// How much is read at once, into room on the stack.
const READ_BYTES: usize = 32 * 1024;

/// The body of an answer; its connection is kept for another request if it is read to its end.
struct Incoming {
    lease: Option<Lease>,
    received: BytesMut,
    framing: Framing,
    is_kept: bool,
}

/// A request on its way over a connection: what is left of it once its head is written out.
pub(super) struct Message {
    lease: Lease,
    /// To be written next.
    pieces: VecDeque<Bytes>,
    /// What has not been read yet; nothing once the last of it is among the pieces.
    body: Option<Body>,
    /// What its head says of that.
    announced: Announced,
    /// Whether it asks for a head alone.
    is_head: bool,
    /// Whether the connection has taken a byte of it.
    is_begun: bool,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The server may have seen the request.
    Failed(FetchError),
    /// The connection had closed before it took a byte of the request, which is whole and may go over another one.
    Unsent(Box<Message>, io::Error),
}

impl From<FetchError> for Unanswered {
    fn from(error: FetchError) -> Self {
        Self::Failed(error)
    }
}

impl Message {
    /// On the heap, since it is handed on from one hand to the next.
    pub(super) fn new(request: Request<Body>, lease: Lease) -> Box<Self> {
        let announced = announced(&request);
        let head = head::written(&request, || lease.host(), announced);
        Box::new(Self {
            lease,
            pieces: VecDeque::from([Bytes::from(head)]),
            announced,
            is_head: *request.method() == Method::HEAD,
            is_begun: false,
            body: Some(request.into_body()),
        })
    }

    /// Where it goes.
    pub(super) fn target(&self) -> &Target {
        self.lease.target()
    }

    /// The same over another connection to the same host; it must not have been begun.
    pub(super) fn over(mut self: Box<Self>, lease: Lease) -> Box<Self> {
        self.lease = lease;
        self
    }

    /// Adds bytes of the body. More than were announced would be read as another request.
    fn add(&mut self, data: Bytes) -> Result<(), FetchError> {
        match &mut self.announced {
            Announced::Nothing | Announced::Chunks if data.is_empty() => {}
            Announced::Chunks => {
                let size = format!("{:x}\r\n", data.len());
                let chunk = [size.into(), data, Bytes::from_static(b"\r\n")];
                self.pieces.extend(chunk);
            }
            Announced::Nothing => return Err(misannounced()),
            Announced::Length(left) => {
                let rest = left.checked_sub(data.len() as u64);
                *left = rest.ok_or_else(misannounced)?;
                self.pieces.push_back(data);
            }
        }
        Ok(())
    }

    /// Ends the body, of which nothing may be missing: what comes next over the connection would be taken for it.
    fn finish(&mut self) -> Result<(), FetchError> {
        match self.announced {
            Announced::Nothing | Announced::Length(0) => Ok(()),
            Announced::Chunks => {
                self.pieces.push_back(Bytes::from_static(b"0\r\n\r\n"));
                Ok(())
            }
            Announced::Length(_) => Err(misannounced()),
        }
    }
}

fn misannounced() -> FetchError {
    FetchError::Broken {
        cause: "the body of the request has not the length that it was announced with".to_owned(),
    }
}

/// Sends a request, and returns the head of its answer with the body still to be read.
pub(super) async fn exchange(mut message: Box<Message>) -> Result<Response<Body>, Unanswered> {
    let mut received = BytesMut::new();
    let sent = send(&mut message, &mut received).await?;
    let sent = match sent {
        Sent::Refused(error) if !message.is_begun && message.lease.stream.fails_whole() => {
            return Err(Unanswered::Unsent(message, error));
        }
        sent @ (Sent::Whole | Sent::Partly | Sent::Refused(_)) => sent,
    };
    let received_head = receive(&mut message.lease.stream, &mut received).await;
    let mut head = match (received_head, &sent) {
        (Ok(head), _) => head,
        (Err(_), Sent::Refused(error)) => return Err(broken(error).into()),
        (Err(error), Sent::Whole | Sent::Partly) => return Err(broken(&error).into()),
    };
    let framing = head.framing(message.is_head);
    let framing = framing.map_err(|malformed| broken(&malformed))?;
    let is_kept = matches!(sent, Sent::Whole) && head.keeps_alive();
    let mut body = Incoming {
        lease: Some(message.lease),
        received,
        framing,
        is_kept,
    };
    body.end();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.version_mut() = head.version;
    *response.headers_mut() = head.headers;
    Ok(response)
}

/// How much of a request was sent.
enum Sent {
    Whole,
    /// The answer began before its end.
    Partly,
    /// The server closed before its end. It may have answered all the same.
    Refused(io::Error),
}

async fn send(message: &mut Message, received: &mut BytesMut) -> Result<Sent, FetchError> {
    // What another connection did not take, with no body behind it.
    if message.body.is_none() && !message.pieces.is_empty() {
        match write(message, received).await {
            Ok(Sent::Whole) => {}
            Ok(partly) => return Ok(partly),
            Err(error) => return Ok(Sent::Refused(error)),
        }
    }
    while let Some(mut body) = message.body.take() {
        let frame = match body.is_end_stream() {
            true => None,
            false => {
                let frame = body.frame().await.transpose();
                frame.map_err(|cause| broken(&*cause))?
            }
        };
        // The maker of the body learns by its end that its last piece goes out.
        let is_last = frame.is_none() || body.is_end_stream();
        if let Some(data) = frame.and_then(|frame| frame.into_data().ok()) {
            message.add(data)?;
        }
        if is_last {
            message.finish()?;
        }
        match write(message, received).await {
            Ok(Sent::Whole) => message.body = (!is_last).then_some(body),
            Ok(partly) => return Ok(partly),
            Err(error) => {
                // What goes over another connection goes there with the rest of its body.
                message.body = (!is_last).then_some(body);
                return Ok(Sent::Refused(error));
            }
        }
    }
    // A call may wait for hours now.
    message.pieces = VecDeque::new();
    Ok(Sent::Whole)
}

fn announced(request: &Request<Body>) -> Announced {
    let usually_has_none = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS
    );
    match request.body().size_hint().exact() {
        Some(0) if usually_has_none => Announced::Nothing,
        Some(length) => Announced::Length(length),
        None => Announced::Chunks,
    }
}

/// Writes the pieces of a message until all are out, or an answer comes before.
async fn write(message: &mut Message, received: &mut BytesMut) -> io::Result<Sent> {
    let Message {
        lease,
        pieces,
        is_begun,
        ..
    } = message;
    let stream = &mut lease.stream;
    poll_fn(|cx| {
        while !pieces.is_empty() {
            match poll_write(stream, pieces, cx) {
                Poll::Ready(written) => {
                    forget(pieces, written?);
                    *is_begun = true;
                }
                Poll::Pending => {
                    return Poll::Ready(match ready!(poll_read(stream, received, cx))? {
                        0 => Err(io::ErrorKind::BrokenPipe.into()),
                        _ => Ok(Sent::Partly),
                    });
                }
            }
        }
        Pin::new(&mut *stream)
            .poll_flush(cx)
            .map_ok(|()| Sent::Whole)
    })
    .await
}

fn poll_write(
    stream: &mut Stream,
    pieces: &VecDeque<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); 4];
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
    }
    let count = pieces.len().min(slices.len());
    match ready!(Pin::new(stream).poll_write_vectored(cx, &slices[..count])) {
        Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(written),
    }
}

fn forget(pieces: &mut VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = pieces.front_mut() {
        if first.len() > written {
            first.advance(written);
            return;
        }
        written -= first.len();
        pieces.pop_front();
    }
}

/// Waits for the head of the answer.
async fn receive(stream: &mut Stream, received: &mut BytesMut) -> io::Result<Head> {
    let malformed = |malformed: Malformed| io::Error::new(io::ErrorKind::InvalidData, malformed);
    let mut seen = 0;
    loop {
        while let Some(end) = head::end(received, seen).map_err(malformed)? {
            let head = Head::read(&received.split_to(end).freeze()).map_err(malformed)?;
            if !head.is_interim() {
                return Ok(head);
            }
            seen = 0;
        }
        seen = received.len();
        if poll_fn(|cx| poll_read(stream, received, cx)).await? == 0 {
            let closed = "the connection was closed before the answer";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, closed));
        }
    }
}

/// Reads what there is, and how much it is; 0 at the end.
fn poll_read(
    stream: &mut Stream,
    received: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    // On the stack: a connection that waits has no room set aside.
    let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
    let mut space = ReadBuf::uninit(&mut space);
    ready!(Pin::new(stream).poll_read(cx, &mut space))?;
    received.extend_from_slice(space.filled());
    Poll::Ready(Ok(space.filled().len()))
}

// === impl Incoming ===

impl Incoming {
    /// Lets the connection go if the body is over: for another request, where it may have one.
    fn end(&mut self) {
        if self.framing != Framing::Over {
            return;
        }
        let lease = self.lease.take();
        // What was not asked for belongs to no answer.
        if let Some(lease) = lease.filter(|_| self.is_kept && self.received.is_empty()) {
            lease.keep();
        }
    }

    fn fail(&mut self, cause: impl Into<BoxError>) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.lease = None;
        self.framing = Framing::Over;
        Some(Err(cause.into()))
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = &mut *self;
        loop {
            let taken = body.framing.take(&mut body.received);
            body.end();
            match taken {
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(None) => {}
                Err(malformed) => return Poll::Ready(body.fail(malformed)),
            }
            let Some(lease) = &mut body.lease else {
                return Poll::Ready(None);
            };
            match ready!(poll_read(&mut lease.stream, &mut body.received, cx)) {
                Ok(0) if body.framing.may_be_closed() => {
                    body.lease = None;
                    body.framing = Framing::Over;
                }
                Ok(0) => {
                    return Poll::Ready(body.fail("the connection was closed within the answer"));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(body.fail(error)),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.framing == Framing::Over
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Over => SizeHint::with_exact(0),
            Framing::Chunks { .. } | Framing::UntilClosed => SizeHint::default(),
        }
    }
}
