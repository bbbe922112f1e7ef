//! Numbers as Python has them: whole ones of any size, up to a bound, and floats.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{FromPrimitive, Signed, ToPrimitive, Zero};

use super::Wrong;
use super::parse::Part;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Int(BigInt),
    Float(f64),
    Bool(bool),
}

/// Bits of the largest whole number that is computed: more than any that is left when it must become a float.
const MAX_BITS: u64 = 1 << 14;

/// The largest base and exponent of a power, as the recorded server bounds them.
const MAX_POWER: i64 = 4_000_000;

impl Number {
    /// As a float.
    ///
    /// # Errors
    /// If it is beyond the floats.
    pub(super) fn float(&self) -> Result<f64, Wrong> {
        match self {
            Self::Float(float) => Ok(*float),
            Self::Bool(truth) => Ok(f64::from(u8::from(*truth))),
            Self::Int(int) => int
                .to_f64()
                .filter(|float| float.is_finite())
                .ok_or_else(|| {
                    Wrong::new("OverflowError", "a whole number is too large for a float")
                }),
        }
    }

    /// As a whole number, if it is one.
    pub(super) fn int(&self) -> Option<BigInt> {
        match self {
            Self::Int(int) => Some(int.clone()),
            Self::Bool(truth) => Some(BigInt::from(u8::from(*truth))),
            Self::Float(_) => None,
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Int(int) => !int.is_zero(),
            Self::Float(float) => *float != 0.0,
            Self::Bool(truth) => *truth,
        }
    }

    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        if let (Some(a), Some(b)) = (self.int(), other.int()) {
            return Some(a.cmp(&b));
        }
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Float(a), b) => beside_whole(*a, &b.int()?),
            (a, Self::Float(b)) => beside_whole(*b, &a.int()?).map(Ordering::reverse),
            (Self::Int(_) | Self::Bool(_), Self::Int(_) | Self::Bool(_)) => None,
        }
    }

    /// How much work a step with it is, in machine words.
    pub(super) fn words(&self) -> u64 {
        match self {
            Self::Int(int) => 1 + int.bits() / 64,
            Self::Float(_) | Self::Bool(_) => 1,
        }
    }
}

/// Compares a float with a whole number exactly: the whole number may have more digits than a float can hold.
fn beside_whole(float: f64, whole: &BigInt) -> Option<Ordering> {
    let Some(floor) = BigInt::from_f64(float.floor()) else {
        return float.partial_cmp(&0.0);
    };
    let has_rest = float > float.floor();
    Some(floor.cmp(whole).then(match has_rest {
        true => Ordering::Greater,
        false => Ordering::Equal,
    }))
}

/// A whole number that is not too large.
fn bounded(int: BigInt) -> Result<Number, Wrong> {
    match int.bits() > MAX_BITS {
        true => Err(too_large()),
        false => Ok(Number::Int(int)),
    }
}

fn too_large() -> Wrong {
    Wrong::new(
        "OverflowError",
        format!("a whole number gets more than {MAX_BITS} bits; use smaller numbers or floats"),
    )
}

fn by_zero() -> Wrong {
    Wrong::new("ZeroDivisionError", "it divides by zero")
}

/// An operation on two whole numbers, or on two floats if either is one.
fn either(
    a: &Number,
    b: &Number,
    ints: impl FnOnce(BigInt, BigInt) -> Result<Number, Wrong>,
    floats: impl FnOnce(f64, f64) -> Result<f64, Wrong>,
) -> Result<Number, Wrong> {
    match (a.int(), b.int()) {
        (Some(a), Some(b)) => ints(a, b),
        _ => floats(a.float()?, b.float()?).map(Number::Float),
    }
}

pub(super) fn add(a: &Number, b: &Number) -> Result<Number, Wrong> {
    either(a, b, |a, b| bounded(a + b), |a, b| Ok(a + b))
}

pub(super) fn subtract(a: &Number, b: &Number) -> Result<Number, Wrong> {
    either(a, b, |a, b| bounded(a - b), |a, b| Ok(a - b))
}

