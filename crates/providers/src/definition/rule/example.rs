//! Answers that a rule is for: what a suite of cases is made from.

use http::HeaderName;
use serde_json::Value;

use super::{Rule, RuleTarget, Said, Scalar, StatusPattern, Step, Test};
use crate::definition::Pointer;

/// What an answer must have for a rule to match it, besides its status.
#[derive(Clone, Debug)]
pub(crate) enum RuleExample {
    /// Nothing: the status is enough, or that something is missing.
    Nothing,
    /// This value at this place.
    Member(Pointer, Value),
    /// This header.
    Header(HeaderName, String),
}

/// How far behind its first status a class such as `4xx` is tried, so that rules for single ones leave something of it.
const IN_A_CLASS: [u16; 5] = [0, 4, 9, 22, 29];

impl Rule {
    /// Statuses that it matches; all of them if there are none.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let of_pattern = |pattern: &StatusPattern| {
            let (from, to) = (pattern.from, pattern.to);
            let some = IN_A_CLASS.into_iter().map(move |step| from + step);
            some.filter(move |status| *status <= to)
        };
        self.status.iter().flat_map(of_pattern).collect()
    }

    /// Whether it is for answers to this question.
    pub(crate) fn is_for(&self, step: Step) -> bool {
        self.on.is_empty() || self.on.contains(&step)
    }

    /// What answers say that it matches, one for each of its values.
    pub(crate) fn examples(&self) -> Vec<RuleExample> {
        let Some((target, test)) = &self.test else {
            return vec![RuleExample::Nothing];
        };
        let values = match test {
            Test::Is(scalars) => scalars.iter().map(Scalar::example).collect(),
            Test::IsNot(_) => vec![Value::from("another"), Value::from(999_999_937)],
            Test::Present(true) => vec![Value::from("there")],
            Test::Present(false) => return vec![RuleExample::Nothing],
        };
        let told = values.into_iter().map(|value| match target {
            RuleTarget::Document(pointer) => RuleExample::Member(pointer.clone(), value),
            RuleTarget::Header(name) => {
                let text = value.as_str().map(str::to_owned);
                RuleExample::Header(name.clone(), text.unwrap_or_else(|| value.to_string()))
            }
        });
        told.collect()
    }
}

impl Scalar {
    /// A value that it matches.
    pub(crate) fn example(&self) -> Value {
        match self {
            Self::Flag(flag) => (*flag).into(),
            Self::Integer(number) => (*number).into(),
            Self::Text(pattern) => pattern.replace('*', "").into(),
        }
    }
}

/// Which rule decides about an answer.
pub(crate) fn deciding(rules: &[Rule], said: Said<'_>) -> Option<usize> {
    rules.iter().position(|rule| rule.matches(said))
}
