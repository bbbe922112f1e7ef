//! A price as a calculation over members of a body.
//!
//! One description serves those who price a call and those who show what a call will cost. Nothing but arithmetic: no condition
//! but a table's, no loop.

use std::fmt;

use serde_json::Value;

/// A calculation over what `R` names.
#[derive(Clone, Debug, PartialEq)]
pub enum Term<R> {
    /// A number.
    Number(f64),
    /// What a member counts as.
    Read(R),
    /// Two terms joined by an operator.
    Binary(Operator, Box<Self>, Box<Self>),
    /// A function of one or several terms.
    Call(Function, Vec<Self>),
    /// The number of the first row whose members all count as more than nothing.
    FirstOf(Vec<(Vec<R>, f64)>),
}

/// What joins two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// What makes one number of one or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Function {
    Min,
    Max,
    Ceil,
    Floor,
}

/// A member of a body that a price follows from.
pub trait PricedMember: fmt::Debug + Send + Sync {
    /// Where it is: the names of members from the outside in.
    fn path(&self) -> &[String];

    /// What it counts as in this body; `None` if that is no number. Any JSON is a body.
    fn read(&self, body: &Value) -> Option<f64>;
}

impl<R> Term<R> {
    /// Calculates it; `None` when something has no value, no row fits, or a division has no finite result.
    #[must_use]
    pub fn calculate(&self, read: &dyn Fn(&R) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Read(member) => read(member),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.calculate(read)?, right.calculate(read)?);
                match operator {
                    Operator::Add => Some(left + right),
                    Operator::Subtract => Some(left - right),
                    Operator::Multiply => Some(left * right),
                    Operator::Divide => Some(left / right).filter(|result| result.is_finite()),
                }
            }
            Self::Call(function, arguments) => {
                let mut numbers = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    numbers.push(argument.calculate(read)?);
                }
                let numbers = numbers.into_iter();
                match function {
                    Function::Min => numbers.reduce(f64::min),
                    Function::Max => numbers.reduce(f64::max),
                    Function::Ceil => numbers.reduce(|first, _| first).map(f64::ceil),
                    Function::Floor => numbers.reduce(|first, _| first).map(f64::floor),
                }
            }
            Self::FirstOf(rows) => {
                let fits = |member: &R| read(member).is_some_and(|number| number > 0.0);
                let mut rows = rows.iter();
                let fitting = rows.find(|(members, _)| members.iter().all(fits));
                fitting.map(|(_, number)| *number)
            }
        }
    }

    /// The same calculation over something else.
    #[must_use]
    pub fn map<S>(&self, change: &mut dyn FnMut(&R) -> S) -> Term<S> {
        match self {
            Self::Number(number) => Term::Number(*number),
            Self::Read(member) => Term::Read(change(member)),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.map(change), right.map(change));
                Term::Binary(*operator, Box::new(left), Box::new(right))
            }
            Self::Call(function, arguments) => {
                let arguments = arguments.iter().map(|argument| argument.map(change));
                Term::Call(*function, arguments.collect())
            }
            Self::FirstOf(rows) => {
                let rows = rows.iter().map(|(members, number)| {
                    let members = members.iter().map(&mut *change);
                    (members.collect(), *number)
                });
                Term::FirstOf(rows.collect())
            }
        }
    }

    /// What it is calculated from, in order.
    #[must_use]
    pub fn members(&self) -> Vec<&R> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a R>) {
        match self {
            Self::Number(_) => {}
            Self::Read(member) => found.push(member),
            Self::Binary(_, left, right) => {
                left.collect(found);
                right.collect(found);
            }
            Self::Call(_, arguments) => {
                for argument in arguments {
                    argument.collect(found);
                }
            }
            Self::FirstOf(rows) => {
                found.extend(rows.iter().flat_map(|(members, _)| members));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_its_first_row_that_fits() {
        let table = Term::FirstOf(vec![(vec!["a", "b"], 3.0), (vec!["a"], 2.0)]);
        let at = |a: f64, b: Option<f64>| {
            table.calculate(&|name| if *name == "a" { Some(a) } else { b })
        };
        assert_eq!(at(1.0, Some(1.0)), Some(3.0));
        assert_eq!(at(1.0, None), Some(2.0));
        assert_eq!(at(0.0, Some(1.0)), None);
    }

    #[test]
    fn the_same_calculation_over_other_names_is_the_same() {
        let price = Term::Call(
            Function::Max,
            vec![
                Term::Binary(
                    Operator::Divide,
                    Box::new(Term::Read("n")),
                    Box::new(Term::Number(2.0)),
                ),
                Term::FirstOf(vec![(vec!["m"], 4.0)]),
            ],
        );
        assert_eq!(price.members(), [&"n", &"m"]);
        let lengths = price.map(&mut |name| name.len() as f64);
        assert_eq!(lengths.calculate(&|length| Some(*length)), Some(4.0));
        assert_eq!(price.calculate(&|_| Some(f64::MAX)), Some(f64::MAX / 2.0));
        assert_eq!(price.calculate(&|_| None), None);
    }
}
