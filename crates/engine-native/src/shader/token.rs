//! Tokens of a line of GLSL.

use std::sync::Arc;

use super::ShaderError;

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: u32,
    /// Whether it stays as it is, since it came out of the macro that it names.
    pub(super) is_final: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Name(Arc<str>),
    Float(f32),
    Int(i32),
    Uint(u32),
    Sign(&'static str),
}

/// Signs, longer ones before those that they begin with.
const SIGNS: [&str; 45] = [
    "<<=", ">>=", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "<=",
    ">=", "==", "!=", "&&", "||", "^^", "(", ")", "[", "]", "{", "}", ".", ",", ";", ":", "?", "+",
    "-", "*", "/", "%", "<", ">", "=", "!", "~", "&", "|", "^",
];

/// Longest name, as in WebGL.
const MOST_NAME: usize = 1024;

/// The tokens of a line without comments.
pub(super) fn of_line(text: &str, line: u32, into: &mut Vec<Token>) -> Result<(), ShaderError> {
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            if name.len() > MOST_NAME {
                let message = format!("a name is longer than {MOST_NAME} characters");
                return Err(ShaderError::new(line, message));
            }
            (Kind::Name(name.into()), name.len())
        } else if is_number(rest) {
            number(rest, line)?
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| {
                ShaderError::new(line, format!("the character {first:?} has no meaning here"))
            })?;
            (Kind::Sign(sign), sign.len())
        };
        into.push(Token::new(kind, line));
        rest = rest[length..].trim_start();
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('.').unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// A number at the beginning of a text, and how long it is.
fn number(text: &str, line: u32) -> Result<(Kind, usize), ShaderError> {
    let mut end = 0;
    let mut before = ' ';
    for c in text.chars() {
        let is_hex = text.starts_with("0x") || text.starts_with("0X");
        let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
        if !(c.is_ascii_alphanumeric() || c == '.' || is_sign) {
            break;
        }
        before = c;
        end += 1;
    }
    let spelled = &text[..end];
    let wrong = || ShaderError::new(line, format!("'{spelled}' is no number of 32 bits"));
    let lower = spelled.to_ascii_lowercase();
    let whole = lower.strip_suffix('u').unwrap_or(&lower);
    let digits = match whole.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None if whole.len() > 1 && whole.starts_with('0') => u32::from_str_radix(whole, 8).ok(),
        None => whole.parse().ok(),
    };
    let is_float = !lower.starts_with("0x") && lower.contains(['.', 'e', 'f']);
    let kind = if is_float {
        let digits = lower.strip_suffix('f').unwrap_or(&lower);
        Kind::Float(digits.parse().map_err(|_| wrong())?)
    } else if whole.len() < lower.len() {
        Kind::Uint(digits.ok_or_else(wrong)?)
    } else {
        Kind::Int(digits.ok_or_else(wrong)?.cast_signed())
    };
    Ok((kind, end))
}

impl Token {
    pub(super) fn new(kind: Kind, line: u32) -> Self {
        let is_final = false;
        Self {
            kind,
            line,
            is_final,
        }
    }

    pub(super) fn is(&self, sign: &str) -> bool {
        matches!(self.kind, Kind::Sign(of) if of == sign)
    }

    pub(super) fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Name(name) => Some(name),
            Kind::Float(_) | Kind::Int(_) | Kind::Uint(_) | Kind::Sign(_) => None,
        }
    }

    /// As a message shows it.
    pub(super) fn shown(&self) -> String {
        match &self.kind {
            Kind::Name(name) => format!("'{name}'"),
            Kind::Float(number) => format!("'{number:?}'"),
            Kind::Int(number) => format!("'{number}'"),
            Kind::Uint(number) => format!("'{number}u'"),
            Kind::Sign(sign) => format!("'{sign}'"),
        }
    }
}
