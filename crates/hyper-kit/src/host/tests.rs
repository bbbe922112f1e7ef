//! What is a host, and the hostile texts that are none.

use http::HeaderValue;

use super::*;

#[test]
fn names_addresses_and_ports_are_read() {
    for (text, shown) in [
        ("example.com", "example.com"),
        ("Example.COM:8188", "example.com:8188"),
        ("example.com.", "example.com."),
        ("a_b-c", "a_b-c"),
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::1]", "[::1]"),
        ("[0:0::1]:443", "[::1]:443"),
    ] {
        let host = Host::parse(text).map(|host| host.to_string());
        assert_eq!(host.as_deref(), Some(shown), "{text}");
    }
}

#[test]
fn a_hostile_host_is_none() {
    let long = "a".repeat(300);
    for text in [
        "",
        ":80",
        "a:",
        "a:x",
        "a:+1",
        "a:70000",
        "a:1:2",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a\\b",
        "a%2fb",
        "a\"b",
        "<a>",
        "a'b",
        "a,b",
        "é",
        ".a",
        "a..b",
        "..",
        "127.1",
        "1",
        "1.2.3.4.5",
        "256.0.0.1",
        "[::1",
        "[::1]x",
        "[a]",
        "::1",
        "[::1%25eth0]",
        &long,
    ] {
        assert_eq!(Host::parse(text), None, "{text}");
    }
}

#[test]
fn loopback_is_known_by_every_name() {
    let is_loopback = |text| Host::parse(text).expect("a host").is_loopback();
    for text in [
        "localhost",
        "LOCALHOST:1",
        "a.localhost",
        "localhost.",
        "127.9.9.9",
        "[::1]",
    ] {
        assert!(is_loopback(text), "{text}");
    }
    for text in [
        "example.com",
        "localhost.example.com",
        "mylocalhost",
        "10.0.0.1",
        "[::2]",
    ] {
        assert!(!is_loopback(text), "{text}");
    }
}

#[test]
fn the_target_goes_before_the_header() {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("header"));
    let of = |uri: &'static str| {
        let host = Host::of_request(&Uri::from_static(uri), &headers);
        host.map(|host| host.to_string())
    };
    assert_eq!(of("/path").as_deref(), Some("header"));
    assert_eq!(of("http://target:1/path").as_deref(), Some("target:1"));
    assert_eq!(of("http://user@target/path"), None);
}

#[test]
fn a_socket_address_is_a_host() {
    for (address, shown) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("[fe80::1%5]:80", "[fe80::1]:80"),
    ] {
        let address: SocketAddr = address.parse().expect("an address");
        let host = Host::from(address);
        assert_eq!(host.to_string(), shown);
        assert_eq!(Host::parse(shown), Some(host));
    }
}

#[test]
fn a_missing_port_is_the_default_one() {
    let host = |text| Host::parse(text).expect("a host");
    assert!(host("a").same_as(&host("A:443"), 443));
    assert!(!host("a").same_as(&host("a:443"), 80));
    assert!(!host("a").same_as(&host("b"), 80));
}

#[test]
fn a_server_answers_to_itself_to_numbers_and_to_what_it_was_given() {
    let host = |text| Host::parse(text).expect("a host");
    let names = HostNames::new([host("Gpu-Box:81"), host("easel.example.")]);
    for known in [
        "gpu-box",
        "GPU-BOX:9",
        "gpu-box.",
        "easel.example",
        "localhost",
        "localhost.",
        "a.localhost:80",
        "127.0.0.1",
        "10.0.0.7:81",
        "[::1]:81",
        "[2001:db8::1]",
    ] {
        assert!(names.admit(&host(known)), "{known}");
    }
    for unknown in [
        "evil.example",
        "gpu-box.evil.example",
        "sub.gpu-box",
        "notlocalhost",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "1a",
    ] {
        assert!(!names.admit(&host(unknown)), "{unknown}");
    }
}
