//! The one way out: an address is vetted, then the credential is put on, then the request is sent.
//!
//! No redirect is followed, so a credential goes where it was sent and nowhere else. What comes back is read under a
//! bound of size and time; its headers serve rules, and nothing of them but the media type goes further: hop-by-hop
//! headers, cookies and encodings end here.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper_kit::{Body, BodyError, Client, FetchError, Host, ReadPace, read_limited};
use jiff::Timestamp;
use router_core::Contact;
use tokio::time::{Instant, timeout, timeout_at};
use trace_context::{TARGET, TraceContext};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, trace_span};

use super::decode::{DecodeError, decoded};
use super::opened::OpenAnswer;
use super::recorder::{Exchange, ExchangeRecorder, Heard, Received};
use super::tracked_body::TrackedBody;
use crate::credential::{MASK, Signed};
use crate::definition::HostPattern;
use crate::interpret::Reply;
use crate::keys::PartnerKeys;

/// Names the span of an exchange to the partner.
const TRACEPARENT: HeaderName = HeaderName::from_static(trace_context::HEADER);

/// The longest silence within an answer.
const IDLE: Duration = Duration::from_secs(60);

/// How a partner is reached: where its credentials may go, and the keys that hold them.
#[derive(Clone, Debug)]
pub(crate) struct Egress {
    pub(crate) client: Client,
    /// Where credentials may go.
    pub(crate) allowed: Vec<HostPattern>,
    /// The hosts and ports that may be asked without TLS.
    pub(crate) exempt: Vec<Host>,
    pub(crate) keys: PartnerKeys,
    /// Hears of every exchange.
    pub(crate) recorder: Option<ExchangeRecorder>,
}

/// A request that is to go out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The number of the key that it goes with.
    pub(crate) key: u8,
    pub(crate) method: Method,
    pub(crate) address: Address,
    pub(crate) headers: HeaderMap,
    /// With its media type.
    pub(crate) body: Option<(Bytes, HeaderValue)>,
    /// To be told when the whole request is written.
    pub(crate) written: Option<Contact>,
    pub(crate) timeout: Duration,
    pub(crate) max_answer_bytes: usize,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// It was vetted when the catalog was loaded.
    Vetted(Uri),
    /// Filled in for this request, or told by a partner.
    Told(String),
}

/// An exchange under way.
struct Begun<'a> {
    sending: BoxFuture<'a, Result<Response<Body>, FetchError>>,
    limit: Duration,
    max_bytes: usize,
    /// What is recorded of it where an exchange is recorded.
    noted: Option<Box<Exchange>>,
    span: Span,
}

/// The address is not one that the partner's credential may go to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} is not among the hosts that this partner's credential may go to")]
pub(crate) struct Refused {
    pub(crate) host: String,
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing was sent: the address is refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing was sent: no connection, or no address.
    #[error("nothing was sent")]
    Unsent(#[source] FetchError),
    /// No answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The connection broke after the request was begun.
    #[error("{0}")]
    Broken(String),
    /// The answer is longer than is taken.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    /// The answer is encoded in a way that is not understood.
    #[error("the answer has an encoding that is not understood")]
    Encoding,
}

impl Egress {
    /// Sends a request, and takes the answer. `now` is the time of the credential.
    ///
    /// What is sent is the connection's before anything waits, so that the task that waits for the answer does not hold it as well.
    pub(crate) fn send(
        &self,
        outgoing: Outgoing,
        now: Timestamp,
    ) -> impl Future<Output = Result<Reply, Trouble>> + Send {
        let begun = self.begin(outgoing, now);
        async move {
            let Begun {
                sending,
                limit,
                max_bytes,
                noted,
                span,
            } = begun?;
            let whole = async {
                let answer = sending.await.map_err(untaken)?;
                read(answer, max_bytes, now).boxed().await
            };
            let result = timeout(limit, whole).instrument(span.clone()).await;
            let result = result.unwrap_or(Err(Trouble::TimedOut));
            note_end(&span, result.as_ref().map(|reply| reply.status));
            if let Some(noted) = noted {
                self.note(*noted, result.as_ref());
            }
            result
        }
    }

