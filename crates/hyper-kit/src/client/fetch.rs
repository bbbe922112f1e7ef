//! Fetching a file whole, within bounds of size and time.
//!
//! Redirects are followed a few times, each as a request of its own under the same policy. What the caller sends goes to
//! the first address alone: a redirect is the word of a stranger, and carries no credential even back to the same host.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::Client;
use super::error::{FetchError, Reason};
use crate::body::{Body, BodyError, read_limited};
use crate::pace::ReadPace;

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
        timeout(limits.total_timeout, self.follow(url, headers, limits))
            .await
            .unwrap_or(Err(FetchError::TimedOut))
    }

    async fn follow(
        &self,
        url: &str,
        mut headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<Fetched, FetchError> {
        let mut url = usable(Url::parse(url))?;
        let mut left = limits.redirects.min(MOST_REDIRECTS);
        loop {
            let answer = self.send(get(&url, std::mem::take(&mut headers))?).await?;
            let Some(next) = redirect(&url, &answer)? else {
                return read(answer, url, limits).await;
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
    let pace = ReadPace {
        idle: limits.idle_timeout,
        grace: limits.idle_timeout,
        // The time for everything bounds a trickle already.
        min_bytes_per_second: 0,
    };
    let bytes = read_limited(body, limits.max_bytes, pace)
        .await
        .map_err(|error| match error {
            BodyError::TooLarge { .. } => FetchError::TooLarge {
                limit: limits.max_bytes,
            },
            BodyError::Idle => FetchError::TimedOut,
            BodyError::Broken(cause) => FetchError::Broken {
                cause: cause.to_string(),
            },
        })?;
    let content_type = head.headers.get(CONTENT_TYPE);
    Ok(Fetched {
        bytes,
        content_type: content_type.and_then(|value| value.to_str().ok().map(str::to_owned)),
        final_url: url.into(),
    })
}

fn refused(url: &Url, reason: Reason) -> FetchError {
    let host = url.host_str().unwrap_or_default().to_owned();
    FetchError::NotAllowed { host, reason }
}
