//! What is refused before the application sees it: requests that two servers in a row could read differently.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Uri, Version};

use crate::host::{Host, HostNames};

/// A request that the application does not get to answer, or failed to. The application words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// HTTP/1.1 without a `Host` (RFC 9112, 3.2).
    MissingHost,
    /// More than one `Host`.
    RepeatedHost,
    /// A host that is no name or address with a port.
    BadHost,
    /// A host name that this server does not answer to: perhaps a web page whose name resolves to this machine.
    UnknownHost,
    /// A `Content-Length` beside a `Transfer-Encoding` (RFC 9112, 6.3).
    LengthAndEncoding,
    /// More than one `Content-Length`.
    RepeatedLength,
    /// A `Transfer-Encoding` other than `chunked`.
    UnknownTransferEncoding,
    /// A line of the head that ends without a carriage return (RFC 9112, 2.2).
    BareLineFeed,
    /// Too many requests of this client, or of all, are unfinished; the answer names when to try again.
    TooManyStreams,
    /// The handler panicked; the request may have had an effect.
    Panicked,
}

impl Refusal {
    /// The status that the answer carries.
    pub fn status(self) -> StatusCode {
        match self {
            Self::MissingHost
            | Self::RepeatedHost
            | Self::BadHost
            | Self::LengthAndEncoding
            | Self::RepeatedLength
            | Self::BareLineFeed => StatusCode::BAD_REQUEST,
            Self::UnknownHost => StatusCode::FORBIDDEN,
            Self::TooManyStreams => StatusCode::TOO_MANY_REQUESTS,
            Self::UnknownTransferEncoding => StatusCode::NOT_IMPLEMENTED,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What is wrong, in words a client may read.
    pub fn message(self) -> &'static str {
        match self {
            Self::MissingHost => "the request has no Host header; send exactly one",
            Self::RepeatedHost => "the request has several Host headers; send exactly one",
            Self::BadHost => "the Host header is no host; send a name or an address, and a port",
            Self::UnknownHost => {
                "this server does not answer to the host name in the request; use its address, or ask the operator to \
                 name the host in `allowed_hosts` or `public_url`"
            }
            Self::LengthAndEncoding => {
                "the request has both Content-Length and Transfer-Encoding; send one of them"
            }
            Self::RepeatedLength => "the request has several Content-Length headers; send one",
            Self::UnknownTransferEncoding => {
                "the transfer encoding is not supported; send the body plain or chunked"
            }
            Self::BareLineFeed => "a line of the request's head does not end with CR LF",
            Self::TooManyStreams => {
                "too many requests are unfinished; read their answers, and send this one again"
            }
            Self::Panicked => "the request failed through a fault of this server; try again later",
        }
    }
}

/// Judges the head of a request as hyper read it. `names` are the host names that are answered, unless all are.
///
/// A request without any host passes where HTTP allows it: no browser sends one.
pub(super) fn check(
    version: Version,
    uri: &Uri,
    headers: &HeaderMap,
    names: Option<&HostNames>,
) -> Result<(), Refusal> {
    let host_needed = version == Version::HTTP_11;
    let mut hosts = headers.get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if host.is_none() && host_needed {
        return Err(Refusal::MissingHost);
    }
    if another.is_some() {
        return Err(Refusal::RepeatedHost);
    }
    if uri.authority().is_some() || host.is_some() {
        let host = Host::of_request(uri, headers).ok_or(Refusal::BadHost)?;
        if names.is_some_and(|names| !names.admit(&host)) {
            return Err(Refusal::UnknownHost);
        }
    }

    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let known = match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(only), None) => only.as_bytes().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    };
    if known {
        Ok(())
    } else {
        Err(Refusal::UnknownTransferEncoding)
    }
}
