//! JSON text spelled as a parser and a printer together would spell it, piece by piece and without a tree.
//!
//! Spaces between values go, escapes that need not be are read, numbers get their one spelling. A text that is spelled so
//! already comes out as it went in. Two differences to a tree: of two fields with one name both are kept, and whole numbers
//! that no tree can hold keep all their digits.

use std::ops::Range;

use serde_json::{Number, Value};

/// How far the spelling of a text is. The text, which must be valid JSON, is handed in with every step.
#[derive(Clone, Debug, Default)]
pub struct Spelling {
    at: usize,
}

impl Spelling {
    /// Appends the next part of `text` to `out`: `piece` bytes and the rest of their last token, or what is left. Tells whether
    /// more is left.
    pub fn next(&mut self, text: &[u8], out: &mut Vec<u8>, piece: usize) -> bool {
        let until = out.len().saturating_add(piece);
        while out.len() < until {
            let Some(byte) = text.get(self.at) else {
                return false;
            };
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'"' => {
                    let (end, _) = super::string(text, self.at + 1);
                    string(&text[self.token(end)], out);
                }
                b'-' | b'0'..=b'9' => {
                    let rest = &text[self.at..];
                    let ends = |byte: &u8| b",]} \t\n\r".contains(byte);
                    let length = rest.iter().position(ends).unwrap_or(rest.len());
                    number(&text[self.token(self.at + length)], out);
                }
                _ => {
                    out.push(*byte);
                    self.at += 1;
                }
            }
        }
        self.at < text.len()
    }

    fn token(&mut self, end: usize) -> Range<usize> {
        let begin = std::mem::replace(&mut self.at, end);
        begin..end
    }
}

fn string(token: &[u8], out: &mut Vec<u8>) {
    // Without an escape there is one spelling.
    let escaped = token.contains(&b'\\');
    let read = escaped.then(|| serde_json::from_slice::<String>(token).ok());
    match read.flatten() {
        Some(text) => out.extend_from_slice(Value::from(text).to_string().as_bytes()),
        None => out.extend_from_slice(token),
    }
}

fn number(token: &[u8], out: &mut Vec<u8>) {
    // JSON has one spelling of a whole number, however large it is; the parser takes this one for a fraction.
    let is_whole = token != b"-0" && token[1..].iter().all(u8::is_ascii_digit);
    let read = (!is_whole).then(|| serde_json::from_slice::<Number>(token).ok());
    match read.flatten() {
        Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
        None => out.extend_from_slice(token),
    }
}
