//! The page size that a caller asks for.

/// Without a wish (GET /v1/models).
const DEFAULT: u32 = 20;

/// At most; more is clamped, not rejected.
const MAXIMUM: u32 = 100;

/// Reads `limit` from the values that the query has for it, in order: absent, 0 and negative select the default, anything
/// above the maximum is the maximum, however many digits it has.
///
/// # Errors
/// With the reason, if it is repeated, empty or no integer.
pub fn parse(values: &[&str]) -> Result<u32, String> {
    let value = match values {
        [] => return Ok(DEFAULT),
        [value] => *value,
        [_, _, ..] => return Err("`limit` is given more than once".to_owned()),
    };
    let (negative, digits) = match value.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, value.strip_prefix('+').unwrap_or(value)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("`limit` must be an integer".to_owned());
    }
    let is_zero = digits.bytes().all(|byte| byte == b'0');
    if negative || is_zero {
        return Ok(DEFAULT);
    }
    // What does not fit is above the maximum.
    Ok(digits.parse().unwrap_or(MAXIMUM).min(MAXIMUM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_zero_and_negative_select_the_default() {
        assert_eq!(parse(&[]), Ok(20));
        for value in ["0", "-0", "+0", "00", "-1", "-99999999999999999999999"] {
            assert_eq!(parse(&[value]), Ok(20), "{value}");
        }
    }

    #[test]
    fn above_100_is_clamped_with_any_number_of_digits() {
        for value in ["101", "4294967296", &"9".repeat(500)] {
            assert_eq!(parse(&[value]), Ok(100), "{value}");
        }
        for (value, expected) in [("1", 1), ("100", 100), ("007", 7), ("+5", 5)] {
            assert_eq!(parse(&[value]), Ok(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_integer_is_refused() {
        for value in [
            "", "-", "+", "--1", "1.0", "1e2", " 1", "1 ", "ten", "0x1", "१",
        ] {
            assert!(parse(&[value]).is_err(), "{value:?}");
        }
        assert!(parse(&["1", "1"]).is_err());
    }
}
