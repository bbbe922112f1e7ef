//! `int()`, `float()` and `bool()` of JSON values, with the words of the exceptions they raise.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::python_repr;

/// What `int()` makes of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WholeNumber {
    /// A number of 64 bits, signed or not.
    Fits(Number),
    /// A number beyond them, as its digits.
    Beyond(String),
}

/// Most digits that `int()` reads.
const MAX_DIGITS: usize = 4300;

/// Most characters of a text that the exception of `int()` quotes, quotes included.
const MAX_QUOTED: usize = 200;

/// Where the decimal digits of other scripts begin: ten in a row each.
const ZEROS: [u32; 65] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
    0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50,
    0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50,
    0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// `int(value)`: floats lose their fraction, texts are read in base 10.
pub(crate) fn python_int(value: &Value) -> Result<WholeNumber, String> {
    match value {
        Value::Bool(truth) => Ok(WholeNumber::Fits(u64::from(*truth).into())),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => {
                Ok(WholeNumber::from_digits(&format!("{:.0}", float.trunc())))
            }
            _ => Ok(WholeNumber::Fits(number.clone())),
        },
        Value::String(text) => int_of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            type_name(value)
        )),
    }
}

/// `float(value)`; texts may also say `nan` and `inf`.
pub(crate) fn python_float(value: &Value) -> Result<f64, String> {
    match value {
        Value::Bool(truth) => Ok(f64::from(u8::from(*truth))),
        Value::Number(number) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => {
            let plain = plain_number(text).and_then(|plain| plain.parse().ok());
            plain
                .ok_or_else(|| format!("could not convert string to float: {}", python_repr(value)))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!(
            "float() argument must be a string or a real number, not '{}'",
            type_name(value)
        )),
    }
}

/// `bool(value)`: whatever is not empty or zero is true, the text `false` too.
pub(crate) fn python_bool(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

impl WholeNumber {
    /// The number as a JSON value; digits beyond 64 bits as a text.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Fits(number) => Value::Number(number.clone()),
            Self::Beyond(digits) => Value::String(digits.clone()),
        }
    }

    /// Compares with a bound.
    pub(crate) fn compare(&self, bound: &Number) -> Option<Ordering> {
        match (self, bound.as_i128()) {
            (Self::Fits(number), Some(bound)) if !number.is_f64() => {
                number.as_i128().map(|number| number.cmp(&bound))
            }
            (Self::Fits(number), _) => number.as_f64()?.partial_cmp(&bound.as_f64()?),
            (Self::Beyond(digits), _) => digits.parse::<f64>().ok()?.partial_cmp(&bound.as_f64()?),
        }
    }

    /// Reads an optional sign and ASCII digits.
    fn from_digits(text: &str) -> Self {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = match digits.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        match format!("{sign}{digits}").parse::<i128>() {
            Ok(number) => match Number::from_i128(number) {
                Some(number) => Self::Fits(number),
                None => Self::Beyond(number.to_string()),
            },
            Err(_) => Self::Beyond(format!("{sign}{digits}")),
        }
    }
}

fn int_of_text(text: &str) -> Result<WholeNumber, String> {
    let invalid = || {
        let quoted = python_repr(&Value::String(text.to_owned()));
        let quoted: String = quoted.chars().take(MAX_QUOTED).collect();
        format!("invalid literal for int() with base 10: {quoted}")
    };
    let plain = plain_number(text).ok_or_else(invalid)?;
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    if digits.len() > MAX_DIGITS {
        return Err(format!(
            "Exceeds the limit ({MAX_DIGITS} digits) for integer string conversion: value has {} digits; use sys.set_int_max_str_digits() to increase the limit",
            digits.len()
        ));
    }
    Ok(WholeNumber::from_digits(&plain))
}

/// The text without surrounding white space and without underscores between digits, its digits those of ASCII; `None` if an
/// underscore stands elsewhere.
fn plain_number(text: &str) -> Option<String> {
    let is_space = |c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c);
    let ascii: String = text
        .trim_matches(is_space)
        .chars()
        .map(ascii_digit)
        .collect();
    let bytes = ascii.as_bytes();
    let is_digit = |index: Option<usize>| {
        index
            .and_then(|index| bytes.get(index))
            .is_some_and(u8::is_ascii_digit)
    };
    let underscores = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'_')
        .all(|(index, _)| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1)));
    underscores.then(|| ascii.replace('_', ""))
}

fn ascii_digit(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    let code = u32::from(c);
    let zero = ZEROS.partition_point(|zero| *zero <= code).checked_sub(1);
    zero.and_then(|index| char::from_digit(code - ZEROS[index], 10))
        .unwrap_or(c)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}
