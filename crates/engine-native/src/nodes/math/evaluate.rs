//! What an expression comes to.

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};

use super::Wrong;
use super::parse::{Comparison, Expression, Operator, Place, Sign, whole};
use super::value::{self, Number};
use crate::nodes::number::python_number;

/// A value inside of an expression.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Number(Number),
    Text(Arc<str>),
    List(Arc<[Item]>),
    None,
}

/// What an expression may use.
pub(super) struct Scope {
    /// Values by name.
    pub(super) names: Vec<(String, Item)>,
    /// Work that is left, in machine words: long texts of large numbers would take hours.
    pub(super) budget: u64,
}

/// Work that one expression may take: some tens of milliseconds.
pub(super) const BUDGET: u64 = 20_000_000;

/// Most characters of a text that is made.
const MOST_CHARACTERS: u64 = 100_000;

/// The largest exponent of `pow`.
const MAX_EXPONENT: i64 = 4000;

impl Scope {
    /// Recursion goes as deep as the expression nests, which is bounded.
    pub(super) fn value(&mut self, expression: &Expression) -> Result<Item, Wrong> {
        self.spend(1)?;
        match expression {
            Expression::Number(number) => Ok(Item::Number(number.clone())),
            Expression::Text(text) => Ok(Item::Text(Arc::clone(text))),
            Expression::None => Ok(Item::None),
            Expression::Name(name) => self.named(name),
            Expression::Signed(signs, operand) => {
                let mut number = self.number(operand)?;
                for sign in signs.iter().rev() {
                    self.spend(number.words())?;
                    number = match sign {
                        Sign::Plus => value::positive(&number),
                        Sign::Minus => value::negative(&number),
                        Sign::Invert => value::inverted(&number)?,
                    };
                }
                Ok(Item::Number(number))
            }
            Expression::Chain(first, others) => {
                let mut result = self.value(first)?;
                for (operator, operand) in others {
                    let operand = self.value(operand)?;
                    result = self.operate(*operator, &result, &operand)?;
                }
                Ok(result)
            }
            Expression::Power(base, exponent) => {
                let (base, exponent) = (self.number(base)?, self.number(exponent)?);
                self.power(&base, &exponent)
            }
            Expression::Compared(first, others) => {
                let mut left = self.value(first)?;
                for (comparison, operand) in others {
                    let right = self.value(operand)?;
                    if !self.compare(*comparison, &left, &right)? {
                        return Ok(truth(false));
                    }
                    left = right;
                }
                Ok(truth(true))
            }
            Expression::Not(times, operand) => {
                let is_true = self.value(operand)?.is_true();
                Ok(truth(is_true != (times % 2 == 1)))
            }
            Expression::All(terms) => self.until(terms, false),
            Expression::Any(terms) => self.until(terms, true),
            Expression::If(parts) => {
                let [condition, value, otherwise] = &**parts;
                match self.value(condition)?.is_true() {
                    true => self.value(value),
                    false => self.value(otherwise),
                }
            }
            Expression::Call(name, arguments) => {
                let arguments = arguments.iter().map(|argument| self.value(argument));
                let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                self.call(name, &arguments)
            }
            Expression::Item(container, places) => {
                let mut item = self.value(container)?;
                for place in places {
                    item = match place {
                        Place::At(place) => item.at(&self.number(place)?)?,
                        Place::Part(part) => Item::Number(value::part(&item.number()?, *part)?),
                    };
                }
                Ok(item)
            }
        }
    }

    fn spend(&mut self, words: u64) -> Result<(), Wrong> {
        let left = self.budget.checked_sub(words);
        self.budget = left.ok_or_else(|| {
            Wrong::value("it takes too many steps; use a shorter expression or smaller numbers")
        })?;
        Ok(())
    }

