//! What pages of other origins may do: change nothing, and read only what they are allowed to.
//!
//! A page that a user happens to visit can send requests to this server with the user's reach, to a loopback address or
//! with a cookie. Browsers name the page's origin; programs do not, so a request without an origin passes.

use std::fmt;
use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::body::Body;
use crate::host::Host;

/// How long a browser may remember a preflight: long enough to spare requests, short enough to change one's mind.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// The origin of a page: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    https: bool,
    host: Host,
}

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no origin; write it like https://example.com or http://localhost:5173")]
pub struct OriginError(String);

/// The pages of other origins that may call this server, and what they may see.
#[derive(Debug, Clone)]
pub struct OriginPolicy {
    /// The origins that may call; there is no wildcard.
    pub allowed: Vec<Origin>,
    /// Whether their calls may carry cookies.
    pub credentials: bool,
    /// The request headers they may set, as the value of `Access-Control-Allow-Headers`.
    pub request_headers: HeaderValue,
    /// The response headers they may read, as the value of `Access-Control-Expose-Headers`.
    pub response_headers: HeaderValue,
}

// === impl OriginPolicy ===

impl OriginPolicy {
    /// Whether a request may go on to a handler that could change something: it is safe by its method, or
    /// [`OriginPolicy::admits`] its origin.
    pub fn permits(&self, method: &Method, host: Option<&Host>, headers: &HeaderMap) -> bool {
        method.is_safe() || self.admits(host, headers)
    }

    /// Whether the origin is missing, that of the host asked for, or allowed. To be asked of every WebSocket as well,
    /// whose method is safe while what follows is not. An opaque origin (`null`) and several are never admitted.
    pub fn admits(&self, host: Option<&Host>, headers: &HeaderMap) -> bool {
        if !headers.contains_key(ORIGIN) {
            return true;
        }
        sole_origin(headers).is_some_and(|origin| {
            host.is_some_and(|host| origin.is_of(host)) || self.allows(&origin)
        })
    }

    /// Lets an allowed page read the response: adds the headers that say so.
    pub fn decorate(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if self.allowed.is_empty() {
            return;
        }
        // Also where nothing is allowed: a cache must not hand one origin's answer to another.
        response.append(VARY, HeaderValue::from_name(ORIGIN));
        let Some(origin) = self.allowed_origin(request) else {
            return;
        };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = self.response_headers.clone();
        response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        if self.credentials {
            let yes = HeaderValue::from_static("true");
            response.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
    }

    /// The answer to a preflight for a path whose methods are `allow`: 204, and to an allowed page what it may send.
    pub fn preflight(&self, request: &HeaderMap, allow: &HeaderValue) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        self.decorate(request, headers);
        if headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow.clone());
            let settable = self.request_headers.clone();
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, settable);
            let age = HeaderValue::from(PREFLIGHT_AGE.as_secs());
            headers.insert(ACCESS_CONTROL_MAX_AGE, age);
        }
        response
    }

    fn allows(&self, origin: &Origin) -> bool {
        let same = |allowed: &Origin| allowed.https == origin.https && allowed.is_of(&origin.host);
        self.allowed.iter().any(same)
    }

    fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = sole_origin(request)?;
        // The very bytes are handed back, because browsers compare them as bytes.
        self.allows(&origin)
            .then(|| request.get(ORIGIN).cloned())
            .flatten()
    }
}

/// Whether a request asks, on behalf of a browser, what a page may send.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn sole_origin(headers: &HeaderMap) -> Option<Origin> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(only), None) = (origins.next(), origins.next()) else {
        return None;
    };
    Origin::read(only.to_str().ok()?)
}

// === impl Origin ===

impl Origin {
    /// Reads `http://host:port` or `https://host:port`, without a path.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        Self::read(text).ok_or_else(|| OriginError(text.to_owned()))
    }

    /// The host that its pages come from.
    pub fn host(&self) -> &Host {
        &self.host
    }

    fn read(text: &str) -> Option<Self> {
        let (https, host) = match text.split_once("://")? {
            ("https", host) => (true, host),
            ("http", host) => (false, host),
            _ => return None,
        };
        let host = Host::parse(host)?;
        Some(Self { https, host })
    }

    /// Whether pages of this origin come from that host. The scheme is not compared: behind a proxy that ends TLS this
    /// server cannot know it.
    fn is_of(&self, host: &Host) -> bool {
        let default_port = if self.https { 443 } else { 80 };
        self.host.same_as(host, default_port)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)
    }
}

#[cfg(test)]
mod tests;
