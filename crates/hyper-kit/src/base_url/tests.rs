//! Which address wins, and what no link may begin with.

use http::HeaderValue;

use super::*;

const CLIENT: &str = "198.51.100.7:5000";
const PROXY: &str = "10.0.0.1:5000";

/// What a request with these headers from this peer is linked to, with 10/8 trusted.
fn seen(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
    let address = PublicAddress {
        trusted_proxies: "10.0.0.0/8".parse().expect("a network"),
        ..PublicAddress::default()
    };
    show(&address, peer, headers)
}

fn show(address: &PublicAddress, peer: &str, headers: &[(&'static str, &'static str)]) -> String {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let connection = ConnectionInfo {
        peer: peer.parse().expect("an address"),
        local: "192.0.2.1:8188".parse().expect("an address"),
    };
    address
        .of_request(&Uri::from_static("/x"), &map, &connection)
        .to_string()
}

#[test]
fn the_host_header_is_the_address() {
    assert_eq!(
        seen(CLIENT, &[("host", "Example.com:81")]),
        "http://example.com:81"
    );
}

#[test]
fn without_a_readable_host_it_is_the_socket() {
    assert_eq!(seen(CLIENT, &[]), "http://192.0.2.1:8188");
    assert_eq!(seen(CLIENT, &[("host", "a/../b")]), "http://192.0.2.1:8188");
}

#[test]
fn a_trusted_proxy_is_believed() {
    let forwarded = [
        ("host", "inner"),
        (FORWARDED_PROTO, "https"),
        (FORWARDED_HOST, "example.com"),
        (FORWARDED_PREFIX, "/deployment/x/"),
    ];
    assert_eq!(seen(PROXY, &forwarded), "https://example.com/deployment/x");
    assert_eq!(seen(CLIENT, &forwarded), "http://inner");
}

#[test]
fn of_several_values_the_proxys_own_counts() {
    let forwarded = [
        (FORWARDED_HOST, "forged.example, example.com"),
        (FORWARDED_PROTO, "http"),
        (FORWARDED_PROTO, "https"),
    ];
    assert_eq!(seen(PROXY, &forwarded), "https://example.com");
}

#[test]
fn what_a_proxy_passes_on_unread_is_dropped() {
    let forwarded = [
        ("host", "inner"),
        (FORWARDED_PROTO, "javascript"),
        (FORWARDED_HOST, "evil.example/path"),
        (FORWARDED_PREFIX, "//evil.example"),
    ];
    assert_eq!(seen(PROXY, &forwarded), "http://inner");
}

#[test]
fn what_is_configured_wins_and_the_mount_follows() {
    let address = PublicAddress {
        configured: Some(BaseUrl::parse("https://example.com/").expect("a URL")),
        trusted_proxies: "10.0.0.0/8".parse().expect("a network"),
        mount_prefix: "/deployment/x".to_owned(),
    };
    let forwarded = [("host", "inner"), (FORWARDED_HOST, "other.example")];
    let shown = show(&address, PROXY, &forwarded);
    assert_eq!(shown, "https://example.com/deployment/x");
}

#[test]
fn base_urls_are_read_strictly() {
    for (text, shown) in [
        ("http://a", "http://a"),
        ("HTTPS://A:1/", "https://a:1"),
        ("https://a/b/c/", "https://a/b/c"),
    ] {
        assert_eq!(BaseUrl::parse(text).expect("a URL").to_string(), shown);
    }
    for text in [
        "",
        "a",
        "ftp://a",
        "http://",
        "http:///a",
        "http://u@a",
        "http://a?b",
        "http://a/#c",
        "http://a//b",
        "http://a/../b",
        "http://a/%2e",
        "http://a/b c",
    ] {
        assert!(BaseUrl::parse(text).is_err(), "{text}");
    }
    let base = BaseUrl::parse("https://a/b").expect("a URL");
    assert!(base.is_https());
    assert_eq!(base.link("/c"), "https://a/b/c");
}

#[test]
fn the_client_is_whom_trusted_proxies_name() {
    let address = PublicAddress {
        trusted_proxies: "10.0.0.0/8".parse().expect("a network"),
        ..PublicAddress::default()
    };
    let client = |peer: &str, lines: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", HeaderValue::from_static(line));
        }
        let connection = ConnectionInfo {
            peer: peer.parse().expect("an address"),
            local: "192.0.2.1:8188".parse().expect("an address"),
        };
        address.client_of(&headers, &connection).to_string()
    };
    assert_eq!(client(PROXY, &["198.51.100.7"]), "198.51.100.7");
    assert_eq!(client(PROXY, &[]), "10.0.0.1");
    // What stands before it was written by the client.
    assert_eq!(client(PROXY, &["192.0.2.9, 198.51.100.7"]), "198.51.100.7");
    assert_eq!(
        client(PROXY, &["192.0.2.9", "198.51.100.7"]),
        "198.51.100.7"
    );
    // Through two proxies.
    assert_eq!(client(PROXY, &["198.51.100.7, 10.0.0.2"]), "198.51.100.7");
    assert_eq!(
        client(PROXY, &["198.51.100.7, ::ffff:10.0.0.2"]),
        "198.51.100.7"
    );
    assert_eq!(client(PROXY, &["unknown"]), "10.0.0.1");
    assert_eq!(client(CLIENT, &["192.0.2.9"]), "198.51.100.7");
}