    fn named(&self, name: &str) -> Result<Item, Wrong> {
        let found = self.names.iter().find(|(known, _)| known == name);
        let found = found.map(|(_, item)| item.clone());
        found.ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            let names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
            Wrong::new(
                "simpleeval.NameNotDefined",
                format!(
                    "{shown:?} is not defined; the names here are: {}",
                    names.join(", ")
                ),
            )
        })
    }

    fn number(&mut self, expression: &Expression) -> Result<Number, Wrong> {
        self.value(expression)?.number()
    }

    /// The first term that is as true as `wanted`, or the last one.
    fn until(&mut self, terms: &[Expression], wanted: bool) -> Result<Item, Wrong> {
        let mut last = truth(!wanted);
        for term in terms {
            last = self.value(term)?;
            if last.is_true() == wanted {
                break;
            }
        }
        Ok(last)
    }

    fn operate(&mut self, operator: Operator, a: &Item, b: &Item) -> Result<Item, Wrong> {
        match (operator, a, b) {
            (Operator::Add, Item::Text(a), Item::Text(b)) => {
                return self.text((a.len() + b.len()) as u64, || format!("{a}{b}"));
            }
            (Operator::Multiply, Item::Text(text), Item::Number(times))
            | (Operator::Multiply, Item::Number(times), Item::Text(text)) => {
                let times = times.int().ok_or_else(no_number)?;
                let times =
                    times
                        .to_u64()
                        .unwrap_or(if times > BigInt::zero() { u64::MAX } else { 0 });
                let length = (text.len() as u64).saturating_mul(times);
                return self.text(length, || text.repeat(times as usize));
            }
            _ => {}
        }
        let (a, b) = (a.number()?, b.number()?);
        self.spend(a.words().saturating_mul(b.words()))?;
        Ok(Item::Number(match operator {
            Operator::Add => value::add(&a, &b)?,
            Operator::Subtract => value::subtract(&a, &b)?,
            Operator::Multiply => value::multiply(&a, &b)?,
            Operator::Divide => value::divide(&a, &b)?,
            Operator::FloorDivide => value::floor_divide(&a, &b)?,
            Operator::Modulo => value::modulo(&a, &b)?,
            Operator::ShiftLeft => value::shift(&a, &b, true)?,
            Operator::ShiftRight => value::shift(&a, &b, false)?,
            Operator::And => value::bits(&a, &b, |a, b| a & b, |a, b| a & b)?,
            Operator::Xor => value::bits(&a, &b, |a, b| a ^ b, |a, b| a ^ b)?,
            Operator::Or => value::bits(&a, &b, |a, b| a | b, |a, b| a | b)?,
        }))
    }

    /// A text of so many bytes.
    fn text(&mut self, bytes: u64, make: impl FnOnce() -> String) -> Result<Item, Wrong> {
        if bytes > MOST_CHARACTERS {
            return Err(Wrong::new(
                "IterableTooLong",
                format!("a text would have more than {MOST_CHARACTERS} characters"),
            ));
        }
        self.spend(bytes / 8)?;
        Ok(Item::Text(make().into()))
    }

    fn power(&mut self, base: &Number, exponent: &Number) -> Result<Item, Wrong> {
        // A power is a few products of numbers as large as the bound.
        let words = if base.int().is_some() { 1 << 17 } else { 1 };
        let is_small = exponent.words() == 1 && base.words() == 1;
        let is_cheap = is_small && exponent.float()? <= 64.0;
        self.spend(if is_cheap { 64 } else { words })?;
        Ok(Item::Number(value::power(base, exponent)?))
    }

    fn compare(&mut self, comparison: Comparison, a: &Item, b: &Item) -> Result<bool, Wrong> {
        if let Comparison::In | Comparison::NotIn = comparison {
            let is_in = match (a, b) {
                (Item::Text(part), Item::Text(whole)) => {
                    self.spend(whole.len() as u64)?;
                    whole.contains(&**part)
                }
                (_, Item::List(items)) => items.iter().any(|item| item.equals(a)),
                _ => {
                    return Err(Wrong::new(
                        "TypeError",
                        "\"in\" looks into a text or into values",
                    ));
                }
            };
            return Ok(is_in == (comparison == Comparison::In));
        }
        let order = match (a, b) {
            (Item::Number(a), Item::Number(b)) => {
                self.spend(a.words() + b.words())?;
                a.compare(b)
            }
            (Item::Text(a), Item::Text(b)) => {
                self.spend((a.len().min(b.len()) / 8) as u64)?;
                Some(a.cmp(b))
            }
            _ => match comparison {
                Comparison::Equal => return Ok(a.equals(b)),
                Comparison::NotEqual => return Ok(!a.equals(b)),
                Comparison::Less
                | Comparison::LessOrEqual
                | Comparison::Greater
                | Comparison::GreaterOrEqual
                | Comparison::In
                | Comparison::NotIn => {
                    return Err(Wrong::new("TypeError", "values of two kinds have no order"));
                }
            },
        };
        Ok(match comparison {
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::NotEqual => order != Some(Ordering::Equal),
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
            Comparison::Greater => order == Some(Ordering::Greater),
            Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
            Comparison::In | Comparison::NotIn => false,
        })
    }

    fn call(&mut self, name: &str, arguments: &[Item]) -> Result<Item, Wrong> {
        let real = |function: fn(f64) -> f64, from: f64| {
            let [argument] = arguments else {
                return Err(count(name, "1 value"));
            };
            let number = argument.number()?.float()?;
            match number < from || number.is_infinite() && function(number).is_nan() {
                true => Err(Wrong::value(format!(
                    "{name} is not defined for that number"
                ))),
                false => Ok(Item::Number(Number::Float(function(number)))),
            }
        };
        let only = |made: fn(&Number) -> Result<Number, Wrong>| {
            let [argument] = arguments else {
                return Err(count(name, "1 value"));
            };
            made(&argument.number()?).map(Item::Number)
        };
        match name {
            "sqrt" => real(f64::sqrt, 0.0),
            "sin" => real(f64::sin, f64::NEG_INFINITY),
            "cos" => real(f64::cos, f64::NEG_INFINITY),
            "tan" => real(f64::tan, f64::NEG_INFINITY),
            "log2" => real(f64::log2, f64::MIN_POSITIVE * f64::EPSILON),
            "log10" => real(f64::log10, f64::MIN_POSITIVE * f64::EPSILON),
            "log" => match arguments {
                [_] => real(f64::ln, f64::MIN_POSITIVE * f64::EPSILON),
                [number, base] => {
                    let (number, base) = (number.number()?.float()?, base.number()?.float()?);
                    if number <= 0.0 || base <= 0.0 {
                        return Err(Wrong::value("log is not defined for that number"));
                    }
                    let base = Number::Float(base.ln());
                    value::divide(&Number::Float(number.ln()), &base).map(Item::Number)
                }
                _ => Err(count(name, "1 or 2 values")),
            },
            "abs" => only(|number| Ok(value::absolute(number))),
            "ceil" => only(|number| value::whole(number, f64::ceil)),
            "floor" => only(|number| value::whole(number, f64::floor)),
            "round" => match arguments {
                [number] | [number, Item::None] => {
                    value::whole(&number.number()?, f64::round_ties_even).map(Item::Number)
                }
                [number, places] => {
                    let places = places.number()?.int().and_then(|places| places.to_i64());
                    let places = places.ok_or_else(no_number)?;
                    self.spend(1 << 10)?;
                    value::rounded(&number.number()?, places).map(Item::Number)
                }
                _ => Err(count(name, "1 or 2 values")),
            },
            "pow" => {
                let [base, exponent] = arguments else {
                    return Err(count(name, "2 values"));
                };
                let (base, exponent) = (base.number()?, exponent.number()?);
                let limit = Number::Int(BigInt::from(MAX_EXPONENT));
                if value::absolute(&exponent).compare(&limit) == Some(Ordering::Greater) {
                    return Err(Wrong::value(format!(
                        "an exponent may be {MAX_EXPONENT} at most"
                    )));
                }
                self.power(&base, &exponent)
            }
            "int" => match arguments {
                [] => Ok(Item::Number(Number::Int(BigInt::zero()))),
                [Item::Text(text)] => {
                    let (sign, digits) = signed(text);
                    let number = python_number(digits).and_then(|digits| whole(&digits, 10));
                    let number = number.ok_or_else(no_number)?;
                    Ok(Item::Number(Number::Int(number * sign)))
                }
                _ => only(|number| value::whole(number, f64::trunc)),
            },
            "float" => match arguments {
                [] => Ok(Item::Number(Number::Float(0.0))),
                [Item::Text(text)] => {
                    let number = python_number(text).and_then(|text| text.parse().ok());
                    Ok(Item::Number(Number::Float(number.ok_or_else(no_number)?)))
                }
                _ => only(|number| number.float().map(Number::Float)),
            },
            "min" => self.extreme(name, arguments, Comparison::Less),
            "max" => self.extreme(name, arguments, Comparison::Greater),
            "sum" => {
                let mut sum = Item::Number(Number::Int(BigInt::zero()));
                for item in row(arguments) {
                    sum = self.operate(Operator::Add, &sum, item)?;
                }
                Ok(sum)
            }
            _ => {
                let shown: String = name.chars().take(40).collect();
                Err(Wrong::new(
                    "simpleeval.FunctionNotDefined",
                    format!("there is no function {shown:?}; use one of: {FUNCTIONS}"),
                ))
            }
        }
    }

    fn extreme(
        &mut self,
        name: &str,
        arguments: &[Item],
        better: Comparison,
    ) -> Result<Item, Wrong> {
        let mut best: Option<&Item> = None;
        for item in row(arguments) {
            let is_better = match best {
                Some(best) => self.compare(better, item, best)?,
                None => true,
            };
            best = if is_better { Some(item) } else { best };
        }
        best.cloned().ok_or_else(|| count(name, "at least 1 value"))
    }
}

