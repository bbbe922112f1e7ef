//! Labels: the few short texts that a caller hangs on a job to find it again.

use accounts::{Label, Labels};
use serde_json::value::RawValue;
use workflow_core::Metadata;

use super::errors::ApiError;

/// Reads the labels of a submission.
///
/// # Errors
/// If they are no object of texts, or break a rule; the message names the label.
pub(crate) fn read(raw: &RawValue) -> Result<Metadata, ApiError> {
    let refused = |message: String| Err(ApiError::Labels(message));
    let Ok(labels) = serde_json::from_str::<Option<Metadata>>(raw.get()) else {
        return refused("`metadata` must be an object whose values are texts".to_owned());
    };
    let labels = labels.unwrap_or_default();
    if labels.len() > Labels::MOST {
        return refused(format!(
            "a job has at most {} labels; send fewer",
            Labels::MOST
        ));
    }
    for (key, value) in &labels {
        if let Err(must) = Label::check_key(key).and_then(|()| Label::check_value(value)) {
            return refused(format!("the label {key:?} breaks a rule: {must}"));
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Metadata, ApiError> {
        read(serde_json::from_str(text).expect("valid JSON"))
    }

    #[test]
    fn labels_are_texts_by_key() {
        let labels = read_text(r#"{"run.id": "7", "note": ""}"#).expect("good labels");
        assert_eq!(labels["run.id"], "7");
        assert_eq!(labels["note"], "");
        assert!(read_text("null").expect("as if left out").is_empty());
        assert!(read_text("{}").expect("none at all").is_empty());
    }

    #[test]
    fn labels_that_break_a_rule_are_refused_by_name() {
        let many: Metadata = (0..17).map(|n| (n.to_string(), String::new())).collect();
        let many = serde_json::to_string(&many).expect("texts");
        let long_key = format!(r#"{{"{}": "v"}}"#, "k".repeat(41));
        let long_value = format!(r#"{{"k": "{}"}}"#, "é".repeat(501));
        let bad = [
            "[]",
            "7",
            r#"{"k": 7}"#,
            r#"{"k": null}"#,
            r#"{"": "v"}"#,
            r#"{"a b": "v"}"#,
            r#"{"ä": "v"}"#,
            r#"{"k": "a\nb"}"#,
            r#"{"k": "\u202e"}"#,
            r#"{"k": "\u200f"}"#,
            &many,
            &long_key,
            &long_value,
        ];
        for text in bad {
            assert!(
                matches!(read_text(text), Err(ApiError::Labels(_))),
                "{text}"
            );
        }
        let longest = format!(r#"{{"{}": "{}"}}"#, "k".repeat(40), "é".repeat(500));
        assert!(read_text(&longest).is_ok());
    }
}
