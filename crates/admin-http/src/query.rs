//! The parameters of lists.

use percent_encoding::percent_decode_str;

use crate::errors::ApiError;

/// Which page is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Where the page before it ended.
    pub(crate) cursor: Option<String>,
    /// Most rows of the page, if the client says so.
    pub(crate) limit: Option<u32>,
}

/// Longest cursor: longer than any id.
const MOST_CURSOR_BYTES: usize = 256;

/// The parameter of this name, if it is there and a text.
pub(crate) fn parameter(query: &str, wanted: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
    let value = percent_decode_str(value).decode_utf8().ok()?;
    Some(value.into_owned())
}

impl Page {
    /// Reads `cursor` and `limit`; other parameters mean nothing.
    pub(crate) fn read(query: &str) -> Result<Self, ApiError> {
        let mut page = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            match name {
                "cursor" => {
                    let refused = ApiError::Parameter {
                        name: "cursor",
                        must: "the `next_cursor` of the page before; start without one",
                    };
                    let value = value.map_err(|_| ());
                    match value {
                        Ok(value) if (1..=MOST_CURSOR_BYTES).contains(&value.len()) => {
                            page.cursor = Some(value.into_owned());
                        }
                        Ok(_) | Err(()) => return Err(refused),
                    }
                }
                "limit" => {
                    let limit = value.ok().and_then(|value| value.parse().ok());
                    let refused = ApiError::Parameter {
                        name: "limit",
                        must: "a whole number from 1 to 200",
                    };
                    page.limit = Some(limit.ok_or(refused)?);
                }
                _ => {}
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_and_limit_are_read_and_nothing_else_is() {
        let read = |query| Page::read(query).map_err(|error| error.to_string());
        let page = |cursor: Option<&str>, limit| {
            let cursor = cursor.map(str::to_owned);
            Ok(Page { cursor, limit })
        };
        assert_eq!(read(""), page(None, None));
        assert_eq!(read("limit=7&x=1&cursor=a%2Db"), page(Some("a-b"), Some(7)));
        for query in ["limit=", "limit=x", "limit=-1", "cursor=", "cursor=%ff"] {
            read(query).expect_err(query);
        }
    }
}
