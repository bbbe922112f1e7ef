//! Headers that every request to a worker has besides its own, such as a credential for a proxy in front of it.

use std::fmt;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers by name. Their values are secret: they are never shown.
#[derive(Clone, Default)]
pub struct WorkerHeaders(HeaderMap);

/// A header that cannot be sent. The value is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    /// It is no name, or one whose header the connection itself needs.
    #[error("its name is none, or that of a header of the connection itself")]
    Name,
    /// It is no value.
    #[error("its value has characters that no header has")]
    Value,
}

impl WorkerHeaders {
    /// Whether a header of this name can be sent.
    #[must_use]
    pub fn takes(name: &str) -> bool {
        read(name).is_some()
    }

    /// Adds a header, in the place of one of the same name.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), InvalidHeader> {
        let name = read(name).ok_or(InvalidHeader::Name)?;
        let mut value = HeaderValue::from_str(value).map_err(|_| InvalidHeader::Value)?;
        value.set_sensitive(true);
        self.0.insert(name, value);
        Ok(())
    }

    pub(crate) fn into_map(self) -> HeaderMap {
        self.0
    }
}

fn read(name: &str) -> Option<HeaderName> {
    let name: HeaderName = name.parse().ok()?;
    let own = [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE];
    let is_own = own.contains(&name) || name.as_str().starts_with("sec-websocket-");
    (!is_own).then_some(name)
}

impl fmt::Debug for WorkerHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_its_own_and_values_are_never_shown() {
        let mut headers = WorkerHeaders::default();
        for name in ["", "a b", "Host", "Sec-WebSocket-Key", "content-length"] {
            assert_eq!(headers.add(name, "x"), Err(InvalidHeader::Name), "{name}");
        }
        assert_eq!(headers.add("x-key", "a\nb"), Err(InvalidHeader::Value));
        assert_eq!(headers.add("X-Key", "s3cret"), Ok(()));
        assert_eq!(format!("{headers:?}"), "{\"x-key\"}");
        let map = headers.into_map();
        assert_eq!(map["x-key"], "s3cret");
        assert!(!format!("{map:?}").contains("s3cret"));
    }
}
