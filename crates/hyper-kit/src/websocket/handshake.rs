//! The opening handshake (RFC 6455, section 4.2), server side.

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::body::Body;

/// Characters of a key: 16 bytes in Base64.
const KEY_CHARACTERS: usize = 24;

/// Why a request gets no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWebSocket {
    /// It does not ask for one as HTTP/1.1 has it.
    #[error("this is a WebSocket; connect with a WebSocket client over HTTP/1.1")]
    NoUpgrade,
    /// It asks for another version than 13.
    #[error("WebSockets of version 13 are spoken here")]
    Version,
    /// Its key is none.
    #[error("`Sec-WebSocket-Key` must be 16 bytes in Base64")]
    Key,
}

/// Checks a request and makes its answer; the connection follows once the answer is sent.
pub(super) fn answer(request: &Parts) -> Result<(OnUpgrade, Response<Body>), NotWebSocket> {
    let headers = &request.headers;
    let asks = request.method == Method::GET
        && request.version == Version::HTTP_11
        && lists(headers, &CONNECTION, "upgrade")
        && lists(headers, &UPGRADE, "websocket");
    if !asks {
        return Err(NotWebSocket::NoUpgrade);
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return Err(NotWebSocket::Version);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or(NotWebSocket::Key)?;
    if !is_key(key.as_bytes()) {
        return Err(NotWebSocket::Key);
    }
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .expect("Base64 is a header value");
    let upgrade = request
        .extensions
        .get::<OnUpgrade>()
        .cloned()
        .ok_or(NotWebSocket::NoUpgrade)?;

    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok((upgrade, response))
}

/// Whether a header of lists names this.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case(wanted))
}

/// 22 digits of Base64 and two of padding.
fn is_key(key: &[u8]) -> bool {
    let digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == KEY_CHARACTERS && key[..22].iter().all(digit) && key.ends_with(b"==")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The example of the RFC.
    const ASKED: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    fn refused(changed: (&str, &str)) -> Option<NotWebSocket> {
        let mut request = Request::get("/ws");
        for (name, value) in ASKED.into_iter().filter(|(name, _)| *name != changed.0) {
            request = request.header(name, value);
        }
        let request = request.header(changed.0, changed.1);
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        answer(&parts).err()
    }

    #[test]
    fn what_is_no_handshake_is_told_apart() {
        for (name, value) in [
            ("connection", "close"),
            ("upgrade", "h2c"),
            // As asked for, but nobody can hand the connection over.
            ("x", "y"),
        ] {
            assert_eq!(refused((name, value)), Some(NotWebSocket::NoUpgrade));
        }
        let version = refused(("sec-websocket-version", "8"));
        assert_eq!(version, Some(NotWebSocket::Version));
        for key in ["", "dGhlIHNhbXBsZSBub25jZQ", "dGhl!HNhbXBsZSBub25jZQ=="] {
            let key = refused(("sec-websocket-key", key));
            assert_eq!(key, Some(NotWebSocket::Key));
        }
    }
}
