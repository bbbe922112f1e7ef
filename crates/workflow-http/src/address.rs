//! Where a request was sent to, and whether a page may send it from where it was.

use http::HeaderValue;
use http::request::Parts;
use hyper_kit::{ConnectionInfo, Host, OriginPolicy, PublicAddress};

use crate::WorkflowConfig;

/// Headers of a request that pages of allowed origins may set.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-none-match, if-range, last-event-id, range, user-agent, \
     x-api-key",
);

/// Headers of an answer that pages of allowed origins may read.
const RESPONSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept-ranges, content-disposition, content-length, content-range, etag, idempotent-replayed, retry-after, \
     x-comfy-request-id, x-service-request-id",
);

/// What pages may do: those of the allowed origins may call, with a bearer token and without cookies.
pub(crate) fn policy(config: &WorkflowConfig) -> OriginPolicy {
    OriginPolicy {
        allowed: config.allowed_origins.clone(),
        credentials: false,
        request_headers: REQUEST_HEADERS,
        response_headers: RESPONSE_HEADERS,
    }
}

/// Whether a request may go on to a handler: it changes nothing, or its page is admitted ([`admits`]).
pub(crate) fn permits(
    policy: &OriginPolicy,
    address: &PublicAddress,
    request: &Parts,
    connection: &ConnectionInfo,
    open: bool,
) -> bool {
    request.method.is_safe() || admits(policy, address, request, connection, open)
}

/// Whether no page sent a request, or a page of this server or of an allowed origin did.
///
/// `open` says that requests need no credential. A page that made its own name resolve to a loopback address then has the
/// same origin as this server, so on loopback only loopback names and the configured address count as this server.
pub(crate) fn admits(
    policy: &OriginPolicy,
    address: &PublicAddress,
    request: &Parts,
    connection: &ConnectionInfo,
    open: bool,
) -> bool {
    let base = address.of_request(&request.uri, &request.headers, connection);
    let public = host_of(&base.to_string());
    let asked = Host::of_request(&request.uri, &request.headers);
    let rebindable = open && connection.local.ip().to_canonical().is_loopback();
    let asked = asked.filter(|host| !rebindable || host.is_loopback());
    let public =
        public.filter(|host| !rebindable || host.is_loopback() || address.configured.is_some());
    let admits = |host: Option<&Host>| policy.admits(host, &request.headers);
    admits(asked.as_ref()) || admits(public.as_ref())
}

/// The host of an absolute address.
fn host_of(base: &str) -> Option<Host> {
    let (_, rest) = base.split_once("://")?;
    Host::parse(rest.split('/').next()?)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use hyper_kit::BaseUrl;

    use super::*;

    const LOOPBACK: &str = "127.0.0.1:8189";

    /// Whether a POST with these headers may go on.
    fn may(configured: Option<&str>, local: &str, open: bool, lines: &[(&str, &str)]) -> bool {
        let mut request = Request::post("/api/v2/jobs");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let (request, ()) = request.body(()).expect("a request").into_parts();
        let address = PublicAddress {
            configured: configured.map(|url| BaseUrl::parse(url).expect("a URL")),
            ..PublicAddress::default()
        };
        let local = local.parse().expect("an address");
        let connection = ConnectionInfo { peer: local, local };
        let policy = OriginPolicy {
            allowed: Vec::new(),
            credentials: false,
            request_headers: REQUEST_HEADERS,
            response_headers: RESPONSE_HEADERS,
        };
        permits(&policy, &address, &request, &connection, open)
    }

    #[test]
    fn programs_and_pages_of_this_server_may_change_things() {
        assert!(may(None, LOOPBACK, true, &[("host", "anything.example")]));
        let own = [
            ("host", "localhost:8189"),
            ("origin", "http://localhost:8189"),
        ];
        assert!(may(None, LOOPBACK, true, &own));
        let behind_tls = [("host", "inner:8189"), ("origin", "https://example.com")];
        assert!(may(
            Some("https://example.com/x"),
            LOOPBACK,
            true,
            &behind_tls
        ));
    }

    #[test]
    fn pages_of_other_origins_may_not() {
        let other = [
            ("host", "localhost:8189"),
            ("origin", "http://evil.example"),
        ];
        assert!(!may(None, LOOPBACK, true, &other));
        assert!(!may(
            None,
            LOOPBACK,
            false,
            &[("host", "localhost:8189"), ("origin", "null")]
        ));
    }

    #[test]
    fn a_name_made_to_mean_loopback_is_no_page_of_this_server() {
        let rebound = [
            ("host", "evil.example:8189"),
            ("origin", "http://evil.example:8189"),
        ];
        assert!(!may(None, LOOPBACK, true, &rebound));
        // With credentials such a page has nothing to show, and off loopback the name may well be this server's.
        assert!(may(None, LOOPBACK, false, &rebound));
        assert!(may(None, "192.0.2.1:8189", true, &rebound));
    }
}
