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
                let colon = memchr::memchr(b':', text.as_bytes());
                let (name, port) = text.split_at(colon.unwrap_or(text.len()));
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

    /// The name without the dot that may end it.
    fn bare_name(&self) -> &str {
        self.name.trim_end_matches('.')
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

    /// Whether it is an address written as a number: 4 numbers with dots between them, or an IPv6 address in brackets.
    pub fn is_address(&self) -> bool {
        self.name.starts_with('[') || self.name.parse::<Ipv4Addr>().is_ok()
    }

    /// Whether both mean the same port of the same name, a missing port being `default_port`.
    pub fn same_as(&self, other: &Self, default_port: u16) -> bool {
        let port = |host: &Self| host.port.unwrap_or(default_port);
        self.name == other.name && port(self) == port(other)
    }
}

/// The host names that a server answers to. Names of this machine (`localhost` and its children) and addresses written as
/// numbers are always among them; the default has no others.
///
/// A web page can make its own name resolve to a loopback or private address and is then, for the browser, of one origin
/// with the server there. Its requests still bear its own name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// The names of these hosts, whatever their ports.
    pub fn new(hosts: impl IntoIterator<Item = Host>) -> Self {
        let names = hosts.into_iter().map(|host| host.bare_name().to_owned());
        Self(names.collect())
    }

    /// Whether a request for `host` is for this server. Ports are not compared: a proxy or container may map them.
    pub fn admit(&self, host: &Host) -> bool {
        host.is_address()
            || host.is_loopback()
            || self.0.iter().any(|name| name == host.bare_name())
    }

    /// The names besides those that are always admitted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
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
    let mut before = b'.';
    for byte in name.bytes() {
        let is_label = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        // A label is not empty.
        if !is_label && (byte != b'.' || before == b'.') {
            return None;
        }
        before = byte;
    }
    if name.is_empty() {
        return None;
    }
    let labels = name
        .as_bytes()
        .strip_suffix(b".")
        .unwrap_or(name.as_bytes());
    let last = labels.rsplit(|byte| *byte == b'.').next()?;
    let numeric = last.iter().all(u8::is_ascii_digit);
    if numeric && name.parse::<Ipv4Addr>().is_err() {
        return None;
    }
    Some(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
