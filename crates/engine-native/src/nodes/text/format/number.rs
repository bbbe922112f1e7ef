//! Numbers in a format.

use super::spec::{Align, Spec, unknown};
use super::spelled;
use crate::NodeError;

/// Digits after the point, beyond which every float has only zeros.
const MAX_FRACTION: usize = 1100;

/// A whole number; `of` is what Python calls its type.
pub(super) fn of_int(spec: &Spec, number: i128, of: &str) -> Result<String, NodeError> {
    let kind = match spec.kind {
        None | Some('d' | 'n') => 'd',
        Some(kind @ ('b' | 'o' | 'x' | 'X' | 'c')) => kind,
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') => return of_float(spec, number as f64, of),
        Some(kind) => return Err(unknown(kind, of)),
    };
    if spec.precision.is_some() {
        return Err(NodeError::value(
            "Precision not allowed in integer format specifier",
        ));
    }
    if spec.unsigned_zero {
        return Err(NodeError::value(
            "Negative zero coercion (z) not allowed in format specifier with integer presentation type",
        ));
    }
    if kind == 'c' {
        if spec.sign.is_some() || spec.alternate {
            return Err(NodeError::value(
                "Sign or alternate form (#) not allowed with integer format specifier 'c'",
            ));
        }
        let character = u32::try_from(number).ok().and_then(char::from_u32);
        let character = character.ok_or_else(|| {
            NodeError::new("OverflowError", format!("there is no character {number}"))
        })?;
        return spec.laid("", &character.to_string());
    }
    let size = number.unsigned_abs();
    let (prefix, digits) = match kind {
        'b' => ("0b", format!("{size:b}")),
        'o' => ("0o", format!("{size:o}")),
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        _ => ("", size.to_string()),
    };
    let group = match (kind, spec.grouping) {
        ('d', _) => 3,
        (_, Some(',')) => {
            return Err(NodeError::value(format!(
                "Cannot specify ',' with '{kind}'."
            )));
        }
        _ => 4,
    };
    let prefix = if spec.alternate { prefix } else { "" };
    let sign = format!("{}{prefix}", sign(spec, number < 0));
    laid(spec, &sign, &digits, "", group)
}

/// A float; `of` is what Python calls the type of the number.
pub(super) fn of_float(spec: &Spec, number: f64, of: &str) -> Result<String, NodeError> {
    let kind = match spec.kind {
        None => 'r',
        Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) => kind,
        Some('n') => 'g',
        Some(kind) => return Err(unknown(kind, of)),
    };
    if spec.kind == Some('n') && spec.grouping.is_some() {
        return Err(NodeError::value("Cannot specify grouping with 'n'."));
    }
    let size = number.abs() * if kind == '%' { 100.0 } else { 1.0 };
    let mut text = if size.is_finite() {
        digits(spec, kind, size)
    } else {
        spelled::float(size)
    };
    if kind == '%' {
        text.push('%');
    }
    if matches!(kind, 'E' | 'F' | 'G') {
        text = text.to_uppercase();
    }
    let is_zero = !text.contains(|digit: char| ('1'..='9').contains(&digit)) && size.is_finite();
    let is_negative = number.is_sign_negative() && !number.is_nan();
    let sign = sign(spec, is_negative && !(spec.unsigned_zero && is_zero));
    let whole = text.chars().take_while(char::is_ascii_digit).count();
    let (whole, rest) = text.split_at(whole);
    laid(spec, &sign, whole, rest, 3)
}

/// The digits of a finite number that has no sign.
fn digits(spec: &Spec, kind: char, size: f64) -> String {
    match (kind, spec.precision) {
        ('r', None) => spelled::float(size),
        ('f' | 'F' | '%', precision) => fixed(size, precision.unwrap_or(6), spec.alternate),
        ('e' | 'E', precision) => scientific(size, precision.unwrap_or(6), spec.alternate),
        (_, precision) => {
            let precision = precision.unwrap_or(6).max(1);
            let exponent = exponent(size, precision - 1);
            // Without a type a number keeps a digit after the point, and takes an exponent one digit earlier.
            let most = precision as i32 - i32::from(kind == 'r');
            let mut text = match (-4..most).contains(&exponent) {
                true => {
                    let after = (precision as i32 - 1 - exponent).max(0);
                    fixed(size, after as usize, spec.alternate)
                }
                false => scientific(size, precision - 1, spec.alternate),
            };
            if !spec.alternate {
                text = without_zeros(&text);
            }
            if kind == 'r' && !text.contains(['.', 'e']) {
                text.push_str(".0");
            }
            text
        }
    }
}

fn fixed(size: f64, precision: usize, point: bool) -> String {
    let shown = precision.min(MAX_FRACTION);
    let zeros = "0".repeat(precision - shown);
    let point = if precision == 0 && point { "." } else { "" };
    format!("{size:.shown$}{point}{zeros}")
}

fn scientific(size: f64, precision: usize, point: bool) -> String {
    let shown = precision.min(MAX_FRACTION);
    let text = format!("{size:.shown$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let zeros = "0".repeat(precision - shown);
    let point = if precision == 0 && point { "." } else { "" };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}{point}{zeros}e{sign}{exponent:0>2}")
}

/// The exponent of a number that is rounded to so many digits after the first.
fn exponent(size: f64, precision: usize) -> i32 {
    let text = format!("{size:.*e}", precision.min(MAX_FRACTION));
    let exponent = text.split_once('e').and_then(|(_, text)| text.parse().ok());
    exponent.unwrap_or(0)
}

/// A number without the zeros at the end of its fraction.
fn without_zeros(text: &str) -> String {
    let (digits, exponent) = match text.find('e') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    };
    format!("{digits}{exponent}")
}

fn sign(spec: &Spec, is_negative: bool) -> String {
    match (is_negative, spec.sign) {
        (true, _) => "-".to_owned(),
        (false, Some(sign @ ('+' | ' '))) => sign.to_string(),
        (false, _) => String::new(),
    }
}

/// A number in its width: its sign, whole digits in groups, and what follows them.
fn laid(
    spec: &Spec,
    sign: &str,
    digits: &str,
    rest: &str,
    group: usize,
) -> Result<String, NodeError> {
    let Some(separator) = spec.grouping else {
        return spec.laid(sign, &format!("{digits}{rest}"));
    };
    // Zeros that fill the width belong to the groups.
    let is_filled = spec.fill == '0' && spec.align == Align::AfterSign && !digits.is_empty();
    let room = spec.width.saturating_sub(sign.len() + rest.len());
    let mut count = digits.len();
    while is_filled && count + (count - 1) / group < room {
        count += 1;
    }
    let mut grouped = String::with_capacity(count * 2);
    for (at, digit) in format!("{digits:0>count$}").chars().enumerate() {
        if at > 0 && (count - at).is_multiple_of(group) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    spec.laid(sign, &format!("{grouped}{rest}"))
}