pub(super) fn multiply(a: &Number, b: &Number) -> Result<Number, Wrong> {
    let ints = |a: BigInt, b: BigInt| match a.bits() + b.bits() > MAX_BITS + 1 {
        true => Err(too_large()),
        false => bounded(a * b),
    };
    either(a, b, ints, |a, b| Ok(a * b))
}

pub(super) fn divide(a: &Number, b: &Number) -> Result<Number, Wrong> {
    match b.is_true() {
        true => Ok(Number::Float(a.float()? / b.float()?)),
        false => Err(by_zero()),
    }
}

pub(super) fn floor_divide(a: &Number, b: &Number) -> Result<Number, Wrong> {
    if !b.is_true() {
        return Err(by_zero());
    }
    let ints = |a: BigInt, b: BigInt| Ok(Number::Int(a.div_floor(&b)));
    either(a, b, ints, |a, b| Ok(divided(a, b).0))
}

pub(super) fn modulo(a: &Number, b: &Number) -> Result<Number, Wrong> {
    if !b.is_true() {
        return Err(by_zero());
    }
    let ints = |a: BigInt, b: BigInt| Ok(Number::Int(a.mod_floor(&b)));
    either(a, b, ints, |a, b| Ok(divided(a, b).1))
}

/// Quotient and remainder of floats; the remainder has the sign of the divisor.
fn divided(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0.0f64.copysign(b);
    } else if (b < 0.0) != (remainder < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0f64.copysign(a / b), remainder);
    }
    let floor = quotient.floor();
    let floor = if quotient - floor > 0.5 {
        floor + 1.0
    } else {
        floor
    };
    (floor, remainder)
}

pub(super) fn power(a: &Number, b: &Number) -> Result<Number, Wrong> {
    let limit = Number::Int(BigInt::from(MAX_POWER));
    let is_beyond = |number: &Number| absolute(number).compare(&limit) == Some(Ordering::Greater);
    if is_beyond(a) || is_beyond(b) {
        return Err(Wrong::new(
            "NumberTooHigh",
            format!("base and exponent of a power may be {MAX_POWER} at most"),
        ));
    }
    let (base, exponent) = (a.int(), b.int());
    if let (Some(base), Some(exponent)) = (base, exponent)
        && let Some(exponent) = exponent.to_u32()
    {
        let bits = base.bits().saturating_sub(1) * u64::from(exponent);
        return match bits > MAX_BITS {
            true => Err(too_large()),
            false => bounded(base.pow(exponent)),
        };
    }
    let (base, exponent) = (a.float()?, b.float()?);
    if base == 0.0 && exponent < 0.0 {
        return Err(by_zero());
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(Wrong::value(
            "a negative number to a broken power is no real number",
        ));
    }
    let result = base.powf(exponent);
    match result.is_infinite() && base.is_finite() && exponent.is_finite() {
        true => Err(Wrong::new(
            "OverflowError",
            "a power is too large for a float",
        )),
        false => Ok(Number::Float(result)),
    }
}

pub(super) fn shift(a: &Number, b: &Number, left: bool) -> Result<Number, Wrong> {
    const MAX_SHIFT: u32 = 10_000;
    let (Some(a), Some(b)) = (a.int(), b.int()) else {
        return Err(only_whole());
    };
    let by = b.to_u32().filter(|by| *by <= MAX_SHIFT);
    let by =
        by.ok_or_else(|| Wrong::value(format!("a shift must be by 0 to {MAX_SHIFT} places")))?;
    match left {
        true => bounded(a << by),
        false => Ok(Number::Int(a >> by)),
    }
}

pub(super) fn bits(
    a: &Number,
    b: &Number,
    ints: fn(BigInt, BigInt) -> BigInt,
    bools: fn(bool, bool) -> bool,
) -> Result<Number, Wrong> {
    match (a, b) {
        (Number::Bool(a), Number::Bool(b)) => Ok(Number::Bool(bools(*a, *b))),
        _ => match (a.int(), b.int()) {
            (Some(a), Some(b)) => Ok(Number::Int(ints(a, b))),
            _ => Err(only_whole()),
        },
    }
}

