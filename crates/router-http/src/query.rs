//! The parameters of a query, as a list of the catalog wants them.

use percent_encoding::percent_decode;
use router_core::RouterError;

/// The values of the parameters that lists know, in the order in which they were sent. What is no UTF-8 becomes a text
/// that no value may be. Parameters that are not known are passed over, so that newer clients may send more.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) limit: Vec<String>,
    pub(crate) cursor: Vec<String>,
}

impl Query {
    /// Reads the part of an address behind the question mark.
    pub(crate) fn read(query: &str) -> Self {
        let mut read = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match decode(name).as_str() {
                "limit" => read.limit.push(decode(value)),
                "cursor" => read.cursor.push(decode(value)),
                _ => {}
            }
        }
        read
    }
}

/// The value of a parameter; `None` if it was not sent.
///
/// # Errors
/// If it was sent more than once.
pub(crate) fn parameter(query: &str, name: &str) -> Result<Option<String>, RouterError> {
    let mut values = query.split('&').filter_map(|pair| {
        let (sent, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(sent) == name).then(|| decode(value))
    });
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(RouterError::Malformed(format!(
            "`{name}` is given more than once"
        ))),
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8_lossy();
    decoded.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_are_read_in_order_and_decoded() {
        let read = Query::read("limit=5&x=1&cursor=a%2Bb&limit=%31&cursor&=&&l%69mit=+7");
        assert_eq!(read.limit, ["5", "1", " 7"]);
        assert_eq!(read.cursor, ["a+b", ""]);
        assert_eq!(Query::read(""), Query::default());
        assert_eq!(Query::read("limit=%ff").limit, ["\u{fffd}"]);
    }
}
