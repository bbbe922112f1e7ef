//! The format of a field: `[[fill]align][sign][z][#][0][width][,|_][.precision][type]`.

use super::spelled::type_name;
use crate::nodes::text::{MAX_TEXT_BYTES, check_length};
use crate::{NodeError, Value};

/// A format that was read.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) fill: char,
    pub(super) align: Align,
    pub(super) sign: Option<char>,
    /// Whether a zero has no sign.
    pub(super) unsigned_zero: bool,
    /// `#`.
    pub(super) alternate: bool,
    pub(super) width: usize,
    /// What thousands are grouped with.
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

/// Where a value lies in its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    Center,
    /// The space is between the sign and the digits.
    AfterSign,
}

fn align_of(character: char) -> Option<Align> {
    match character {
        '<' => Some(Align::Left),
        '>' => Some(Align::Right),
        '^' => Some(Align::Center),
        '=' => Some(Align::AfterSign),
        _ => None,
    }
}

impl Spec {
    /// Reads the format of a value: texts lie on the left by default, numbers on the right.
    pub(super) fn read(format: &str, value: &Value) -> Result<Self, NodeError> {
        let characters: Vec<char> = format.chars().collect();
        let mut rest = &characters[..];
        let (mut fill, mut align) = (None, None);
        if let [first, second, after @ ..] = rest
            && let Some(wanted) = align_of(*second)
        {
            (fill, align, rest) = (Some(*first), Some(wanted), after);
        } else if let [first, after @ ..] = rest
            && let Some(wanted) = align_of(*first)
        {
            (align, rest) = (Some(wanted), after);
        }
        let sign = taken(&mut rest, &['+', '-', ' ']);
        let unsigned_zero = taken(&mut rest, &['z']).is_some();
        let alternate = taken(&mut rest, &['#']).is_some();
        let is_text = matches!(value, Value::String(_));
        if fill.is_none() && taken(&mut rest, &['0']).is_some() {
            fill = Some('0');
            if !is_text {
                align = align.or(Some(Align::AfterSign));
            }
        }
        let width = number(&mut rest)?.unwrap_or(0);
        let grouping = taken(&mut rest, &[',', '_']);
        let precision = match taken(&mut rest, &['.']) {
            Some(_) => Some(
                number(&mut rest)?
                    .ok_or_else(|| NodeError::value("Format specifier missing precision"))?,
            ),
            None => None,
        };
        let kind = match rest {
            [] => None,
            [kind] => Some(*kind),
            _ => {
                return Err(NodeError::value(format!(
                    "Invalid format specifier '{format}' for object of type '{}'",
                    type_name(value)
                )));
            }
        };
        let default = if is_text { Align::Left } else { Align::Right };
        Ok(Self {
            fill: fill.unwrap_or(' '),
            align: align.unwrap_or(default),
            sign,
            unsigned_zero,
            alternate,
            width,
            grouping,
            precision,
            kind,
        })
    }

    /// A text in this format.
    pub(super) fn of_text(&self, text: &str) -> Result<String, NodeError> {
        let refused = |what: &str| {
            Err(NodeError::value(format!(
                "{what} not allowed in string format specifier"
            )))
        };
        match self.kind {
            None | Some('s') => {}
            Some(kind) => return Err(unknown(kind, "str")),
        }
        if self.sign.is_some() {
            return refused("Sign");
        }
        if self.unsigned_zero {
            return refused("Negative zero coercion (z)");
        }
        if self.alternate {
            return refused("Alternate form (#)");
        }
        if self.align == Align::AfterSign {
            return refused("'=' alignment");
        }
        if let Some(grouping) = self.grouping {
            return Err(NodeError::value(format!(
                "Cannot specify '{grouping}' with 's'."
            )));
        }
        let most = self.precision.unwrap_or(usize::MAX);
        let text: String = text.chars().take(most).collect();
        self.laid("", &text)
    }

    /// A value in its width: a sign or prefix, and what follows.
    pub(super) fn laid(&self, sign: &str, body: &str) -> Result<String, NodeError> {
        let length = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        let bytes = missing.saturating_mul(self.fill.len_utf8());
        check_length(bytes.saturating_add(sign.len() + body.len()))?;
        let filled = |count| self.fill.to_string().repeat(count);
        let left = match self.align {
            Align::Left => 0,
            Align::Right | Align::AfterSign => missing,
            Align::Center => missing / 2,
        };
        let (before, after) = (filled(left), filled(missing - left));
        Ok(match self.align {
            Align::AfterSign => format!("{sign}{before}{body}"),
            Align::Left | Align::Right | Align::Center => format!("{before}{sign}{body}{after}"),
        })
    }
}

/// What is said of a type of format that the value does not have.
pub(super) fn unknown(kind: char, of: &str) -> NodeError {
    NodeError::value(format!(
        "Unknown format code '{kind}' for object of type '{of}'"
    ))
}

/// Takes the next character if it is one of these.
fn taken(rest: &mut &[char], wanted: &[char]) -> Option<char> {
    let (first, after) = rest.split_first()?;
    wanted.contains(first).then(|| {
        *rest = after;
        *first
    })
}

/// Takes a number; none is larger than a text may be long.
fn number(rest: &mut &[char]) -> Result<Option<usize>, NodeError> {
    let is_digit = |character: &&char| character.is_ascii_digit();
    let count = rest.iter().take_while(is_digit).count();
    if count == 0 {
        return Ok(None);
    }
    let digits: String = rest[..count].iter().collect();
    *rest = &rest[count..];
    let number = digits.parse().ok();
    let number = number.filter(|number| *number <= MAX_TEXT_BYTES);
    let number = number.ok_or_else(|| {
        NodeError::value(format!(
            "the format has the number {digits}, and a text may be {MAX_TEXT_BYTES} characters long"
        ))
    })?;
    Ok(Some(number))
}