pub(super) fn inverted(a: &Number) -> Result<Number, Wrong> {
    a.int().map(|int| Number::Int(!int)).ok_or_else(only_whole)
}

pub(super) fn negative(a: &Number) -> Number {
    match a {
        Number::Float(float) => Number::Float(-float),
        Number::Int(int) => Number::Int(-int),
        Number::Bool(truth) => Number::Int(-BigInt::from(u8::from(*truth))),
    }
}

pub(super) fn positive(a: &Number) -> Number {
    match a {
        Number::Bool(truth) => Number::Int(BigInt::from(u8::from(*truth))),
        Number::Float(_) | Number::Int(_) => a.clone(),
    }
}

/// A part of a number; a fraction of whole numbers is what a float is not.
pub(super) fn part(a: &Number, part: Part) -> Result<Number, Wrong> {
    match (positive(a), part) {
        (number, Part::Real) => Ok(number),
        (Number::Float(_), Part::Imaginary) => Ok(Number::Float(0.0)),
        (Number::Float(_), Part::Numerator | Part::Denominator) => Err(only_whole()),
        (Number::Int(_) | Number::Bool(_), Part::Imaginary) => Ok(Number::Int(BigInt::zero())),
        (number, Part::Numerator) => Ok(number),
        (Number::Int(_) | Number::Bool(_), Part::Denominator) => Ok(Number::Int(BigInt::from(1))),
    }
}

pub(super) fn absolute(a: &Number) -> Number {
    match positive(a) {
        Number::Float(float) => Number::Float(float.abs()),
        Number::Int(int) => Number::Int(int.abs()),
        truth @ Number::Bool(_) => truth,
    }
}

/// A float that `to_whole` made whole, as a whole number.
///
/// # Errors
/// If it is not finite.
pub(super) fn whole(a: &Number, to_whole: fn(f64) -> f64) -> Result<Number, Wrong> {
    match positive(a) {
        Number::Float(float) => BigInt::from_f64(to_whole(float))
            .map(Number::Int)
            .ok_or_else(|| Wrong::new("OverflowError", "what is not finite is no whole number")),
        number @ (Number::Int(_) | Number::Bool(_)) => Ok(number),
    }
}

/// Rounded to so many places behind the point, half to even.
pub(super) fn rounded(a: &Number, places: i64) -> Result<Number, Wrong> {
    match positive(a) {
        Number::Float(float) if !float.is_finite() || places > 323 => Ok(Number::Float(float)),
        Number::Float(_) if places < -308 => Ok(Number::Float(0.0)),
        Number::Float(float) if places >= 0 => {
            let places = usize::try_from(places).unwrap_or(0);
            let text = format!("{float:.places$}");
            Ok(Number::Float(text.parse().unwrap_or(float)))
        }
        Number::Float(float) => {
            let int = BigInt::from_f64(float.trunc()).unwrap_or_default();
            let tens = to_tens(&int, float.fract() != 0.0, places);
            Ok(Number::Float(Number::Int(tens).float()?.copysign(float)))
        }
        Number::Int(int) if places < 0 => match places < -i64::from(u16::MAX) {
            true => Ok(Number::Int(BigInt::zero())),
            false => Ok(Number::Int(to_tens(&int, false, places))),
        },
        number @ (Number::Int(_) | Number::Bool(_)) => Ok(number),
    }
}

fn to_tens(int: &BigInt, has_rest: bool, places: i64) -> BigInt {
    let places = u32::try_from(-places).unwrap_or(u32::MAX);
    // What has fewer digits than are cut is nothing.
    if u64::from(places) > int.bits() + 2 {
        return BigInt::zero();
    }
    let unit = BigInt::from(10).pow(places);
    let (quotient, remainder) = int.abs().div_rem(&unit);
    let up = match (remainder * 2u8).cmp(&unit) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => has_rest || quotient.is_odd(),
    };
    let rounded = (quotient + u8::from(up)) * unit;
    if int.sign() == Sign::Minus {
        -rounded
    } else {
        rounded
    }
}

fn only_whole() -> Wrong {
    Wrong::new(
        "TypeError",
        "this works on whole numbers only; use int(...) around the others",
    )
}
