//! What a call costs before it is made, from its body, and afterwards, from the partner's answer.
//!
//! Catalogs count in cents with fractions; what is held and billed is whole cents, rounded up once, at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use router_core::{Charge, Function, Operator, Price, PricedMember, Term};
use serde::Deserialize;
use serde_json::Value;

use super::formula::Formula;
use super::pointer::Pointer;
use super::rule::Scalar;

/// The most that anything costs: whatever a body asks for, its price is a number that limits can be compared with.
const MAX_CENTS: f64 = 1_000_000_000.0;

/// How far below a whole cent still is that cent: fractions of cents have no exact form in binary.
const ROUNDING: f64 = 1e-6;

/// How a price is found.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawPrice")]
pub(crate) struct Pricing {
    rule: PriceRule,
    unknown_hold_cents: u64,
    settle: Vec<Settle>,
}

#[derive(Clone, Debug)]
enum PriceRule {
    Calculated(Term<Reading>),
    Between { min: f64, max: f64 },
    Unknown,
}

/// What a price is calculated from.
#[derive(Clone, Debug)]
enum Reading {
    /// A number.
    Amount(Amount),
    /// One if it holds, else nothing.
    Condition(Condition),
}

/// A number in the body.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amount {
    pointer: Pointer,
    /// Where the body has nothing there.
    default: Option<f64>,
    /// What words stand for.
    #[serde(default)]
    words: BTreeMap<String, f64>,
    /// Whether it is the length of an array that counts.
    #[serde(default)]
    count: bool,
}

/// A line of a table: what it costs when every named value is so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    #[serde(default)]
    when: Vec<Condition>,
    cents: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    pointer: Pointer,
    is: Vec<Scalar>,
    /// Whether a body that has nothing there fits, too: the partner's default is among `is`.
    #[serde(default)]
    or_absent: bool,
}

/// Where the partner says what it took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    pointer: Pointer,
    cents_per_unit: f64,
    #[serde(default)]
    on: SettleOn,
}

/// Which answer says what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettleOn {
    /// The one to the submission.
    Submit,
    /// The result, or the last word on the state.
    #[default]
    Result,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Fixed,
    PerUnit,
    Table,
    Formula,
    Between,
    Unknown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    kind: Kind,
    cents: Option<f64>,
    units: Option<Amount>,
    rows: Option<Vec<Row>>,
    formula: Option<Formula>,
    values: Option<BTreeMap<String, Amount>>,
    min_cents: Option<f64>,
    max_cents: Option<f64>,
    unknown_hold_cents: Option<u64>,
    settle: Option<OneOrSeveral>,
}

/// One place, or several whose amounts add up.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(Settle),
    Several(Vec<Settle>),
}

// === impl Pricing ===

impl Pricing {
    /// What a call with this body would cost. Any JSON has a price.
    #[must_use]
    pub(crate) fn quote(&self, body: &Value) -> Price {
        let unknown = Price::Unknown {
            hold_cents: self.unknown_hold_cents,
        };
        let cents = match &self.rule {
            PriceRule::Unknown => None,
            PriceRule::Between { min, max } => {
                return Price::Estimated {
                    min_cents: whole(*min),
                    max_cents: whole(*max),
                };
            }
            PriceRule::Calculated(term) => term.calculate(&|reading| reading.read(body)),
        };
        let Some(cents) = cents.map(whole) else {
            return unknown;
        };
        if self.settle.is_empty() {
            return Price::Exact { cents };
        }
        // The partner has the last word.
        Price::Estimated {
            min_cents: cents,
            max_cents: cents,
        }
    }

    /// The calculation of a quote, rounding included; [`MAX_CENTS`] are beyond what anybody shows.
    #[must_use]
    pub(crate) fn calculation(&self) -> Option<Term<Arc<dyn PricedMember>>> {
        let PriceRule::Calculated(term) = &self.rule else {
            return None;
        };
        let cents = term.map(&mut |reading| -> Arc<dyn PricedMember> { Arc::new(reading.clone()) });
        let rounded = Term::Binary(
            Operator::Subtract,
            Box::new(cents),
            Box::new(Term::Number(ROUNDING)),
        );
        let whole = Term::Call(Function::Ceil, vec![rounded]);
        Some(Term::Call(Function::Max, vec![Term::Number(0.0), whole]))
    }

    /// What the partner says that it took, if it says so in this answer.
    #[must_use]
    pub(crate) fn settled(&self, on: SettleOn, answer: &Value) -> Option<u64> {
        let settles = self.settle.iter().filter(|settle| settle.on == on);
        let mut amounts = settles
            .filter_map(|settle| settle.amount(answer))
            .peekable();
        amounts.peek()?;
        Some(whole(amounts.sum()))
    }

    /// Whether the answer of a result must be read to settle.
    #[must_use]
    pub(crate) fn settles_on(&self, on: SettleOn) -> bool {
        self.settle.iter().any(|settle| settle.on == on)
    }

    /// As held, unless the partner said an amount.
    #[must_use]
    pub(crate) fn charge(settled_cents: Option<u64>) -> Charge {
        settled_cents.map_or(Charge::AsHeld, Charge::Cents)
    }
}