const FUNCTIONS: &str = "sum, min, max, abs, round, pow, sqrt, ceil, floor, log, log2, log10, sin, cos, tan, int, float";

impl Item {
    pub(super) fn number(&self) -> Result<Number, Wrong> {
        match self {
            Self::Number(number) => Ok(number.clone()),
            Self::Text(_) | Self::List(_) | Self::None => Err(no_number()),
        }
    }

    fn is_true(&self) -> bool {
        match self {
            Self::Number(number) => number.is_true(),
            Self::Text(text) => !text.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::None => false,
        }
    }

    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.compare(b) == Some(Ordering::Equal),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b),
            (Self::None, Self::None) => true,
            _ => false,
        }
    }

    /// What stands at a place; a negative one counts from the end.
    fn at(&self, place: &Number) -> Result<Self, Wrong> {
        let place = place.int().and_then(|place| place.to_i64());
        let place =
            place.ok_or_else(|| Wrong::new("TypeError", "a place must be a whole number"))?;
        let within = |length: usize| {
            let from_start = if place < 0 {
                place + length as i64
            } else {
                place
            };
            let place = usize::try_from(from_start)
                .ok()
                .filter(|place| *place < length);
            place.ok_or_else(|| {
                Wrong::new(
                    "IndexError",
                    format!("there is nothing at a place, since there are {length}"),
                )
            })
        };
        match self {
            Self::List(items) => Ok(items[within(items.len())?].clone()),
            Self::Text(text) => {
                let at = within(text.chars().count())?;
                let part: String = text.chars().skip(at).take(1).collect();
                Ok(Self::Text(part.into()))
            }
            Self::Number(_) | Self::None => Err(Wrong::new(
                "TypeError",
                "only a text and values have places",
            )),
        }
    }
}

fn truth(truth: bool) -> Item {
    Item::Number(Number::Bool(truth))
}

/// The items of the only argument, or the arguments.
fn row(arguments: &[Item]) -> &[Item] {
    match arguments {
        [Item::List(items)] => items,
        all => all,
    }
}

fn signed(text: &str) -> (i8, &str) {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn count(name: &str, wanted: &str) -> Wrong {
    Wrong::new("TypeError", format!("{name} takes {wanted}"))
}

fn no_number() -> Wrong {
    Wrong::new("TypeError", "a number is needed where there is none")
}
