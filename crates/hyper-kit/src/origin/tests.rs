//! Whose pages may change something, and whose may read.

use super::*;

fn policy(allowed: &[&str], credentials: bool) -> OriginPolicy {
    OriginPolicy {
        allowed: allowed
            .iter()
            .map(|text| Origin::parse(text).expect("an origin"))
            .collect(),
        credentials,
        request_headers: HeaderValue::from_static("authorization, content-type"),
        response_headers: HeaderValue::from_static("etag"),
    }
}

fn headers(origins: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for origin in origins {
        headers.append(ORIGIN, HeaderValue::from_static(origin));
    }
    headers
}

/// Whether a POST to `host` from pages of these origins passes, with one origin allowed.
fn passes(host: &str, origins: &[&'static str]) -> bool {
    let policy = policy(&["https://app.example"], false);
    let host = Host::parse(host);
    policy.permits(&Method::POST, host.as_ref(), &headers(origins))
}

#[test]
fn programs_name_no_origin_and_pass() {
    assert!(passes("example.com", &[]));
    assert!(passes("127.0.0.1:8188", &[]));
}

#[test]
fn pages_of_this_server_pass() {
    assert!(passes("example.com", &["https://example.com"]));
    assert!(passes("example.com", &["http://example.com"]));
    assert!(passes("example.com:443", &["https://example.com"]));
    assert!(passes("localhost:8188", &["http://localhost:8188"]));
    assert!(passes("[::1]:8188", &["http://[::1]:8188"]));
}

#[test]
fn pages_of_allowed_origins_pass() {
    assert!(passes("example.com", &["https://app.example"]));
    assert!(passes("example.com", &["https://app.example:443"]));
    assert!(!passes("example.com", &["http://app.example"]));
    assert!(!passes("example.com", &["https://app.example:8443"]));
    assert!(!passes("example.com", &["https://x.app.example"]));
}

#[test]
fn other_pages_do_not() {
    assert!(!passes("127.0.0.1:8188", &["https://evil.example"]));
    assert!(!passes("127.0.0.1:8188", &["http://localhost:8188"]));
    assert!(!passes("localhost:8188", &["http://localhost:3000"]));
    assert!(!passes("localhost:8188", &["http://localhost"]));
    assert!(!passes("example.com", &["null"]));
    assert!(!passes("example.com", &[""]));
    assert!(!passes("example.com", &["https://example.com/"]));
    assert!(!passes(
        "example.com",
        &["https://example.com", "https://example.com"]
    ));
    // Without a readable host nothing is of the same origin.
    assert!(!passes("", &["https://example.com"]));
}

#[test]
fn reading_is_not_guarded_but_sockets_are() {
    let policy = policy(&[], false);
    let host = Host::parse("localhost");
    let evil = headers(&["https://evil.example"]);
    for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
        assert!(policy.permits(&method, host.as_ref(), &evil));
    }
    assert!(!policy.permits(&Method::DELETE, host.as_ref(), &evil));
    assert!(!policy.admits(host.as_ref(), &evil));
}

#[test]
fn only_an_allowed_page_may_read() {
    let decorated = |policy: &OriginPolicy, origin| {
        let mut response = HeaderMap::new();
        policy.decorate(&headers(&[origin]), &mut response);
        response
    };
    let plain = policy(&["https://app.example"], false);
    let allowed = decorated(&plain, "https://app.example");
    assert_eq!(allowed[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
    assert_eq!(allowed[ACCESS_CONTROL_EXPOSE_HEADERS], "etag");
    assert_eq!(allowed[VARY], "origin");
    assert!(!allowed.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));

    let other = decorated(&plain, "https://evil.example");
    assert_eq!(
        (other.len(), &other[VARY]),
        (1, &HeaderValue::from_static("origin"))
    );

    let with_cookies = decorated(
        &policy(&["https://app.example"], true),
        "https://app.example",
    );
    assert_eq!(with_cookies[ACCESS_CONTROL_ALLOW_CREDENTIALS], "true");
    assert_eq!(
        with_cookies[ACCESS_CONTROL_ALLOW_ORIGIN],
        "https://app.example"
    );

    assert!(decorated(&policy(&[], true), "https://app.example").is_empty());
}

#[test]
fn a_preflight_tells_an_allowed_page_what_it_may_send() {
    let policy = policy(&["https://app.example"], false);
    let allow = HeaderValue::from_static("GET, POST");
    let mut request = headers(&["https://app.example"]);
    assert!(!is_preflight(&Method::OPTIONS, &request));
    request.insert(
        ACCESS_CONTROL_REQUEST_METHOD,
        HeaderValue::from_static("POST"),
    );
    assert!(is_preflight(&Method::OPTIONS, &request));
    assert!(!is_preflight(&Method::POST, &request));

    let answer = policy.preflight(&request, &allow);
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(answer.headers()[ACCESS_CONTROL_ALLOW_METHODS], "GET, POST");
    assert_eq!(
        answer.headers()[ACCESS_CONTROL_ALLOW_HEADERS],
        "authorization, content-type"
    );
    assert_eq!(answer.headers()[ACCESS_CONTROL_MAX_AGE], "600");

    request.insert(ORIGIN, HeaderValue::from_static("https://evil.example"));
    let answer = policy.preflight(&request, &allow);
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(answer.headers().len(), 1);
}

#[test]
fn no_origin_is_a_wildcard_or_has_a_path() {
    for text in [
        "*",
        "null",
        "https://*.example",
        "https://a/",
        "a",
        "ftp://a",
        "https://u@a",
    ] {
        assert!(Origin::parse(text).is_err(), "{text}");
    }
    let origin = Origin::parse("https://a:8443").expect("an origin");
    assert_eq!(origin.to_string(), "https://a:8443");
}
