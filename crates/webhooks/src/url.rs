//! The address of a receiver.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most characters of an address.
const MAX_LENGTH: usize = 2048;

/// An `http` or `https` address without a user name, a password and a fragment. Whether it may be asked is decided when it is
/// asked. Its path and query may hold a secret, so it is not for logs. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebhookUrl(Arc<str>);

/// The text is no address of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address of a webhook begins with https:// (or http://), has a host and no user name, password or fragment, and has at most {MAX_LENGTH} characters of ASCII, such as https://example.com/hooks"
)]
pub struct InvalidWebhookUrl;

impl WebhookUrl {
    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its host, with a port where it names one: fit for logs.
    #[must_use]
    pub fn host(&self) -> &str {
        host(&self.0).unwrap_or_default()
    }
}

fn host(text: &str) -> Option<&str> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    rest.split(['/', '?']).next()
}

impl FromStr for WebhookUrl {
    type Err = InvalidWebhookUrl;

    fn from_str(text: &str) -> Result<Self, InvalidWebhookUrl> {
        let is_plain = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'\\');
        let has_host = host(text).is_some_and(|host| !host.is_empty() && !host.contains('@'));
        match is_plain && has_host && text.len() <= MAX_LENGTH {
            true => Ok(Self(text.into())),
            false => Err(InvalidWebhookUrl),
        }
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({})", self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_tells_its_host_alone() {
        for (text, host) in [
            ("https://example.com/hooks?token=x", "example.com"),
            ("http://127.0.0.1:9000", "127.0.0.1:9000"),
            ("https://[::1]:1/x", "[::1]:1"),
            ("https://example.com?x", "example.com"),
        ] {
            let url: WebhookUrl = text.parse().expect(text);
            assert_eq!(url.host(), host);
            assert_eq!(format!("{url:?}"), format!("WebhookUrl({host})"));
        }
        let long = format!("https://example.com/{}", "x".repeat(MAX_LENGTH));
        for text in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https:///path",
            "https://user@example.com",
            "https://user:word@example.com/",
            "https://example.com/#part",
            "https://example.com/a b",
            "https://example.com\\@other",
            "https://exämple.com",
            "HTTPS://example.com",
            &long,
        ] {
            assert_eq!(text.parse::<WebhookUrl>(), Err(InvalidWebhookUrl), "{text}");
        }
    }
}
