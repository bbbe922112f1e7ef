//! Patterns of Python's `re`: read by the parser of another dialect, for which they are rewritten first, and run by a matcher
//! that counts its steps.

mod program;
mod search;
mod set;
mod shape;
mod visited;

use fancy_regex::Expr;

use super::replacement::Replacement;
use super::syntax::rewritten;
use program::{MAX_INSTRUCTIONS, Program};
use search::{MAX_STATES, MAX_STEPS, Search};

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
#[derive(Debug)]
pub(crate) struct Pattern {
    program: Program,
    /// Names of the groups, group 0 included.
    names: Vec<Option<String>>,
}

/// What is wrong with a pattern, or with looking for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// It cannot be read.
    #[error("the pattern cannot be read: {0}")]
    Broken(String),
    /// It names a character, and no table of names is here.
    #[error(
        "the pattern names a character with \\N{{...}}, and names are not known here; write the character itself, or its \
         number as \\uXXXX"
    )]
    NamedCharacter,
    /// The replacement cannot be read.
    #[error("the replacement cannot be read: {0}")]
    Template(String),
    /// It has too many characters.
    #[error(
        "the pattern has {0} bytes, and a pattern may have {MAX_PATTERN_BYTES}; use a shorter one"
    )]
    TooLong(usize),
    /// Its program has too many instructions.
    #[error(
        "the pattern has more than {MAX_INSTRUCTIONS} parts once its counted repetitions are written out; use smaller \
         counts, or `*` in their place"
    )]
    TooManyInstructions,
    /// It is too long for the text.
    #[error(
        "the pattern has {instructions} parts once its counted repetitions are written out, and the text {bytes} bytes; \
         the product of both may be at most {MAX_STATES}, so use smaller counts or a shorter text"
    )]
    TooManyStates {
        /// Instructions of the program.
        instructions: usize,
        /// Bytes of the text.
        bytes: usize,
    },
    /// It did not decide within its steps.
    #[error(
        "the pattern did not come to an end on this text within {MAX_STEPS} steps; make the pattern simpler, above all \
         repetitions inside of repetitions, or use a shorter text"
    )]
    TooSlow,
    /// The result would be longer than a text may be.
    #[error(
        "the result would be longer than the {0} bytes that a text may have; use shorter texts"
    )]
    ResultTooLong(usize),
    /// The job is to stop.
    #[error("the search was stopped")]
    Stopped,
}

/// Bytes of a pattern as it is written. A class in brackets takes up to a thousand times as many while it is read.
const MAX_PATTERN_BYTES: usize = 16 << 10;

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it is broken or too long.
    pub(crate) fn new(pattern: &str, options: Options) -> Result<Self, PatternError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong(pattern.len()));
        }
        let pattern = rewritten(pattern)?;
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
        let pattern = match flags.is_empty() {
            true => pattern,
            false => format!("(?{flags}){pattern}"),
        };
        let tree = Expr::parse_tree(&pattern);
        let tree = tree.map_err(|error| PatternError::Broken(error.to_string()))?;
        let program = Program::new(&tree.expr)?;
        let mut names = vec![None; program.groups];
        for (name, group) in tree.named_groups {
            if let Some(slot) = names.get_mut(group) {
                *slot = Some(name);
            }
        }
        Ok(Self { program, names })
    }

    /// The number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.names.len() - 1
    }

    /// Bytes that a search of a text takes, but for the places to go back to.
    pub(crate) fn memory_bytes(&self, text: &str) -> u64 {
        (self.program.splits as u64 * (text.len() as u64 + 1)).min(MAX_STATES as u64) / 8
    }

    /// What a group of the first match matched: `Some(None)` where the group took no part in it.
    ///
    /// # Errors
    /// If it takes too long to find, or `is_stopped` says so.
    pub(crate) fn first(
        &self,
        text: &str,
        group: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Option<String>>, PatternError> {
        let mut search = Search::new(&self.program, text, is_stopped)?;
        let found = search.find(0, false)?;
        Ok(found.then(|| {
            search
                .group(group)
                .map(|(start, end)| text[start..end].to_owned())
        }))
    }

    /// What a group of every match matched, one a line, and whether it took part in all of them; none overlaps another.
    ///
    /// # Errors
    /// As [`Pattern::first`].
    pub(crate) fn joined(
        &self,
        text: &str,
        group: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(String, bool), PatternError> {
        let mut joined = String::new();
        let (mut is_first, mut always) = (true, true);
        self.each(text, None, is_stopped, |search| {
            if !std::mem::take(&mut is_first) {
                joined.push('\n');
            }
            match search.group(group) {
                Some((start, end)) => joined.push_str(&text[start..end]),
                None => always = false,
            }
            Ok(())
        })?;
        Ok((joined, always))
    }

    /// The text with the first `most` matches replaced, or all.
    ///
    /// # Errors
    /// As [`Pattern::first`], and if the replacement is broken or the result longer than `most_bytes`.
    pub(crate) fn replaced(
        &self,
        text: &str,
        replacement: &str,
        most: Option<usize>,
        most_bytes: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<String, PatternError> {
        let names: Vec<Option<&str>> = self.names.iter().map(Option::as_deref).collect();
        let replacement = Replacement::new(replacement, &names)?;
        let mut replaced = String::new();
        let mut copied = 0;
        self.each(text, most, is_stopped, |search| {
            let Some((start, end)) = search.group(0) else {
                return Ok(());
            };
            replaced.push_str(&text[copied..start]);
            copied = end;
            replacement.write(&mut replaced, most_bytes, |group| {
                search
                    .group(group)
                    .map_or("", |(start, end)| &text[start..end])
            })
        })?;
        replaced.push_str(&text[copied..]);
        match replaced.len() > most_bytes {
            true => Err(PatternError::ResultTooLong(most_bytes)),
            false => Ok(replaced),
        }
    }

    /// Calls `take` for the first `most` matches, or for all, as Python scans: after an empty match the next one may begin at the
    /// same place if it is not empty, and an empty one may follow right after one that is not.
    fn each(
        &self,
        text: &str,
        most: Option<usize>,
        is_stopped: &dyn Fn() -> bool,
        mut take: impl FnMut(&Search<'_>) -> Result<(), PatternError>,
    ) -> Result<(), PatternError> {
        let mut search = Search::new(&self.program, text, is_stopped)?;
        let mut at = 0;
        let mut advance = false;
        for taken in 0.. {
            if most == Some(taken) || !search.find(at, advance)? {
                break;
            }
            let Some((start, end)) = search.group(0) else {
                break;
            };
            (at, advance) = (end, start == end);
            take(&search)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
