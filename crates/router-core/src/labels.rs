//! The labels of calls: as headers say them, and as rows keep them.

use accounts::{Label, Labels};
use serde_json::{Map, Value};

use crate::RouterError;

/// Reads the values of the header, one label each.
///
/// # Errors
/// If they are no labels.
pub(crate) fn of_headers(values: &[&[u8]]) -> Result<Labels, RouterError> {
    if values.is_empty() {
        return Ok(Labels::NONE);
    }
    let malformed = |reason: String| RouterError::Malformed(format!("X-Service-Label: {reason}"));
    // So that a request of many headers costs no more than one of too many.
    let values = values.iter().take(Labels::MOST + 1);
    let labels = values.map(|value| {
        let text = std::str::from_utf8(value);
        let text = text.map_err(|_| malformed("a label is written in UTF-8".to_owned()))?;
        let label = text.trim_ascii().parse::<Label>();
        label.map_err(|error| malformed(error.to_string()))
    });
    let labels = labels.collect::<Result<Vec<_>, _>>()?;
    Labels::new(labels).map_err(|error| malformed(error.to_string()))
}

/// As a store keeps labels: a JSON object; `None` if there are none.
#[must_use]
pub fn write_labels(labels: &Labels) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    let pairs = labels.iter();
    let pairs = pairs.map(|label| (label.key().to_owned(), label.value().into()));
    Some(Value::Object(pairs.collect::<Map<_, _>>()).to_string())
}

/// What [`write_labels`] wrote; `None` of anything else.
#[must_use]
pub fn read_labels(text: &str) -> Option<Labels> {
    let pairs: Map<String, Value> = serde_json::from_str(text).ok()?;
    let labels = pairs
        .iter()
        .map(|(key, value)| Label::new(key, value.as_str()?).ok());
    Labels::new(labels.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Labels, RouterError> {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        of_headers(&values)
    }

    #[test]
    fn each_header_is_one_label() {
        let labels = read(&["team=blue", " note=a, \"b\" = c\\ "]).expect("labels");
        assert_eq!(labels.get("team"), Some("blue"));
        assert_eq!(labels.get("note"), Some("a, \"b\" = c\\"));
        let written = write_labels(&labels).expect("some");
        assert_eq!(read_labels(&written), Some(labels));
        assert!(read(&[]).expect("none").is_empty());
        assert_eq!(write_labels(&Labels::NONE), None);
    }

    #[test]
    fn what_is_no_label_is_refused_and_named() {
        let many = ["a=1"; 500];
        for values in [&["team"][..], &["a b=c"], &["a=1", "a=2"], &many] {
            let refused = read(values).expect_err("no labels");
            let told = refused.to_string();
            assert!(told.contains("X-Service-Label: "), "{told}");
        }
        assert!(of_headers(&[b"a=\xff"]).is_err());
        for text in ["", "[]", "{\"a\":1}", "{\"a b\":\"c\"}"] {
            assert_eq!(read_labels(text), None, "{text}");
        }
    }
}
