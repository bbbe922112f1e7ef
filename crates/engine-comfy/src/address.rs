//! The address of a worker.

use std::fmt;
use std::str::FromStr;

use hyper_kit::Host;

/// The base address of a ComfyUI, such as `http://127.0.0.1:8188`, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkerUrl {
    text: String,
    host: Host,
}

/// A text that is no address of a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address of a ComfyUI; write it like http://127.0.0.1:8188, without a user name, query or fragment"
)]
pub struct InvalidWorkerUrl(String);

impl WorkerUrl {
    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The host, with its port where one is written.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }
}

impl FromStr for WorkerUrl {
    type Err = InvalidWorkerUrl;

    fn from_str(text: &str) -> Result<Self, InvalidWorkerUrl> {
        let invalid = || InvalidWorkerUrl(text.to_owned());
        let uri: http::Uri = text.trim_end_matches('/').parse().map_err(|_| invalid())?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| matches!(*scheme, "http" | "https"));
        let authority = uri.authority().ok_or_else(invalid)?;
        let host = Host::parse(authority.as_str()).ok_or_else(invalid)?;
        let path = uri.path().trim_end_matches('/');
        if uri.query().is_some() || text.contains('#') {
            return Err(invalid());
        }
        Ok(Self {
            text: format!("{}://{host}{path}", scheme.ok_or_else(invalid)?),
            host,
        })
    }
}

impl fmt::Display for WorkerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_base_and_nothing_more() {
        for (text, read) in [
            ("http://127.0.0.1:8188", Some("http://127.0.0.1:8188")),
            ("http://gpu-box:8188/", Some("http://gpu-box:8188")),
            ("https://a.example/comfy/", Some("https://a.example/comfy")),
            ("http://[::1]:8188", Some("http://[::1]:8188")),
            ("127.0.0.1:8188", None),
            ("ftp://a", None),
            ("http://user@a", None),
            ("http://a/?x=1", None),
            ("http://a/#x", None),
            ("", None),
        ] {
            let url: Option<WorkerUrl> = text.parse().ok();
            assert_eq!(url.as_ref().map(WorkerUrl::as_str), read, "{text}");
        }
    }
}