    /// Sends a request, and takes the head of the answer. `now` is the time of the credential.
    pub(crate) async fn open(
        &self,
        outgoing: Outgoing,
        now: Timestamp,
    ) -> Result<OpenAnswer, Trouble> {
        let Begun {
            sending,
            limit,
            max_bytes,
            noted,
            span,
        } = self.begin(outgoing, now)?;
        let until = Instant::now() + limit;
        let answer = match timeout_at(until, sending).instrument(span.clone()).await {
            Ok(answer) => answer.map_err(untaken),
            Err(_) => Err(Trouble::TimedOut),
        };
        note_end(&span, answer.as_ref().map(|head| head.status().as_u16()));
        match answer {
            Ok(answer) => Ok(OpenAnswer::new(answer, (until, max_bytes), noted, span)),
            Err(trouble) => {
                if let Some(noted) = noted {
                    self.note(*noted, Err(&trouble));
                }
                Err(trouble)
            }
        }
    }

    /// Vets the address, shows the credential, and begins to send.
    fn begin(&self, outgoing: Outgoing, now: Timestamp) -> Result<Begun<'_>, Trouble> {
        let address = self.vet(outgoing.address)?;
        let mut headers = outgoing.headers;
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut bytes = Bytes::new();
        if let Some((body, media_type)) = outgoing.body {
            bytes = body;
            headers.insert(CONTENT_TYPE, media_type);
        }
        let signed = Signed {
            method: &outgoing.method,
            body: &bytes,
            now,
        };
        let credential = self.keys.credential(outgoing.key);
        let shown = credential.show(&mut headers, address, signed);
        let uri =
            shown.map_err(|_| Trouble::Unsent(FetchError::BadUrl("it is too long to be asked")))?;

        let noted = self.recorder.is_some().then(|| {
            Box::new(Exchange {
                method: outgoing.method.to_string(),
                url: self.keys.mask(&uri.to_string()),
                headers: self.shown(&headers),
                body: self.masked(&bytes),
                outcome: Err("it was given up".to_owned()),
            })
        });
        let body = Body::new(TrackedBody::new(bytes, outgoing.written));
        let mut request = Request::new(body);
        *request.method_mut() = outgoing.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let span = span_of(&request);
        if let Some(context) = TraceContext::of(&span) {
            // Not signed, and in no recording: it is the server's own and says nothing of the call.
            let context = HeaderValue::try_from(context.to_string());
            let headers = request.headers_mut();
            headers.extend(context.ok().map(|context| (TRACEPARENT, context)));
        }
        Ok(Begun {
            sending: self.client.send(request),
            limit: outgoing.timeout,
            max_bytes: outgoing.max_answer_bytes,
            noted,
            span,
        })
    }

    /// Tells the recorder what came of an exchange.
    pub(super) fn note(&self, mut exchange: Exchange, result: Result<&Reply, &Trouble>) {
        exchange.outcome = match result {
            Ok(reply) => Ok(self.received(reply.status, &reply.headers, &reply.body)),
            Err(trouble) => Err(self.trouble(trouble)),
        };
        self.tell(Heard::Exchange(exchange));
    }

    /// An answer as it may be shown.
    pub(super) fn received(&self, status: u16, headers: &HeaderMap, body: &Bytes) -> Received {
        Received {
            status,
            headers: self.shown(headers),
            body: self.masked(body),
        }
    }

    /// A trouble as it may be shown.
    pub(super) fn trouble(&self, trouble: &Trouble) -> String {
        self.keys.mask(&told(trouble))
    }

    pub(super) fn tell(&self, heard: Heard) {
        if let Some(recorder) = &self.recorder {
            recorder.tell(heard);
        }
    }

    /// Reads an address that a credential may go to: over TLS, or to a host that the operator exempted from it, and among
    /// the partner's hosts.
    pub(crate) fn vet(&self, address: Address) -> Result<Uri, Refused> {
        let url = match address {
            Address::Vetted(uri) => return Ok(uri),
            Address::Told(url) => url,
        };
        let uri: Uri = url.parse().map_err(|_| Refused {
            host: "an address that cannot be read".to_owned(),
        })?;
        let host = uri
            .authority()
            .and_then(|authority| Host::parse(authority.as_str()))
            .ok_or_else(|| Refused {
                host: "an address without a host".to_owned(),
            })?;
        let default_port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") if self.exempt.iter().any(|exempt| exempt.same_as(&host, 80)) => 80,
            Some(_) | None => {
                return Err(Refused {
                    host: host.to_string(),
                });
            }
        };
        if self
            .allowed
            .iter()
            .any(|pattern| pattern.fits(&host, default_port))
        {
            Ok(uri)
        } else {
            Err(Refused {
                host: host.to_string(),
            })
        }
    }

    /// Headers as they may be shown.
    fn shown(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown = headers.iter().map(|(name, value)| {
            let value = if value.is_sensitive() {
                MASK.to_owned()
            } else {
                self.keys.mask(&String::from_utf8_lossy(value.as_bytes()))
            };
            (name.to_string(), value)
        });
        shown.collect()
    }

    /// A body as it may be shown. Bytes that are no text are as they are, since a secret is a text.
    pub(super) fn masked(&self, bytes: &Bytes) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) if self.keys.is_in(bytes) => self.keys.mask(text).into(),
            Ok(_) | Err(_) => bytes.clone(),
        }
    }
}

