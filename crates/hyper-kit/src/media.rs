//! Whether a request says that its body is JSON.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Why a body is not taken for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotJson {
    /// There is no `Content-Type`.
    #[error("the request has no content type; send application/json")]
    Missing,
    /// It names another type, or several, or cannot be read.
    #[error("the content type is not JSON; send application/json")]
    OtherType,
    /// It is JSON in an encoding other than UTF-8.
    #[error("the charset is not UTF-8; send application/json in UTF-8")]
    OtherCharset,
}

/// Passes `application/json` and `application/*+json`, in UTF-8 when a charset is named. Other parameters do not matter.
pub fn expect_json(headers: &HeaderMap) -> Result<(), NotJson> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let value = match (types.next(), types.next()) {
        (None, _) => return Err(NotJson::Missing),
        (Some(only), None) => only.to_str().map_err(|_| NotJson::OtherType)?,
        (Some(_), Some(_)) => return Err(NotJson::OtherType),
    };

    let mut pieces = value.split(';').map(str::trim);
    let essence = pieces.next().unwrap_or_default().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/");
    let suffixed = |subtype: &str| subtype.len() > 5 && subtype.ends_with("+json");
    if !subtype.is_some_and(|subtype| subtype == "json" || suffixed(subtype)) {
        return Err(NotJson::OtherType);
    }

    let charsets = pieces.filter_map(|piece| {
        let (name, value) = piece.split_once('=')?;
        name.trim_end()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches('"'))
    });
    let utf8 = |charset: &str| {
        charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
    };
    if charsets.into_iter().all(utf8) {
        Ok(())
    } else {
        Err(NotJson::OtherCharset)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn judge(types: &[&'static str]) -> Result<(), NotJson> {
        let mut headers = HeaderMap::new();
        for value in types {
            headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
        }
        expect_json(&headers)
    }

    #[test]
    fn json_passes() {
        for value in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json; charset=utf8",
            "application/json; profile=x",
            "application/problem+json",
        ] {
            assert_eq!(judge(&[value]), Ok(()), "{value}");
        }
    }

    #[test]
    fn everything_else_does_not() {
        assert_eq!(judge(&[]), Err(NotJson::Missing));
        for value in [
            "",
            "text/json",
            "text/plain",
            "application/jsonl",
            "application/+json",
            "json",
        ] {
            assert_eq!(judge(&[value]), Err(NotJson::OtherType), "{value}");
        }
        let twice = judge(&["application/json", "text/plain"]);
        assert_eq!(twice, Err(NotJson::OtherType));
        let latin = judge(&["application/json; charset=iso-8859-1"]);
        assert_eq!(latin, Err(NotJson::OtherCharset));
    }
}
