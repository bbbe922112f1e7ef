//! The bytes of a blob as an answer: whole, in part, or only that they have not changed.
//!
//! Bytes come from strangers and are shown by browsers, so what could run as a page is downloaded and never shown, nothing
//! is guessed from its bytes, and whatever is shown has no rights.

use asset_store::{Assets, Blob, BlobHash, Presented};
use futures_util::TryStreamExt;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION, REFERRER_POLICY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use hyper_kit::Body;
use hyper_kit::etag::{ETag, not_modified};
use hyper_kit::range::{ByteRange, content_range, requested_range, unsatisfied_range};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::ContentError;

/// What is sent for bytes of no known type.
const UNKNOWN_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Why bytes are not sent that changed in the store, in every family.
pub const DAMAGED: &str = "the stored bytes of this file are damaged; upload the file again, or submit the job again that made it";

/// Bytes to be sent.
#[derive(Debug)]
pub struct Representation<'a> {
    /// The blob.
    pub hash: BlobHash,
    /// How many.
    pub size_bytes: u64,
    /// Their media type, as a client said it.
    pub content_type: &'a str,
    /// The name under which a browser saves them.
    pub file_name: &'a str,
}

/// Answers a GET or HEAD of some bytes.
///
/// # Errors
/// [`ContentError::Unsatisfiable`], and what opening the blob fails with.
pub async fn serve(
    assets: &Assets,
    request: &Parts,
    shown: &Representation<'_>,
) -> Result<Response<Body>, ContentError> {
    let tag = ETag::strong(&shown.hash.to_hex()).expect("hexadecimal digits may stand in a tag");
    let mut response = Response::new(Body::empty());
    describe(response.headers_mut(), shown, &tag);
    if not_modified(&request.headers, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_DISPOSITION);
        return Ok(response);
    }

    let length = shown.size_bytes;
    let wanted = requested_range(&request.method, &request.headers, length, Some(&tag));
    let range = match wanted {
        ByteRange::Whole => 0..length,
        ByteRange::Part(range) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let value = content_range(&range, length);
            response.headers_mut().insert(CONTENT_RANGE, value);
            range
        }
        ByteRange::Unsatisfiable => {
            return Err(ContentError::Unsatisfiable(unsatisfied_range(length)));
        }
    };
    if request.method == Method::GET
        && let Some(address) = redirect(assets, shown).await?
    {
        return Ok(address);
    }
    let sent_bytes = range.end - range.start;
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(sent_bytes));
    if request.method == Method::HEAD {
        // Nothing is read; what is known to be damaged is refused as GET would be.
        assets.open(&shown.hash, 0..0).await?;
    } else {
        let reader = assets.open(&shown.hash, range).await?;
        let bytes = reader.bytes.inspect_err(|error| {
            // The head is sent: all that is left is to break off, so that no part is taken for the whole.
            let error = hyper_kit::error_chain(error);
            tracing::error!(error, "sending a blob broke off");
        });
        *response.body_mut() = Body::stream(bytes);
    }
    Ok(response)
}

/// An answer that sends the reader to the store itself, which heeds the range that the reader asks it for; `None` where this server
/// sends the bytes.
async fn redirect(
    assets: &Assets,
    shown: &Representation<'_>,
) -> Result<Option<Response<Body>>, ContentError> {
    let blob = Blob {
        hash: shown.hash,
        size_bytes: shown.size_bytes,
    };
    let (content_type, disposition) = (media_type(shown), disposition(shown));
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let presented = Presented {
        content_type: &text(&content_type),
        disposition: &text(&disposition),
    };
    let Some(address) = assets.address(&blob, presented).await? else {
        return Ok(None);
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let address = HeaderValue::try_from(address).expect("a URL is ASCII");
    let headers = response.headers_mut();
    headers.insert(LOCATION, address);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
    // The address lapses, and is for this reader alone.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(Some(response))
}

fn media_type(shown: &Representation<'_>) -> HeaderValue {
    HeaderValue::from_str(shown.content_type).unwrap_or(UNKNOWN_TYPE)
}

fn describe(headers: &mut HeaderMap, shown: &Representation<'_>, tag: &ETag) {
    headers.insert(CONTENT_TYPE, media_type(shown));
    headers.insert(CONTENT_DISPOSITION, disposition(shown));
    headers.insert(ETAG, tag.to_value());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

/// How a browser is to take the bytes, and the name under which it saves them (RFC 6266).
fn disposition(shown: &Representation<'_>) -> HeaderValue {
    let kind = if is_active(shown.content_type) || has_active_ending(shown.file_name) {
        "attachment"
    } else {
        "inline"
    };
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') || c == ' ';
    let name = shown.file_name;
    let fallback: String = name
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    let value = if fallback == name {
        format!("{kind}; filename=\"{fallback}\"")
    } else {
        let exact = utf8_percent_encode(name, NON_ALPHANUMERIC);
        format!("{kind}; filename=\"{fallback}\"; filename*=UTF-8''{exact}")
    };
    HeaderValue::from_str(&value).expect("only visible ASCII and spaces are left")
}

/// Whether a browser might run what such bytes hold.
fn is_active(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    ["html", "xml", "javascript", "ecmascript", "svg", "css"]
        .iter()
        .any(|active| essence.contains(active))
}

/// Whether a name promises such bytes: programs that save or open a file go by its ending.
fn has_active_ending(file_name: &str) -> bool {
    let ending = file_name.rsplit_once('.').map(|(_, ending)| ending);
    let ending = ending.unwrap_or_default().to_ascii_lowercase();
    [
        "html", "htm", "xhtml", "xht", "shtml", "mhtml", "js", "mjs", "css", "svg", "svgz", "xml",
        "xsl",
    ]
    .contains(&ending.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposed(content_type: &str, file_name: &str) -> HeaderValue {
        disposition(&Representation {
            hash: BlobHash::of(b""),
            size_bytes: 0,
            content_type,
            file_name,
        })
    }

    #[test]
    fn what_could_run_is_downloaded() {
        for active in [
            "text/html",
            "TEXT/HTML; charset=utf-8",
            "image/svg+xml",
            "application/xml",
            "application/xhtml+xml",
            "text/javascript",
            "application/ecmascript",
        ] {
            let value = disposed(active, "a");
            assert_eq!(value, "attachment; filename=\"a\"", "{active}");
        }
        for name in ["a.html", "a.b.HTM", "x.svg", "evil.mjs", "a.xhtml"] {
            let value = disposed("application/octet-stream", name);
            assert_eq!(value, format!("attachment; filename=\"{name}\""));
        }
        for passive in [
            "image/png",
            "video/mp4",
            "text/plain",
            "application/octet-stream",
        ] {
            assert_eq!(
                disposed(passive, "a"),
                "inline; filename=\"a\"",
                "{passive}"
            );
        }
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(
            disposed("image/png", "a\"; x=\"é.png"),
            "inline; filename=\"a_; x=__.png\"; filename*=UTF-8''a%22%3B%20x%3D%22%C3%A9%2Epng"
        );
    }
}
