//! The host a request names, checked to the letter.
//!
//! It ends up in links and is compared with origins, so nothing but a plain name, an address and a port is let through:
//! no user, no path, no percent sign, no space, no letter beyond ASCII.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::header::HOST;
use http::{HeaderMap, Uri};

/// The longest name of a host (RFC 1035), with its port.
const LONGEST: usize = 253 + ":65535".len();

/// A host and perhaps a port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    name: String,
    port: Option<u16>,
}

impl Host {
    /// Reads `name`, `name:port`, `1.2.3.4:port` or `[::1]:port`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                let address: Ipv6Addr = address.parse().ok()?;
                (format!("[{address}]"), port)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                let (name, port) = text.split_at(end);
                (plain_name(name)?, port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Self { name, port })
    }

    /// The host that a request is for: of its target when that names one (HTTP/2, absolute form), else of `Host`.
    /// `None` when there is none, or it cannot be read.
    pub fn of_request(uri: &Uri, headers: &HeaderMap) -> Option<Self> {
        match uri.authority() {
            Some(authority) => Self::parse(authority.as_str()),
            None => Self::parse(headers.get(HOST)?.to_str().ok()?),
        }
    }

    /// The name or address, without the port; an IPv6 address in brackets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, where one is named.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether it names this very machine: `localhost` and its children, `127.0.0.0/8`, `[::1]`.
    pub fn is_loopback(&self) -> bool {
        let name = self.name.trim_end_matches('.');
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// Whether both mean the same port of the same name, a missing port being `default_port`.
    pub fn same_as(&self, other: &Self, default_port: u16) -> bool {
        let port = |host: &Self| host.port.unwrap_or(default_port);
        self.name == other.name && port(self) == port(other)
    }
}

impl From<SocketAddr> for Host {
    /// The address and port; the zone of a link-local address means nothing to anyone else and is left out.
    fn from(address: SocketAddr) -> Self {
        let name = match address.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => format!("[{v6}]"),
        };
        let port = Some(address.port());
        Self { name, port }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Labels of letters, digits, hyphens and the underscores of container networks. What ends like an address must be one:
/// browsers read `127.1` as 127.0.0.1, and this server must not take it for a name.
fn plain_name(name: &str) -> Option<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let labels_stand = !name.starts_with('.') && !name.contains("..");
    if name.is_empty() || !name.bytes().all(known) || !labels_stand {
        return None;
    }
    let last = name.trim_end_matches('.').rsplit('.').next()?;
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    if numeric && name.parse::<Ipv4Addr>().is_err() {
        return None;
    }
    Some(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
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
}