impl Settle {
    fn amount(&self, answer: &Value) -> Option<f64> {
        let units = number(self.pointer.first(answer)?)?;
        (units >= 0.0).then_some(units * self.cents_per_unit)
    }
}

/// Whole cents, rounded up; never below nothing, never past [`MAX_CENTS`].
fn whole(cents: f64) -> u64 {
    // A NaN is none of the partner's prices; the dearest is the safe reading.
    let cents = if cents.is_nan() { MAX_CENTS } else { cents };
    (cents - ROUNDING).ceil().clamp(0.0, MAX_CENTS) as u64
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

impl PricedMember for Reading {
    fn path(&self) -> &[String] {
        match self {
            Self::Amount(amount) => amount.pointer.segments(),
            Self::Condition(condition) => condition.pointer.segments(),
        }
    }

    fn read(&self, body: &Value) -> Option<f64> {
        match self {
            Self::Amount(amount) => amount.read(body),
            Self::Condition(condition) => Some(f64::from(u8::from(condition.holds(body)))),
        }
    }
}

impl Amount {
    fn read(&self, body: &Value) -> Option<f64> {
        let value = match self.pointer.first(body) {
            None | Some(Value::Null) => return self.default,
            Some(value) => value,
        };
        if self.count {
            return value.as_array().map(|items| items.len() as f64);
        }
        let word = value.as_str().and_then(|word| self.words.get(word));
        word.copied().or_else(|| number(value))
    }
}

impl Condition {
    fn holds(&self, body: &Value) -> bool {
        match self.pointer.first(body) {
            None | Some(Value::Null) => self.or_absent,
            Some(value) => self.is.iter().any(|scalar| scalar.matches(value, false)),
        }
    }
}

impl TryFrom<RawPrice> for Pricing {
    type Error = String;

    fn try_from(written: RawPrice) -> Result<Self, String> {
        let missing = |what: &str| format!("this kind of price needs {what}");
        let given = [
            written.cents.is_some(),
            written.units.is_some(),
            written.rows.is_some(),
            written.formula.is_some(),
            written.values.is_some(),
            written.min_cents.is_some() || written.max_cents.is_some(),
        ];
        let mut used = [false; 6];
        let rule = match written.kind {
            Kind::Fixed => {
                used[0] = true;
                let cents = written.cents.ok_or_else(|| missing("`cents`"))?;
                PriceRule::Calculated(Term::Number(sound(cents)?))
            }
            Kind::PerUnit => {
                used[..2].fill(true);
                let cents = written.cents.ok_or_else(|| missing("`cents`"))?;
                let units = written.units.ok_or_else(|| missing("`units`"))?;
                PriceRule::Calculated(Term::Binary(
                    Operator::Multiply,
                    Box::new(Term::Read(Reading::Amount(units))),
                    Box::new(Term::Number(sound(cents)?)),
                ))
            }
            Kind::Table => {
                used[2] = true;
                let rows = written.rows.ok_or_else(|| missing("`rows`"))?.into_iter();
                let rows = rows.map(|Row { when, cents }| {
                    let when = when.into_iter().map(Reading::Condition);
                    Ok((when.collect(), sound(cents)?))
                });
                PriceRule::Calculated(Term::FirstOf(rows.collect::<Result<_, String>>()?))
            }
            Kind::Formula => {
                used[3..5].fill(true);
                let formula = written.formula.ok_or_else(|| missing("`formula`"))?;
                let values = written.values.unwrap_or_default();
                let mut names = formula.0.members().into_iter();
                if let Some(name) = names.find(|name| !values.contains_key(*name)) {
                    return Err(format!("`{name}` of the formula is not among `values`"));
                }
                let read = &mut |name: &String| Reading::Amount(values[name].clone());
                PriceRule::Calculated(formula.0.map(read))
            }
            Kind::Between => {
                used[5] = true;
                let min = written.min_cents.ok_or_else(|| missing("`min_cents`"))?;
                let max = written.max_cents.ok_or_else(|| missing("`max_cents`"))?;
                if max < min {
                    return Err("`max_cents` is below `min_cents`".to_owned());
                }
                PriceRule::Between {
                    min: sound(min)?,
                    max: sound(max)?,
                }
            }
            Kind::Unknown => PriceRule::Unknown,
        };
        if given.iter().zip(used).any(|(given, used)| *given && !used) {
            return Err("the price holds a key that its `kind` does not use".to_owned());
        }
        let surely_known = matches!(written.kind, Kind::Fixed | Kind::Between);
        let unknown_hold_cents = match written.unknown_hold_cents {
            Some(cents) => cents,
            None if surely_known => 0,
            None => {
                return Err("a price that may be unknown needs `unknown_hold_cents`".to_owned());
            }
        };
        Ok(Self {
            rule,
            unknown_hold_cents,
            settle: match written.settle {
                None => Vec::new(),
                Some(OneOrSeveral::One(settle)) => vec![settle],
                Some(OneOrSeveral::Several(settles)) => settles,
            },
        })
    }
}

/// An amount in cents as definitions may hold it.
fn sound(cents: f64) -> Result<f64, String> {
    if (0.0..=MAX_CENTS).contains(&cents) {
        Ok(cents)
    } else {
        Err("an amount in cents is neither negative nor above ten million dollars".to_owned())
    }
}

#[cfg(test)]
mod tests;
