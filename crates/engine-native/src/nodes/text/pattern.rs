//! Patterns of Python's `re`, run by an engine of another dialect: the pattern is rewritten first.

use std::time::{Duration, Instant};

use fancy_regex::{Captures, Regex, RegexBuilder};

use super::replacement::Replacement;
use super::syntax::rewritten;

/// How a pattern is read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Letters match in either case.
    pub(crate) case_insensitive: bool,
    /// `^` and `$` match at every line.
    pub(crate) multiline: bool,
    /// `.` matches a line feed too.
    pub(crate) dotall: bool,
}

/// A pattern that can be looked for.
pub(crate) struct Pattern {
    /// Finds a match anywhere from a position on.
    any: Regex,
    /// The same, but not an empty match at the position itself: where Python looks after an empty match.
    advancing: Regex,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// It cannot be read.
    #[error("the pattern cannot be read: {0}")]
    Broken(String),
    /// The replacement cannot be read.
    #[error("the replacement cannot be read: {0}")]
    Template(String),
    /// It took too long to decide.
    #[error("the pattern takes too long on this text; make it simpler")]
    TooSlow,
    /// The result would be longer than it may be.
    #[error("the replaced text would be longer than the memory of a job allows; use a shorter one")]
    TooLong,
}

/// Steps that one search may take back: a fraction of a second.
const MAX_STEPS_BACK: usize = 2_000_000;

/// The time for all matches of one call.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Bytes that a compiled pattern may take.
const MAX_COMPILED_BYTES: usize = 16 << 20;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is broken.
    pub(crate) fn new(pattern: &str, options: Options) -> Result<Self, PatternError> {
        let pattern = rewritten(pattern, options.multiline)?;
        let flags = [
            (options.case_insensitive, 'i'),
            (options.multiline, 'm'),
            (options.dotall, 's'),
        ];
        let flags: String = flags
            .into_iter()
            .filter(|(is_on, _)| *is_on)
            .map(|(_, flag)| flag)
            .collect();
        let flags = if flags.is_empty() {
            flags
        } else {
            format!("(?{flags})")
        };
        let compiled = |pattern: String| {
            RegexBuilder::new(&pattern)
                .backtrack_limit(MAX_STEPS_BACK)
                .delegate_size_limit(MAX_COMPILED_BYTES)
                .build()
                .map_err(|error| PatternError::Broken(error.to_string()))
        };
        Ok(Self {
            any: compiled(format!("{flags}{pattern}"))?,
            advancing: compiled(format!("{flags}(?:{pattern})(?!\\G)"))?,
        })
    }

    /// The number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.any.captures_len() - 1
    }

    /// What a group of the first match matched: `Some(None)` where the group took no part in it.
    ///
    /// # Errors
    /// If it takes too long to find.
    pub(crate) fn first(
        &self,
        text: &str,
        group: usize,
    ) -> Result<Option<Option<String>>, PatternError> {
        let captures = self.any.captures(text).map_err(|_| PatternError::TooSlow)?;
        Ok(captures.map(|captures| captures.get(group).map(|group| group.as_str().to_owned())))
    }

    /// What a group of every match matched, one a line, and whether it took part in all of them; none overlaps another.
    ///
    /// # Errors
    /// If one takes too long to find.
    pub(crate) fn joined(&self, text: &str, group: usize) -> Result<(String, bool), PatternError> {
        let mut joined = String::new();
        let (mut is_first, mut always) = (true, true);
        self.each(text, 0, |captures| {
            if !std::mem::take(&mut is_first) {
                joined.push('\n');
            }
            match captures.get(group) {
                Some(group) => joined.push_str(group.as_str()),
                None => always = false,
            }
            Ok(())
        })?;
        Ok((joined, always))
    }

    /// The text with the first `count` matches replaced; 0 replaces all.
    ///
    /// # Errors
    /// If the replacement is broken, a match takes too long to find, or the result gets longer than `most_bytes`.
    pub(crate) fn replaced(
        &self,
        text: &str,
        replacement: &str,
        count: usize,
        most_bytes: usize,
    ) -> Result<String, PatternError> {
        let names: Vec<Option<&str>> = self.any.capture_names().collect();
        let replacement = Replacement::new(replacement, &names)?;
        let mut replaced = String::new();
        let mut copied = 0;
        self.each(text, count, |captures| {
            let Some(whole) = captures.get(0) else {
                return Ok(());
            };
            replaced.push_str(&text[copied..whole.start()]);
            replacement.write(&mut replaced, |group| {
                captures.get(group).map_or("", |group| group.as_str())
            });
            copied = whole.end();
            match replaced.len() > most_bytes {
                true => Err(PatternError::TooLong),
                false => Ok(()),
            }
        })?;
        replaced.push_str(&text[copied..]);
        Ok(replaced)
    }

    /// Calls `take` for the first `count` matches (0: all), as Python scans: after an empty match the next one may begin at the
    /// same place if it is not empty, and an empty one may follow right after one that is not.
    fn each<'t>(
        &self,
        text: &'t str,
        count: usize,
        mut take: impl FnMut(&Captures<'t>) -> Result<(), PatternError>,
    ) -> Result<(), PatternError> {
        let begun = Instant::now();
        let mut at = 0;
        let mut advance = false;
        for taken in 0.. {
            if count > 0 && taken == count {
                break;
            }
            if begun.elapsed() > MAX_TIME {
                return Err(PatternError::TooSlow);
            }
            let regex = if advance { &self.advancing } else { &self.any };
            let captures = regex.captures_from_pos(text, at);
            let Some(captures) = captures.map_err(|_| PatternError::TooSlow)? else {
                break;
            };
            let Some(whole) = captures.get(0) else { break };
            (at, advance) = (whole.end(), whole.start() == whole.end());
            take(&captures)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
