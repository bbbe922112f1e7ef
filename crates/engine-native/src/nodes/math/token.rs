//! The words of an expression.

use std::fmt;
use std::sync::Arc;

use num_bigint::BigInt;

use super::parse::whole;

/// Most characters of a text in an expression.
const MOST_CHARACTERS: usize = 100_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(BigInt),
    Float(f64),
    Text(Arc<str>),
    Name(String),
    Symbol(&'static str),
    /// The end of a line outside of brackets.
    End,
}

/// Longer ones before their beginnings.
const SYMBOLS: [&str; 30] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", "=", ";",
];

/// Reads a text into words, up to the end of the first statement.
///
/// # Errors
/// A sentence that says what cannot be read.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let text = text.trim();
    let mut tokens = Vec::new();
    let mut open = 0usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\n' if open == 0 && !tokens.is_empty() => break,
            '#' => rest.find('\n').unwrap_or(rest.len()),
            _ if first.is_whitespace() => first.len_utf8(),
            '0'..='9' => number(rest, &mut tokens)?,
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                number(rest, &mut tokens)?
            }
            '"' | '\'' => quoted(rest, first, &mut tokens)?,
            _ if first == '_' || first.is_alphabetic() => {
                let is_part = |character: char| character == '_' || character.is_alphanumeric();
                let end = rest.find(|character| !is_part(character));
                let end = end.unwrap_or(rest.len());
                tokens.push(Token::Name(rest[..end].to_owned()));
                end
            }
            _ => {
                let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
                let symbol = symbol.ok_or_else(|| format!("{first:?} has no meaning there"))?;
                match *symbol {
                    "(" | "[" => open += 1,
                    ")" | "]" => open = open.saturating_sub(1),
                    ";" if open == 0 => break,
                    _ => {}
                }
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            }
        };
        rest = &rest[length..];
    }
    tokens.push(Token::End);
    Ok(tokens)
}

/// Reads a number; answers how long it is.
fn number(text: &str, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let radix = match text.get(..2) {
        Some("0x" | "0X") => Some(16),
        Some("0o" | "0O") => Some(8),
        Some("0b" | "0B") => Some(2),
        Some(_) | None => None,
    };
    let is_part = |character: char| character == '_' || character.is_ascii_alphanumeric();
    if let Some(radix) = radix {
        let end = text
            .find(|character| !is_part(character))
            .unwrap_or(text.len());
        let digits = text[2..end].replace('_', "");
        let number = whole(&digits, radix).ok_or_else(|| wrong(&text[..end]))?;
        tokens.push(Token::Int(number));
        return Ok(end);
    }
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let after_exponent = end > 0 && matches!(bytes[end - 1], b'e' | b'E');
        let goes_on = byte == b'_'
            || byte == b'.'
            || byte.is_ascii_alphanumeric()
            || (after_exponent && matches!(byte, b'+' | b'-'));
        if !goes_on {
            break;
        }
        end += 1;
    }
    let written = &text[..end];
    let digits = super::super::number::python_number(written).ok_or_else(|| wrong(written))?;
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let token = match is_whole {
        // Python takes no zeros before other digits.
        true if digits.len() > 1
            && digits.starts_with('0')
            && !digits.trim_matches('0').is_empty() =>
        {
            None
        }
        true => whole(&digits, 10).map(Token::Int),
        false => digits.parse().ok().map(Token::Float),
    };
    tokens.push(token.ok_or_else(|| wrong(written))?);
    Ok(end)
}

fn wrong(number: &str) -> String {
    let shown: String = number.chars().take(40).collect();
    format!("{shown:?} is no number")
}

/// Reads a text in quotes; answers how long it is.
fn quoted(text: &str, quote: char, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let mut content = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => break,
            '\\' => match characters.next() {
                Some((_, 'n')) => content.push('\n'),
                Some((_, 't')) => content.push('\t'),
                Some((_, escaped @ ('\\' | '\'' | '"'))) => content.push(escaped),
                Some(_) | None => return Err("a text has an escape that is not known".to_owned()),
            },
            _ if character == quote => {
                if content.chars().count() > MOST_CHARACTERS {
                    return Err(format!("a text has more than {MOST_CHARACTERS} characters"));
                }
                tokens.push(Token::Text(content.into()));
                return Ok(at + 1);
            }
            _ => content.push(character),
        }
    }
    Err("a text is not closed".to_owned())
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(_) | Self::Float(_) => f.write_str("a number"),
            Self::Text(_) => f.write_str("a text"),
            Self::Name(name) => write!(f, "{:?}", name.chars().take(40).collect::<String>()),
            Self::Symbol(symbol) => write!(f, "{symbol:?}"),
            Self::End => f.write_str("the end"),
        }
    }
}
