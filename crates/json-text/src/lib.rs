//! JSON text, measured before it is parsed: how many values a tree of it has, how deep they nest, how long its texts are. And the
//! tree of what is written.
//!
//! A tree takes many times the bytes of its text: 16 MiB of `[0,0,...]` become 1.2 GB. A server measures the text of
//! a stranger before it parses it. Measuring allocates nothing, and does not say whether a text is JSON: that is for the
//! parser, which also stops at a depth of 128. The figures of a text that is no JSON mean nothing; the parser refuses it.
//!
#![doc = include_str!("../README.md")]

mod spelling;
mod tree;

pub use spelling::Spelling;
pub use tree::{object, read, read_str, read_str_to_look, read_to_look, value};

/// Most values that one text may have: a graph of 50,000 nodes has room for 20 in each.
pub const MOST_VALUES: usize = 1_000_000;

/// Most bytes that the tree of one text may take, by [`Weight::tree_bytes`]: a million plain values pass, as many objects
/// that each hold one value do not.
pub const MOST_TREE_BYTES: usize = 256 << 20;

/// Bytes of a tree for each value in it. A value itself takes 72 bytes, and lists grow by doubling.
const VALUE_BYTES: usize = 144;

/// Bytes of a tree for each list besides: even a list of one value has room for four.
const LIST_BYTES: usize = 216;

/// Bytes of a tree for each object besides: its index, and room for three fields with their names.
const OBJECT_BYTES: usize = 384;

/// A text of at most so many bytes passes [`check`] unseen: at worst every byte of it is an object of its own.
const SURELY_SMALL: usize = MOST_TREE_BYTES / (1 + VALUE_BYTES + OBJECT_BYTES);

/// What a text measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Values of every kind: the whole, and each item and each field below it. Names of fields are none.
    pub values: usize,
    /// How many lists and objects stand around the innermost value.
    pub depth: usize,
    /// Bytes of the longest text in it, names of fields included, once its escapes are read.
    pub longest_text: usize,
}

/// What a tree of a text weighs at most: counted in one quick pass, which takes commas and brackets in texts for real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// At least as many values as the text has.
    pub values: usize,
    /// About as many bytes as its tree takes, and rarely fewer.
    pub tree_bytes: usize,
}

/// A text whose tree would be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// More than [`MOST_VALUES`].
    #[error("it has more than {MOST_VALUES} values; send fewer")]
    Values,
    /// More than [`MOST_TREE_BYTES`].
    #[error("it has too many lists and objects; send fewer")]
    Tree,
}

/// Weighs a text without looking at its structure.
#[must_use]
pub fn weigh(text: &[u8]) -> Weight {
    let (mut commas, mut lists, mut objects) = (0, 0, 0);
    // In pieces whose counts fit a byte: the compiler counts many bytes at a time then.
    for piece in text.chunks(usize::from(u8::MAX)) {
        let count = |wanted: u8| {
            piece
                .iter()
                .map(|byte| u8::from(*byte == wanted))
                .sum::<u8>()
        };
        commas += usize::from(count(b','));
        lists += usize::from(count(b'['));
        objects += usize::from(count(b'{'));
    }
    // The first item of a list or object has no comma before it.
    let values = 1 + commas + lists + objects;
    Weight {
        values,
        tree_bytes: text.len() + values * VALUE_BYTES + lists * LIST_BYTES + objects * OBJECT_BYTES,
    }
}

/// Whether the tree of a text is not too large. A text of less than half a megabyte costs nothing.
///
/// # Errors
/// As [`weigh_bounded`].
pub fn check(text: &[u8]) -> Result<(), TooLarge> {
    if text.len() <= SURELY_SMALL {
        return Ok(());
    }
    weigh_bounded(text).map(drop)
}

/// Weighs a text whose tree is not too large.
///
/// # Errors
/// If it has more than [`MOST_VALUES`], or its tree takes more than [`MOST_TREE_BYTES`].
pub fn weigh_bounded(text: &[u8]) -> Result<Weight, TooLarge> {
    let mut weight = weigh(text);
    if weight.values > MOST_VALUES || weight.tree_bytes > MOST_TREE_BYTES {
        // Only now is it worth knowing what is text and what is structure.
        weight = exact(text).1;
    }
    if weight.values > MOST_VALUES {
        return Err(TooLarge::Values);
    }
    if weight.tree_bytes > MOST_TREE_BYTES {
        return Err(TooLarge::Tree);
    }
    Ok(weight)
}

/// Measures a text in one pass.
#[must_use]
pub fn measure(text: &[u8]) -> Measure {
    exact(text).0
}

fn exact(text: &[u8]) -> (Measure, Weight) {
    let mut measure = Measure::default();
    let (mut lists, mut objects, mut depth) = (0_usize, 0_usize, 0_usize);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let (end, bytes) = string(text, at);
                measure.longest_text = measure.longest_text.max(bytes);
                measure.values += 1;
                at = end;
            }
            b'{' | b'[' => {
                match byte {
                    b'[' => lists += 1,
                    _ => objects += 1,
                }
                measure.values += 1;
                depth += 1;
                measure.depth = measure.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            // What stands before it was counted as a value and is the name of one.
            b':' => measure.values = measure.values.saturating_sub(1),
            b',' | b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => {
                measure.values += 1;
                let rest = text.get(at..).unwrap_or_default();
                let ends = |byte: &u8| b",]}: \t\n\r\"[{".contains(byte);
                at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
    }
    let weight = Weight {
        values: measure.values,
        tree_bytes: text.len()
            + measure.values * VALUE_BYTES
            + lists * LIST_BYTES
            + objects * OBJECT_BYTES,
    };
    (measure, weight)
}

/// Where a text that begins at `at` ends, behind its closing mark, and how many bytes it has once its escapes are read.
fn string(text: &[u8], mut at: usize) -> (usize, usize) {
    let mut bytes = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(found) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) else {
            return (text.len(), bytes + rest.len());
        };
        bytes += found;
        at += found + 1;
        if rest[found] == b'"' {
            return (at, bytes);
        }
        if text.get(at) == Some(&b'u') {
            bytes += escaped_bytes(text.get(at + 1..at + 5));
            at += 5;
        } else {
            bytes += 1;
            at += 1;
        }
    }
}

/// Bytes in UTF-8 of what four hexadecimal digits stand for: a half of a surrogate pair is half of its four bytes.
fn escaped_bytes(digits: Option<&[u8]>) -> usize {
    let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
    match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        Some(0..0x80) => 1,
        Some(0x80..0x800 | 0xd800..0xe000) => 2,
        Some(_) | None => 3,
    }
}

#[cfg(test)]
mod tests;
