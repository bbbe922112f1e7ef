//! Labels: the few short texts that a caller hangs on a job to find it again.

use serde_json::value::RawValue;
use workflow_core::Metadata;

use super::errors::ApiError;

/// Most labels of a job.
const MOST_LABELS: usize = 16;

/// Most characters of a key.
const MOST_KEY_CHARACTERS: usize = 40;

/// Most characters of a value.
const MOST_VALUE_CHARACTERS: usize = 500;

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
    if labels.len() > MOST_LABELS {
        return refused(format!(
            "a job has at most {MOST_LABELS} labels; send fewer"
        ));
    }
    for (key, value) in &labels {
        if let Err(must) = check_key(key).and_then(|()| check_value(value)) {
            return refused(format!("the label {key:?} breaks a rule: {must}"));
        }
    }
    Ok(labels)
}

/// Whether a text may be a key.
///
/// # Errors
/// What a key must be.
pub(crate) fn check_key(key: &str) -> Result<(), &'static str> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=MOST_KEY_CHARACTERS).contains(&key.len()) && key.bytes().all(known) {
        Ok(())
    } else {
        Err("a key has 1 to 40 of the characters A-Z, a-z, 0-9, `_`, `.` and `-`")
    }
}

/// Whether a text may be a value.
///
/// # Errors
/// What a value must be.
pub(crate) fn check_value(value: &str) -> Result<(), &'static str> {
    let unseen = |c: char| c.is_control() || is_bidirectional_formatting(c);
    if value.chars().any(unseen) {
        return Err("a value has no control characters and none that change the writing direction");
    }
    if value.chars().count() > MOST_VALUE_CHARACTERS {
        return Err("a value has at most 500 characters");
    }
    Ok(())
}

/// Characters that make a text read as another one.
fn is_bidirectional_formatting(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
