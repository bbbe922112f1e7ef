//! Python's operations on texts, over code points.

mod case;
mod format;
mod pattern;
mod replacement;
mod syntax;

pub(super) use case::{capitalized, title_cased};
pub(super) use format::formatted;
pub(super) use pattern::{Options, Pattern, PatternError};

use super::slices::position;
use crate::{NodeError, Value};

/// Bytes of a text that a node gives; graphs may hold as much. A few nodes that double a text would fill any memory.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 20;

/// A text as a node gives it.
///
/// # Errors
/// If it is longer than [`MAX_TEXT_BYTES`].
pub(super) fn bounded(text: String) -> Result<Value, NodeError> {
    check_length(text.len())?;
    Ok(Value::string(text))
}

/// Whether a text of so many bytes may be made.
///
/// # Errors
/// If it is longer than [`MAX_TEXT_BYTES`].
pub(super) fn check_length(bytes: usize) -> Result<(), NodeError> {
    match bytes > MAX_TEXT_BYTES {
        true => Err(NodeError::new(
            "MemoryError",
            format!(
                "the result would have {bytes} bytes, and a text may have {MAX_TEXT_BYTES}; use shorter texts"
            ),
        )),
        false => Ok(()),
    }
}

/// `string[start:end]`.
pub(super) fn slice(string: &str, start: i128, end: i128) -> String {
    let length = string.chars().count();
    let (start, end) = (position(start, length), position(end, length));
    string
        .chars()
        .skip(start)
        .take(end.saturating_sub(start))
        .collect()
}

/// `str.isspace` of one character: what `strip` takes away.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_count_code_points_and_forgive_positions() {
        let cases = [
            ((0, 5), "Hällo"),
            ((-5, -1), "Wörl"),
            ((3, 100), "lo Wörld"),
            ((5, 2), ""),
            ((-100, 1), "H"),
            ((i128::MIN, i128::MAX), "Hällo Wörld"),
        ];
        for ((start, end), part) in cases {
            assert_eq!(slice("Hällo Wörld", start, end), part, "[{start}:{end}]");
        }
    }

    #[test]
    fn space_is_what_python_strips() {
        let spaces = "\t\n\u{b}\u{c}\r\u{1c}\u{1f} \u{85}\u{a0}\u{2003}\u{3000}";
        assert!(spaces.chars().all(is_space));
        assert!(!"\u{200b}\u{feff}_".chars().any(is_space));
    }
}
