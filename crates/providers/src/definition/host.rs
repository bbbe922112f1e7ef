//! Addresses of partners: where requests begin, and where a credential may go.

use http::Uri;
use hyper_kit::Host;
use serde::Deserialize;

/// Where the paths of a partner begin: scheme and host, perhaps a path, without a last slash.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BaseUrl {
    text: String,
    host: Host,
    https: bool,
}

/// A host that a credential may go to: a name, or `*.` and the end of one; with a port where it is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HostPattern {
    /// Of names below this one, where it begins with a star.
    below: bool,
    host: Host,
}

impl BaseUrl {
    /// The address as it was written, without a last slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its path, without a last slash.
    #[must_use]
    pub fn path(&self) -> &str {
        let behind_scheme = self.text.find("://").map_or(0, |at| at + 3);
        let host_end = self.text[behind_scheme..].find('/');
        host_end.map_or("", |at| &self.text[behind_scheme + at..])
    }

    /// Its host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Whether it is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }
}

impl HostPattern {
    /// Whether a host fits; what has no port has the usual one.
    #[must_use]
    pub(crate) fn fits(&self, host: &Host, default_port: u16) -> bool {
        if !self.below {
            return self.host.same_as(host, default_port);
        }
        let port = |host: &Host| host.port().unwrap_or(default_port);
        let above = host.name().strip_suffix(self.host.name());
        port(host) == port(&self.host) && above.is_some_and(|above| above.ends_with('.'))
    }
}

impl From<Host> for HostPattern {
    fn from(host: Host) -> Self {
        Self { below: false, host }
    }
}

impl TryFrom<String> for BaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address like https://api.example.com/v1");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(wrong()),
        };
        let host = uri
            .authority()
            .and_then(|authority| Host::parse(authority.as_str()))
            .ok_or_else(wrong)?;
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong());
        }
        Ok(Self {
            text: text.trim_end_matches('/').to_owned(),
            host,
            https,
        })
    }
}

impl TryFrom<String> for HostPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text.as_str()),
        };
        let host = Host::parse(name)
            .ok_or_else(|| format!("`{text}` is no host like api.example.com or *.example.com"))?;
        if below && !host.name().contains('.') {
            return Err(format!(
                "`{text}` would let a credential go nearly anywhere"
            ));
        }
        Ok(Self { below, host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, host: &str) -> bool {
        let pattern: HostPattern = pattern.to_owned().try_into().expect(pattern);
        pattern.fits(&Host::parse(host).expect(host), 443)
    }

    #[test]
    fn a_pattern_lets_no_lookalike_through() {
        assert!(fits("api.bfl.ai", "api.bfl.ai"));
        assert!(fits("api.bfl.ai", "api.bfl.ai:443"));
        assert!(!fits("api.bfl.ai", "api.bfl.ai:8443"));
        assert!(!fits("api.bfl.ai", "api.bfl.ai.evil.test"));
        assert!(fits("*.bfl.ai", "api.eu.bfl.ai"));
        assert!(!fits("*.bfl.ai", "bfl.ai"));
        assert!(!fits("*.bfl.ai", "evilbfl.ai"));
        assert!(!fits("*.bfl.ai", "api.bfl.ai:8443"));
        assert!(fits("127.0.0.1:9", "127.0.0.1:9"));
        assert!(!fits("127.0.0.1:9", "127.0.0.1"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "api.bfl.ai",
            "ftp://a.b",
            "https://",
            "https://u:p@a.b",
            "https://a.b/?q",
            "https://a.b/#f",
            "https://a b",
        ] {
            assert!(BaseUrl::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["", "*", "*.", "*.ai", "a b", "https://a.b", "a.b/c"] {
            assert!(HostPattern::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
