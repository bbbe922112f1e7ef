//! A Rust file split into code, comments and tests, so that a rule about code is not broken by a sentence about it.
//!
//! This is a lexer of five states and not a parser: it knows comments, strings and characters well enough to blank them,
//! and finds the end of an item behind `#[cfg(test)]` by its brackets.

use std::ops::Range;

/// One Rust file; `code`, `comments` and `literals` have the length and the line breaks of the file itself.
#[derive(Debug)]
pub struct Source {
    /// Path from the root of the repository.
    pub path: String,
    /// The code; comments and the insides of literals are blank.
    pub code: String,
    /// The comments; everything else is blank.
    pub comments: String,
    /// The texts and characters in quotes; everything else is blank.
    pub literals: String,
    /// Byte ranges of the items behind `#[cfg(test)]`; the whole file for a file of tests.
    tests: Vec<Range<usize>>,
}

impl Source {
    /// Splits `text`, the content of the file at `path`.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let kinds = kinds(text.as_bytes());
        let code = keep(text, &kinds, Kind::Code);
        let tests = if is_test_file(path) {
            std::iter::once(0..text.len()).collect()
        } else {
            test_items(&code)
        };
        Self {
            path: path.to_owned(),
            comments: keep(text, &kinds, Kind::Comment),
            literals: keep(text, &kinds, Kind::Literal),
            code,
            tests,
        }
    }

    /// Returns the line of a byte offset, counted from 1.
    #[must_use]
    pub fn line(&self, offset: usize) -> usize {
        self.code.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    }

    /// Says whether the byte at `offset` is part of a test.
    #[must_use]
    pub fn in_tests(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Counts the lines that are not part of a test.
    #[must_use]
    pub fn lines_without_tests(&self) -> usize {
        let mut start = 0;
        let mut count = 0;
        for line in self.code.split_inclusive('\n') {
            count += usize::from(!self.in_tests(start));
            start += line.len();
        }
        count
    }
}

/// Finds `needle` in `text` where it is a word of its own, and returns the offsets.
///
/// An end of the needle that is not a letter, digit or underscore joins on to anything.
pub fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let (first, last) = (needle.bytes().next(), needle.bytes().next_back());
    text.match_indices(needle)
        .map(|(offset, _)| offset)
        .filter(move |offset| {
            let before = offset.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(offset + needle.len()).copied();
            let glued = (joins(before) && joins(first)) || (joins(last) && joins(after));
            !glued
        })
}

/// Returns the first path segment behind every `root::`, with its offset, through braces: `std::{fs, io::Read}` gives
/// `fs` and `io`.
#[must_use]
pub fn segments_behind<'a>(code: &'a str, root: &'a str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for offset in words(code, root) {
        let Some(rest) = code[offset + root.len()..].strip_prefix("::") else {
            continue;
        };
        let start = code.len() - rest.len();
        if !rest.starts_with('{') {
            found.push((offset, identifier(rest)));
            continue;
        }
        let mut depth = 0_usize;
        let mut fresh = false;
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b',' => {}
                _ if fresh && joins(Some(byte)) => {
                    found.push((start + at, identifier(&rest[at..])));
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            fresh = depth == 1
                && (byte == b'{' || byte == b',' || (fresh && byte.is_ascii_whitespace()));
        }
    }
    found
}

fn identifier(text: &str) -> &str {
    let end = text
        .bytes()
        .position(|byte| !joins(Some(byte)))
        .unwrap_or(text.len());
    &text[..end]
}

fn joins(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Test-only modules are called `tests` or lie in a folder of that name; nothing else is recognised on purpose.
fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    code.match_indices(MARK)
        .map(|(start, _)| start..start + MARK.len() + item_length(&code[start + MARK.len()..]))
        .collect()
}

/// The length of the item that `code` starts with: up to its closing brace, or to a semicolon outside brackets.
fn item_length(code: &str) -> usize {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return at + 1,
            b'}' => braces -= 1,
            b';' if brackets == 0 && braces == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

fn keep(text: &str, kinds: &[Kind], kind: Kind) -> String {
    let byte = |(byte, of): (u8, &Kind)| {
        if *of == kind || byte == b'\n' {
            byte
        } else {
            b' '
        }
    };
    let bytes = text.bytes().zip(kinds).map(byte).collect();
    String::from_utf8(bytes).expect("kinds change at ASCII characters only")
}

fn kinds(text: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(text.len());
    while kinds.len() < text.len() {
        let at = kinds.len();
        let before = at.checked_sub(1).map(|index| text[index]);
        let (length, kind) = piece(&text[at..], before);
        kinds.resize((at + length).min(text.len()), kind);
    }
    kinds
}

/// The length and the kind of the piece at the start of `rest`.
fn piece(rest: &[u8], before: Option<u8>) -> (usize, Kind) {
    match rest {
        [b'/', b'/', ..] => (until(rest, 0, b"\n"), Kind::Comment),
        [b'/', b'*', ..] => (block_comment(rest), Kind::Comment),
        [b'"', ..] => (quoted(rest, b'"'), Kind::Literal),
        [b'\'', b'\\', ..] => (quoted(rest, b'\''), Kind::Literal),
        [b'\'', ..] => character(rest).map_or((1, Kind::Code), |length| (length, Kind::Literal)),
        [b'r', ..] if !joins(before) || matches!(before, Some(b'b' | b'c')) => {
            raw_string(rest).map_or((1, Kind::Code), |length| (length, Kind::Literal))
        }
        _ => (1, Kind::Code),
    }
}

/// The index of `end` at or after `from`, or the length of the text.
fn until(text: &[u8], from: usize, end: &[u8]) -> usize {
    (from..text.len())
        .find(|at| text[*at..].starts_with(end))
        .unwrap_or(text.len())
}

fn block_comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character literal is one character between quotes; anything else behind a quote is a lifetime.
fn character(text: &[u8]) -> Option<usize> {
    let width = match text.get(1)? {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    };
    (text.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn raw_string(text: &[u8]) -> Option<usize> {
    let hashes = text[1..].iter().take_while(|byte| **byte == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    Some(until(text, 2 + hashes, &end) + end.len())
}

#[cfg(test)]
mod tests;
