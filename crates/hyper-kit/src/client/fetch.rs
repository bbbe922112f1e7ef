//! Fetching a file within bounds of size and time: whole, or chunk by chunk.
//!
//! Redirects are followed a few times, each as a request of its own under the same policy. What the caller sends goes to
//! the first address alone: a redirect is the word of a stranger, and carries no credential even back to the same host.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use super::Client;
use super::error::{FetchError, Reason};
use crate::body::{Body, BodyError, read_limited};
use crate::pace::{PacedBody, ReadPace};

/// The most redirects that are ever followed.
pub const MOST_REDIRECTS: u8 = 3;

/// The bounds of one fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// The most that is taken, in bytes.
    pub max_bytes: usize,
    /// The time for everything, redirects included.
    pub total_timeout: Duration,
    /// The longest silence within the body.
    pub idle_timeout: Duration,
    /// How many redirects are followed; more than [`MOST_REDIRECTS`] count as that many.
    pub redirects: u8,
}

/// A file, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The body, as it was sent.
    pub bytes: Bytes,
    /// What the host calls it, unchecked.
    pub content_type: Option<String>,
    /// The address after redirects, without fragment. Its query may hold a secret.
    pub final_url: String,
}

/// A file whose bytes are still to come.
#[derive(Debug)]
pub struct Download {
    content_type: Option<String>,
    body: PacedBody<Body>,
    /// How many bytes may still come.
    left: usize,
    limits: FetchLimits,
    end: Instant,
}

impl Client {
    /// Fetches `url`, which must be answered with status 200. Dropping the future gives the fetch up.
    pub async fn fetch(&self, url: &str, limits: FetchLimits) -> Result<Fetched, FetchError> {
        self.fetch_with(url, HeaderMap::new(), limits).await
    }

    /// Does as [`Client::fetch`] and sends `headers` to the first address, and to no other.
    pub async fn fetch_with(
        &self,
        url: &str,
        headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<Fetched, FetchError> {
        let whole = async {
            let (answer, url) = self.follow(url, headers, limits).await?;
            read(answer, url, limits).await
        };
        timeout(limits.total_timeout, whole)
            .await
            .unwrap_or(Err(FetchError::TimedOut))
    }

    /// Begins to fetch `url`, which must be answered with status 200, for files that are not to be held in memory. The limits hold
    /// for the whole, its chunks included. Dropping the future or the answer gives the fetch up.
    pub async fn download(&self, url: &str, limits: FetchLimits) -> Result<Download, FetchError> {
        let end = Instant::now() + limits.total_timeout;
        let asked = timeout_at(end, self.follow(url, HeaderMap::new(), limits)).await;
        let (answer, _) = asked.unwrap_or(Err(FetchError::TimedOut))?;
        Download::begin(answer, limits, end)
    }

    /// Asks `url` and where its answers lead: the first answer that leads nowhere, and its address.
    async fn follow(
        &self,
        url: &str,
        mut headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<(Response<Body>, Url), FetchError> {
        let mut url = usable(Url::parse(url))?;
        let mut left = limits.redirects.min(MOST_REDIRECTS);
        loop {
            let answer = self.send(get(&url, std::mem::take(&mut headers))?).await?;
            let Some(next) = redirect(&url, &answer)? else {
                return Ok((answer, url));
            };
            if left == 0 {
                return Err(refused(&url, Reason::TooManyRedirects));
            }
            left -= 1;
            url = next;
        }
    }
}

/// Only what [`Url`] wrote goes further, so there is one reading of an address and not two.
pub(super) fn usable(parsed: Result<Url, url::ParseError>) -> Result<Url, FetchError> {
    let mut url = parsed.map_err(|_| FetchError::BadUrl("it is no complete web address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FetchError::BadUrl("it starts with no https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(FetchError::BadUrl(
            "it holds a user name or a password, which are never sent",
        ));
    }
    url.set_fragment(None);
    Ok(url)
}

fn get(url: &Url, headers: HeaderMap) -> Result<Request<Body>, FetchError> {
    let mut request = Request::get(url.as_str())
        .body(Body::empty())
        .map_err(|_| FetchError::BadUrl("it is too long or malformed"))?;
    *request.headers_mut() = headers;
    // The bytes that count against the limit are the bytes that the caller gets.
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    Ok(request)
}

/// Where the answer leads, if it is a redirect that says so.
fn redirect(from: &Url, answer: &Response<Body>) -> Result<Option<Url>, FetchError> {
    let leads_on = matches!(
        answer.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = answer.headers().get(LOCATION);
    let Some(location) = location.filter(|_| leads_on) else {
        return Ok(None);
    };
    let location = location
        .to_str()
        .map_err(|_| FetchError::BadUrl("it redirects to no address"))?;
    let next = usable(from.join(location))?;
    if from.scheme() == "https" && next.scheme() != "https" {
        return Err(refused(&next, Reason::NotHttps));
    }
    Ok(Some(next))
}

async fn read(
    answer: Response<Body>,
    url: Url,
    limits: FetchLimits,
) -> Result<Fetched, FetchError> {
    if answer.status() != StatusCode::OK {
        return Err(FetchError::Status(answer.status().as_u16()));
    }
    let (head, body) = answer.into_parts();
    let bytes = read_limited(body, limits.max_bytes, limits.pace())
        .await
        .map_err(|error| failed(error, limits))?;
    Ok(Fetched {
        bytes,
        content_type: content_type(&head.headers),
        final_url: url.into(),
    })
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    value.to_str().ok().map(str::to_owned)
}

fn failed(error: BodyError, limits: FetchLimits) -> FetchError {
    match error {
        BodyError::TooLarge { .. } => FetchError::TooLarge {
            limit: limits.max_bytes,
        },
        BodyError::Idle => FetchError::TimedOut,
        BodyError::Broken(cause) => FetchError::Broken {
            cause: cause.to_string(),
        },
    }
}

impl FetchLimits {
    fn pace(self) -> ReadPace {
        ReadPace {
            idle: self.idle_timeout,
            grace: self.idle_timeout,
            // The time for everything bounds a trickle already.
            min_bytes_per_second: 0,
        }
    }
}

impl Download {
    fn begin(
        answer: Response<Body>,
        limits: FetchLimits,
        end: Instant,
    ) -> Result<Self, FetchError> {
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let (head, body) = answer.into_parts();
        if body.size_hint().lower() > limits.max_bytes as u64 {
            return Err(FetchError::TooLarge {
                limit: limits.max_bytes,
            });
        }
        Ok(Self {
            content_type: content_type(&head.headers),
            body: PacedBody::new(body, limits.pace()),
            left: limits.max_bytes,
            limits,
            end,
        })
    }

    /// What the host calls it, unchecked.
    #[must_use]
    pub fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// The next bytes; `None` at the end of the file.
    ///
    /// # Errors
    /// If the host breaks off or is too slow, or the file passes a limit: then nothing more comes.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            let frame = timeout_at(self.end, self.body.frame()).await;
            let frame = frame.map_err(|_| FetchError::TimedOut)?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| failed(error, self.limits))?;
            // Trailers are dropped.
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            let Some(left) = self.left.checked_sub(chunk.len()) else {
                return Err(FetchError::TooLarge {
                    limit: self.limits.max_bytes,
                });
            };
            self.left = left;
            return Ok(Some(chunk));
        }
    }
}

fn refused(url: &Url, reason: Reason) -> FetchError {
    let host = url.host_str().unwrap_or_default().to_owned();
    FetchError::NotAllowed { host, reason }
}
