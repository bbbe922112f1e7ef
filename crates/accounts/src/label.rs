//! Labels: the few short texts that a caller hangs on its work to find it again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    key: String,
    value: String,
}

/// The labels of one piece of work, by key. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Option<Arc<[Label]>>);

/// The texts are no labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabels {
    /// There are too many.
    #[error("there are more than {most} labels; send fewer", most = Labels::MOST)]
    TooMany,
    /// Two have one key.
    #[error("the label {0:?} is given more than once; send it once")]
    Repeated(String),
    /// A text has no equals sign.
    #[error("a label is written KEY=VALUE, such as project=posters")]
    NoPair,
    /// A key or a value is not allowed.
    #[error("the label {key:?} breaks a rule: {must}")]
    Breaks {
        /// The key, or the beginning of a long one.
        key: String,
        /// What is right.
        must: &'static str,
    },
}

/// Most characters of a key.
const MOST_KEY_CHARACTERS: usize = 40;

/// Most characters of a value.
const MOST_VALUE_CHARACTERS: usize = 500;

impl Label {
    /// A label whose key and value are allowed.
    ///
    /// # Errors
    /// If one of them is not.
    pub fn new(key: &str, value: &str) -> Result<Self, InvalidLabels> {
        let allowed = Self::check_key(key).and_then(|()| Self::check_value(value));
        allowed.map_err(|must| InvalidLabels::Breaks {
            key: key.chars().take(MOST_KEY_CHARACTERS).collect(),
            must,
        })?;
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }

    /// Whether a text may be a key.
    ///
    /// # Errors
    /// What a key must be.
    pub fn check_key(key: &str) -> Result<(), &'static str> {
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
    pub fn check_value(value: &str) -> Result<(), &'static str> {
        let unseen = |c: char| c.is_control() || is_bidirectional_formatting(c);
        if value.chars().any(unseen) {
            return Err(
                "a value has no control characters and none that change the writing direction",
            );
        }
        if value.chars().count() > MOST_VALUE_CHARACTERS {
            return Err("a value has at most 500 characters");
        }
        Ok(())
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Characters that make a text read as another one.
fn is_bidirectional_formatting(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Labels {
    /// No labels.
    pub const NONE: Self = Self(None);

    /// Most labels of one piece of work.
    pub const MOST: usize = 16;

    /// These labels together.
    ///
    /// # Errors
    /// If they are too many, or two have one key.
    pub fn new(mut labels: Vec<Label>) -> Result<Self, InvalidLabels> {
        if labels.len() > Self::MOST {
            return Err(InvalidLabels::TooMany);
        }
        labels.sort_unstable();
        let repeated = labels.windows(2).find(|pair| pair[0].key == pair[1].key);
        if let Some([label, _]) = repeated {
            return Err(InvalidLabels::Repeated(label.key.clone()));
        }
        Ok(Self((!labels.is_empty()).then(|| labels.into())))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut labels = self.iter();
        labels.find(|label| label.key == key).map(Label::value)
    }

    /// Each of them, by key.
    pub fn iter(&self) -> std::slice::Iter<'_, Label> {
        self.0.as_deref().unwrap_or_default().iter()
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = &'a Label;
    type IntoIter = std::slice::Iter<'a, Label>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Written `KEY=VALUE`. A value may hold equals signs.
impl FromStr for Label {
    type Err = InvalidLabels;

    fn from_str(text: &str) -> Result<Self, InvalidLabels> {
        let (key, value) = text.split_once('=').ok_or(InvalidLabels::NoPair)?;
        Self::new(key, value)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        text.parse().expect("a label")
    }

    #[test]
    fn a_label_is_a_key_and_a_value() {
        let label = label("run.id=a=b, c");
        assert_eq!((label.key(), label.value()), ("run.id", "a=b, c"));
        assert_eq!(label.to_string(), "run.id=a=b, c");
        let longest = format!("{}={}", "k".repeat(40), "é".repeat(500));
        assert!(longest.parse::<Label>().is_ok());
        assert!("k=".parse::<Label>().is_ok());
    }

    #[test]
    fn a_label_that_breaks_a_rule_is_refused() {
        let long_key = format!("{}=v", "k".repeat(41));
        let long_value = format!("k={}", "é".repeat(501));
        let bad = [
            "",
            "k",
            "=v",
            "a b=v",
            "ä=v",
            "k=a\nb",
            "k=\u{202e}",
            "k=\u{200f}",
            &long_key,
            &long_value,
        ];
        for text in bad {
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn labels_are_few_and_each_key_is_one() {
        let labels = Labels::new(vec![label("b=2"), label("a=1")]).expect("labels");
        let written: Vec<String> = labels.iter().map(Label::to_string).collect();
        assert_eq!(written, ["a=1", "b=2"]);
        assert_eq!((labels.get("b"), labels.get("c")), (Some("2"), None));
        assert_eq!(Labels::new(Vec::new()), Ok(Labels::NONE));
        assert_eq!(
            Labels::new(vec![label("a=1"), label("b=1"), label("a=2")]),
            Err(InvalidLabels::Repeated("a".to_owned()))
        );
        let many = |n: usize| (0..n).map(|n| label(&format!("k{n}=v"))).collect();
        assert!(Labels::new(many(16)).is_ok());
        assert_eq!(Labels::new(many(17)), Err(InvalidLabels::TooMany));
    }
}
