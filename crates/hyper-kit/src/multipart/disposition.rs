//! The names in a part's `Content-Disposition`.
//!
//! Clients disagree on how to write a name. Browsers send raw UTF-8 with `%22` for a quote and leave a backslash alone;
//! curl puts a backslash before a quote or a backslash; older libraries send `filename*=UTF-8''...`. All three are read.
//! No other percent sign is decoded, because `100%25.png` is a name too.

use percent_encoding::percent_decode;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Disposition {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

impl Disposition {
    /// `None` when it is not `form-data`, has no name, or its names are not UTF-8.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let end = text.find(';').unwrap_or(text.len());
        let (kind, mut rest) = text.split_at(end);
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return None;
        }

        let (mut name, mut file_name, mut extended) = (None, None, None);
        while let Some((key, value, after)) = next_parameter(rest) {
            match key.as_str() {
                "name" => name = name.or(Some(value)),
                "filename" => file_name = file_name.or(Some(value)),
                "filename*" => extended = extended.or_else(|| decode_extended(&value)),
                _ => {}
            }
            rest = after;
        }
        Some(Self {
            name: name?,
            file_name: extended.or(file_name),
        })
    }
}

/// Takes `; key=value` off the front; the key in lower case, the value without its quotes.
fn next_parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text.trim_start_matches(|c: char| c == ';' || c.is_ascii_whitespace());
    let (key, rest) = text.split_once('=')?;
    let key = key.trim().to_ascii_lowercase();
    let rest = rest.trim_start();
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => unquote(quoted)?,
        None => {
            let (value, rest) = rest.split_at(rest.find(';').unwrap_or(rest.len()));
            (value.trim_end().to_owned(), rest)
        }
    };
    Some((key, value, rest))
}

/// Reads up to the closing quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let special = rest.find(['"', '\\'])?;
        let (plain, from) = rest.split_at(special);
        value.push_str(plain);
        match from.as_bytes() {
            [b'"', ..] => return Some((value.replace("%22", "\""), &from[1..])),
            [b'\\', escaped @ (b'"' | b'\\'), ..] => {
                value.push(char::from(*escaped));
                rest = &from[2..];
            }
            _ => {
                value.push('\\');
                rest = &from[1..];
            }
        }
    }
}

/// RFC 8187: `UTF-8''` and percent-encoded bytes. Another charset is not read; the plain `filename` then counts.
fn decode_extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_language, encoded) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    let decoded = percent_decode(encoded.as_bytes()).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests;
