//! What a check has to say: where, which rule, and what to do about it.

use std::fmt;

/// One broken rule at one place; prints as `path:line: rule; advice`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository, with forward slashes.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The rule as a sentence without an end.
    pub rule: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    /// Puts a finding together.
    pub fn new(
        path: impl Into<String>,
        line: usize,
        rule: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            line,
            rule: rule.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.path, self.line, self.rule, self.advice
        )
    }
}
