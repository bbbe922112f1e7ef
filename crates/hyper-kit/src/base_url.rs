//! The public address of this server, as the client of a request sees it: what every link begins with.
//!
//! What was configured wins. What a proxy says counts only when the peer is a trusted proxy, and then only the last value
//! of each header, which is the one that this very proxy wrote. Otherwise it is the host that the client asked for.

use std::fmt;
use std::net::IpAddr;

use http::{HeaderMap, Uri};

use crate::host::Host;
use crate::peers::PeerSet;
use crate::serve::ConnectionInfo;

const FORWARDED_PROTO: &str = "x-forwarded-proto";
const FORWARDED_HOST: &str = "x-forwarded-host";
const FORWARDED_PREFIX: &str = "x-forwarded-prefix";
const FORWARDED_FOR: &str = "x-forwarded-for";

/// An absolute address without a slash at its end: scheme, host, perhaps a port and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    https: bool,
    host: Host,
    path: String,
}

/// A text that is no base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no base URL; write it like https://example.com or https://example.com/path")]
pub struct BaseUrlError(String);

/// How the public address is found.
#[derive(Debug, Clone, Default)]
pub struct PublicAddress {
    /// The address of this server's root, when the operator has named it.
    pub configured: Option<BaseUrl>,
    /// The proxies whose `X-Forwarded-Proto`, `-Host` and `-Prefix` are believed.
    pub trusted_proxies: PeerSet,
    /// The prefix below which this server is mounted; it is put behind the root's address, whichever way that was found.
    pub mount_prefix: String,
}

// === impl PublicAddress ===

impl PublicAddress {
    /// The address that links of the answer begin with. A request that names no host is given the address it came to.
    pub fn of_request(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        connection: &ConnectionInfo,
    ) -> BaseUrl {
        let root = match &self.configured {
            Some(configured) => configured.clone(),
            None => self.seen(uri, headers, connection),
        };
        BaseUrl {
            path: root.path + &self.mount_prefix,
            ..root
        }
    }

    /// The address of the client: the peer, or what the proxies in front say, as far back as they are trusted.
    pub fn client_of(&self, headers: &HeaderMap, connection: &ConnectionInfo) -> IpAddr {
        let mut client = connection.peer.ip().to_canonical();
        // Each proxy adds at the end whom it was asked by, so the list is read from there.
        let lines = headers.get_all(FORWARDED_FOR).iter().rev();
        let texts = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for text in texts {
            if !self.trusted_proxies.contains(client) {
                break;
            }
            match text.trim().parse::<IpAddr>() {
                Ok(before) => client = before.to_canonical(),
                Err(_) => break,
            }
        }
        client
    }

    fn seen(&self, uri: &Uri, headers: &HeaderMap, connection: &ConnectionInfo) -> BaseUrl {
        let forwarded = |name| {
            let trusted = self.trusted_proxies.contains(connection.peer.ip());
            if trusted { last(headers, name) } else { None }
        };
        let host = forwarded(FORWARDED_HOST)
            .and_then(Host::parse)
            .or_else(|| Host::of_request(uri, headers))
            .unwrap_or_else(|| Host::from(connection.local));
        let proto = forwarded(FORWARDED_PROTO);
        let prefix = forwarded(FORWARDED_PREFIX);
        BaseUrl {
            https: proto.is_some_and(|proto| proto.eq_ignore_ascii_case("https")),
            host,
            path: prefix.and_then(plain_path).unwrap_or_default(),
        }
    }
}

/// The last element of the last line of a list header.
fn last<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let line = headers.get_all(name).iter().next_back()?;
    line.to_str().ok()?.rsplit(',').next().map(str::trim)
}

// === impl BaseUrl ===

impl BaseUrl {
    /// Reads an operator's `http` or `https` address; a slash at its end is dropped.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        Self::read(text).ok_or_else(|| BaseUrlError(text.to_owned()))
    }

    /// Whether links are `https`.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host that links name.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// An absolute link to a path below the base; the path starts with a slash and is encoded already.
    pub fn link(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        Some(Self {
            https,
            host: Host::parse(host)?,
            path: plain_path(path)?,
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.host, self.path)
    }
}

/// Segments of unreserved characters, none of them empty or dots; without a slash at the end.
fn plain_path(path: &str) -> Option<String> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Some(String::new());
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let plain = |segment: &str| !["", ".", ".."].contains(&segment) && segment.bytes().all(known);
    let mut segments = path.strip_prefix('/')?.split('/');
    segments.all(plain).then(|| path.to_owned())
}

#[cfg(test)]
mod tests;
