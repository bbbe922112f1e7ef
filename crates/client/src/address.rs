//! The base address of a server: scheme, host and perhaps a prefix.

use std::fmt;
use std::str::FromStr;

use hyper_kit::Host;
use url::Url;

/// Where a server is: `https://example.com` or `http://127.0.0.1:8189/prefix`, without a slash at the end.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    text: String,
    host: Host,
}

/// Why a text is no base address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlError {
    /// It cannot be read as an address.
    #[error("{0:?} is no address of a server; write one like https://example.com")]
    Malformed(String),
    /// It has a user name, a query or a fragment.
    #[error(
        "the address of a server has no user name, no `?` and no `#`; write one like https://example.com"
    )]
    TooMuch,
}

impl BaseUrl {
    /// The address of a path below it, which begins with a slash.
    #[must_use]
    pub fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }

    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether it names this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.is_loopback()
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether an absolute address is on this very server: scheme, host and port are the same.
    pub(crate) fn is_origin_of(&self, address: &Url) -> bool {
        self.url.origin() == address.origin()
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    /// Without a scheme, `http` is meant for this machine and `https` for every other: nobody sends a key in the clear by
    /// leaving out a word.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let malformed = || BaseUrlError::Malformed(text.to_owned());
        let with_scheme = if text.contains("://") {
            text.to_owned()
        } else {
            let authority = text.split('/').next().unwrap_or_default();
            let host = Host::parse(&authority.to_ascii_lowercase()).ok_or_else(malformed)?;
            let scheme = if host.is_loopback() { "http" } else { "https" };
            format!("{scheme}://{text}")
        };
        let url = Url::parse(&with_scheme).map_err(|_| malformed())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(malformed());
        }
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !is_plain {
            return Err(BaseUrlError::TooMuch);
        }
        let name = url.host_str().ok_or_else(malformed)?;
        let authority = match url.port() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        };
        let host = Host::parse(&authority).ok_or_else(malformed)?;
        let text = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { url, text, host })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, BaseUrlError> {
        text.parse::<BaseUrl>().map(|base| base.to_string())
    }

    #[test]
    fn a_slash_at_the_end_is_dropped_and_a_prefix_stays() {
        assert_eq!(
            read("https://Example.com/").as_deref(),
            Ok("https://example.com")
        );
        assert_eq!(
            read("http://h:80/deployment/x/").as_deref(),
            Ok("http://h/deployment/x")
        );
    }

    #[test]
    fn only_this_machine_is_reached_in_the_clear_by_default() {
        assert_eq!(
            read("127.0.0.1:8189").as_deref(),
            Ok("http://127.0.0.1:8189")
        );
        assert_eq!(
            read("localhost:8189").as_deref(),
            Ok("http://localhost:8189")
        );
        assert_eq!(read("example.com").as_deref(), Ok("https://example.com"));
    }

    #[test]
    fn what_is_no_base_address_is_refused() {
        for text in ["", "ftp://a", "http://", "a b", "https://a/%zz?"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["https://u:p@a", "https://a?b=c", "https://a#b"] {
            assert_eq!(read(text), Err(BaseUrlError::TooMuch), "{text}");
        }
    }
}
