//! What is wrong with a catalog, and where.

use std::fmt;

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The file, as its author knows it.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong, on one line.
    pub reason: String,
}

impl Fault {
    /// A mistake that no line is to blame for.
    #[must_use]
    pub fn at_start(file: &str, reason: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 1,
            reason: reason.into(),
        }
    }

    /// A mistake at a place in a text.
    pub(super) fn at_offset(
        file: &str,
        text: &str,
        offset: usize,
        reason: impl Into<String>,
    ) -> Self {
        let before = text.as_bytes().iter().take(offset);
        Self {
            file: file.to_owned(),
            line: 1 + before.filter(|byte| **byte == b'\n').count(),
            reason: reason.into(),
        }
    }

    /// A mistake at the first place that mentions something; at the start when nothing does.
    #[must_use]
    pub fn mentioning(file: &str, text: &str, needle: &str, reason: impl Into<String>) -> Self {
        Self::at_offset(file, text, text.find(needle).unwrap_or(0), reason)
    }

    /// What the TOML parser says.
    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        let reason = error.message().replace('\n', " ");
        Self::at_offset(file, text, offset, reason)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}