/// The span of an exchange. Of the address it has the host alone: paths and queries may have credentials in them.
fn span_of(request: &Request<Body>) -> Span {
    trace_span!(
        target: TARGET,
        "partner request",
        otel.kind = "client",
        http.request.method = %request.method(),
        server.address = request.uri().host(),
        http.response.status_code = Empty,
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Notes in the span of an exchange what came of it.
pub(super) fn note_end(span: &Span, ended: Result<u16, &Trouble>) {
    if span.is_disabled() {
        return;
    }
    let failed = match ended {
        Ok(status) => {
            span.record("http.response.status_code", status);
            status >= 400
        }
        Err(trouble) => {
            span.record("error.type", trouble.kind());
            true
        }
    };
    if failed {
        span.record("otel.status_code", "ERROR");
    }
}

impl Trouble {
    /// A word for it, without what a partner or an address said.
    fn kind(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Unsent(_) => "unsent",
            Self::TimedOut => "timeout",
            Self::Broken(_) => "broken",
            Self::TooLarge(_) => "too_large",
            Self::Encoding => "encoding",
        }
    }
}

/// A request without an answer.
fn untaken(error: FetchError) -> Trouble {
    if error.is_unsent() {
        Trouble::Unsent(error)
    } else {
        Trouble::Broken(error.to_string())
    }
}

/// Reads a whole answer.
pub(super) async fn read(
    answer: Response<Body>,
    max_bytes: usize,
    now: Timestamp,
) -> Result<Reply, Trouble> {
    let (head, body) = answer.into_parts();
    let pace = ReadPace {
        idle: IDLE,
        grace: IDLE,
        // The time for the whole bounds a trickle.
        min_bytes_per_second: 0,
    };
    let bytes = read_limited(body, max_bytes, pace)
        .await
        .map_err(|error| match error {
            BodyError::TooLarge { .. } => Trouble::TooLarge(max_bytes),
            BodyError::Idle => Trouble::TimedOut,
            BodyError::Broken(cause) => Trouble::Broken(cause.to_string()),
        })?;
    let text = |name| head.headers.get(name)?.to_str().ok();
    let encodings = head.headers.get_all(CONTENT_ENCODING).iter().count();
    let encoding = match encodings {
        0 | 1 => text(CONTENT_ENCODING),
        _ => Some("several"),
    };
    let body = decoded(bytes, encoding, max_bytes).map_err(|error| match error {
        DecodeError::TooLarge => Trouble::TooLarge(max_bytes),
        DecodeError::Unreadable => Trouble::Encoding,
    })?;
    let retry_after = text(RETRY_AFTER).and_then(|text| retry_after(text, now));
    Ok(Reply {
        status: head.status.as_u16(),
        headers: Box::new(head.headers),
        retry_after,
        body,
    })
}

/// The time that a partner asks for: in seconds, or as the date when it is over.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(until.duration_since(now).try_into().unwrap_or_default())
}

/// An error with its cause.
fn told(trouble: &Trouble) -> String {
    match std::error::Error::source(trouble) {
        Some(cause) => format!("{trouble}: {cause}"),
        None => trouble.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_asks_for_time_in_seconds_or_by_a_date() {
        let now = Timestamp::from_second(1_784_462_400).expect("a time");
        let asked = |text: &str| retry_after(text, now).map(|asked| asked.as_secs());
        assert_eq!(asked("7"), Some(7));
        assert_eq!(asked("Sun, 19 Jul 2026 12:00:30 GMT"), Some(30));
        assert_eq!(asked("Sun, 19 Jul 2026 11:00:00 GMT"), Some(0));
        assert_eq!(asked("-1"), None);
        assert_eq!(asked("soon"), None);
    }
}
