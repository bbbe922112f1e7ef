//! Ordered rules over answers: the first that matches says what an answer means.

use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::Value;

use super::pointer::Pointer;

mod example;

pub(crate) use example::{RuleExample, deciding};

/// One rule. It matches an answer when everything that it names does.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawRule")]
pub(crate) struct Rule {
    status: Vec<StatusPattern>,
    on: Vec<Step>,
    test: Option<(RuleTarget, Test)>,
    /// What a match means.
    pub verdict: RuleMeaning,
}

/// What an answer that is no result means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleMeaning {
    /// Whose trouble it is.
    pub kind: Kind,
    /// Whether nothing ran and the same may go well later; while asking for a state, whether to ask again.
    pub retryable: bool,
    /// Whether the partner's documentation says that such a failure is final and costs nothing.
    pub free: bool,
}

/// Whose trouble an answer is, in the words of the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Kind {
    /// The caller's: the content is not what the model takes.
    #[serde(rename = "invalid_input")]
    Content,
    /// The caller's: the partner's policy forbids it.
    #[serde(rename = "content_policy_violation")]
    Policy,
    /// The partner's.
    #[serde(rename = "provider_error")]
    Partner,
    /// The partner's: it gave up waiting.
    #[serde(rename = "provider_timeout")]
    Timeout,
    /// The operator's: the account at the partner.
    #[serde(rename = "service_unavailable")]
    Account,
}

/// Which question an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The one that starts the work.
    Submit,
    /// The one for the state.
    Poll,
    /// The one for the result of what is done.
    Result,
}

/// A status, or a class like `4xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "StatusText")]
struct StatusPattern {
    from: u16,
    to: u16,
}

/// Where a rule looks.
#[derive(Clone, Debug)]
enum RuleTarget {
    Document(Pointer),
    Header(HeaderName),
}

#[derive(Clone, Debug)]
enum Test {
    Is(Vec<Scalar>),
    IsNot(Vec<Scalar>),
    Present(bool),
}

/// A text, a number or a flag to compare with. In a text `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StatusText {
    Number(u16),
    Class(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    status: Vec<StatusPattern>,
    #[serde(default)]
    on: Vec<Step>,
    pointer: Option<Pointer>,
    header: Option<String>,
    is: Option<Vec<Scalar>>,
    is_not: Option<Vec<Scalar>>,
    present: Option<bool>,
    bucket: Kind,
    #[serde(default)]
    retryable: bool,
    #[serde(default)]
    free: bool,
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    /// Which question it answers.
    pub(crate) step: Step,
    /// Its status.
    pub(crate) status: u16,
    /// Its headers.
    pub(crate) headers: &'a HeaderMap,
    /// Its document, or null.
    pub(crate) document: &'a Value,
}

/// The verdict of the first rule that matches.
#[must_use]
pub(crate) fn first_match(rules: &[Rule], said: Said<'_>) -> Option<RuleMeaning> {
    let mut rules = rules.iter();
    rules
        .find(|rule| rule.matches(said))
        .map(|rule| rule.verdict)
}

// === impl Rule ===

impl Rule {
    fn matches(&self, said: Said<'_>) -> bool {
        let on_step = self.on.is_empty() || self.on.contains(&said.step);
        let mut patterns = self.status.iter();
        let on_status = self.status.is_empty()
            || patterns.any(|pattern| (pattern.from..=pattern.to).contains(&said.status));
        on_step && on_status && self.test_passes(said)
    }

    fn test_passes(&self, said: Said<'_>) -> bool {
        let Some((place, test)) = &self.test else {
            return true;
        };
        match place {
            RuleTarget::Document(pointer) => test.passes(&pointer.all(said.document)),
            RuleTarget::Header(name) => {
                let values = said.headers.get_all(name).iter();
                let values: Vec<Value> = values
                    .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
                    .collect();
                test.passes(&values.iter().collect::<Vec<_>>())
            }
        }
    }
}

impl Test {
    fn passes(&self, found: &[&Value]) -> bool {
        let one_of = |scalars: &[Scalar]| {
            found
                .iter()
                .any(|value| scalars.iter().any(|scalar| scalar.matches(value, true)))
        };
        match self {
            Self::Is(scalars) => one_of(scalars),
            // What is not there is not something else.
            Self::IsNot(scalars) => !found.is_empty() && !one_of(scalars),
            Self::Present(wanted) => found.iter().any(|value| !value.is_null()) == *wanted,
        }
    }
}

impl TryFrom<RawRule> for Rule {
    type Error = String;

    fn try_from(written: RawRule) -> Result<Self, String> {
        let tests = [
            written.is.map(Test::Is),
            written.is_not.map(Test::IsNot),
            written.present.map(Test::Present),
        ];
        let mut tests = tests.into_iter().flatten();
        let place = match (written.pointer, written.header) {
            (Some(pointer), None) => Some(RuleTarget::Document(pointer)),
            (None, Some(name)) => {
                let name = HeaderName::try_from(&name)
                    .map_err(|_| format!("`{name}` is no name of a header"))?;
                Some(RuleTarget::Header(name))
            }
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err("a rule looks at a `pointer` or at a `header`".to_owned());
            }
        };
        let test = match (place, tests.next(), tests.next()) {
            (Some(place), Some(test), None) => Some((place, test)),
            (None, None, None) if !written.status.is_empty() => None,
            (None, None, None) => {
                return Err(
                    "a rule names a `status`, or a `pointer` or `header` with a test".to_owned(),
                );
            }
            (None, _, _) | (_, _, Some(_)) | (Some(_), None, _) => {
                return Err(
                    "a `pointer` or `header` goes with exactly one of `is`, `is_not`, `present`"
                        .to_owned(),
                );
            }
        };
        if written.free && !matches!(written.bucket, Kind::Partner | Kind::Timeout) {
            return Err(
                "`free` goes with the buckets `provider_error` and `provider_timeout`".to_owned(),
            );
        }
        Ok(Self {
            status: written.status,
            on: written.on,
            test,
            verdict: RuleMeaning {
                kind: written.bucket,
                retryable: written.retryable,
                free: written.free,
            },
        })
    }
}

impl TryFrom<StatusText> for StatusPattern {
    type Error = String;

    fn try_from(text: StatusText) -> Result<Self, String> {
        match text {
            StatusText::Number(status @ 100..=599) => Ok(Self {
                from: status,
                to: status,
            }),
            StatusText::Class(class) if matches!(class.as_str(), "2xx" | "3xx" | "4xx" | "5xx") => {
                let hundred = u16::from(class.as_bytes()[0] - b'0') * 100;
                Ok(Self {
                    from: hundred,
                    to: hundred + 99,
                })
            }
            StatusText::Number(_) | StatusText::Class(_) => {
                Err("a status is a number from 100 to 599, or \"4xx\" and the like".to_owned())
            }
        }
    }
}

// === impl Scalar ===

impl Scalar {
    /// Whether a value is this one. A number also matches the text of it, since partners change their minds.
    #[must_use]
    pub(crate) fn matches(&self, value: &Value, ignore_case: bool) -> bool {
        match (self, value) {
            (Self::Flag(flag), Value::Bool(value)) => flag == value,
            (Self::Integer(wanted), Value::Number(value)) => value.as_i64() == Some(*wanted),
            (Self::Integer(wanted), Value::String(value)) => *value == wanted.to_string(),
            (Self::Text(pattern), Value::String(value)) if ignore_case => {
                glob(&pattern.to_lowercase(), &value.to_lowercase())
            }
            (Self::Text(pattern), Value::String(value)) => glob(pattern, value),
            (Self::Flag(_) | Self::Integer(_) | Self::Text(_), _) => false,
        }
    }
}

/// Compares a text with a pattern in which `*` stands for anything. Takes no longer than both lengths multiplied.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(text: &str) -> Result<Vec<Rule>, toml::de::Error> {
        #[derive(Deserialize)]
        struct File {
            rule: Vec<Rule>,
        }
        toml::from_str::<File>(text).map(|file| file.rule)
    }

    fn verdict(rules: &[Rule], step: Step, status: u16, document: &Value) -> Option<RuleMeaning> {
        let mut headers = HeaderMap::new();
        headers.insert("finish-reason", "CONTENT_FILTERED".parse().expect("plain"));
        let said = Said {
            step,
            status,
            headers: &headers,
            document,
        };
        first_match(rules, said)
    }

    fn kind(rules: &[Rule], status: u16, document: &Value) -> Option<Kind> {
        verdict(rules, Step::Poll, status, document).map(|verdict| verdict.kind)
    }

    #[test]
    fn a_rule_may_look_at_a_header() {
        let of = |test: &str| {
            let text = format!("[[rule]]\n{test}\nbucket = \"content_policy_violation\"");
            let rules = rules(&text).expect("it is well written");
            kind(&rules, 200, &Value::Null).is_some()
        };
        assert!(of(
            "header = \"Finish-Reason\"\nis = [\"content_filtered\"]"
        ));
        assert!(!of("header = \"Finish-Reason\"\nis = [\"SUCCESS\"]"));
        assert!(of("header = \"X-Other\"\npresent = false"));
        let both = "[[rule]]\nheader = \"a\"\npointer = \"/a\"\npresent = true\nbucket = \"provider_error\"";
        assert!(rules(both).is_err());
    }

    #[test]
    fn the_first_rule_that_matches_speaks() {
        let rules = rules(
            r#"
            [[rule]]
            status = [400, "5xx"]
            pointer = "/error/code"
            is = ["safety.*", 1301]
            bucket = "content_policy_violation"
            [[rule]]
            on = ["submit"]
            status = ["4xx"]
            bucket = "service_unavailable"
            [[rule]]
            pointer = "/code"
            is_not = [0]
            bucket = "provider_error"
            [[rule]]
            pointer = "/items/*/url"
            present = false
            bucket = "provider_timeout"
            "#,
        )
        .expect("they are well written");
        let policy = json!({"error": {"code": "SAFETY.INPUT.TEXT"}});
        assert_eq!(kind(&rules, 400, &policy), Some(Kind::Policy));
        assert_eq!(kind(&rules, 503, &policy), Some(Kind::Policy));
        let number = json!({"error": {"code": 1301}});
        assert_eq!(kind(&rules, 400, &number), Some(Kind::Policy));
        // The second is for submissions alone, and the third for codes that are there.
        assert_eq!(kind(&rules, 404, &policy), Some(Kind::Timeout));
        assert_eq!(kind(&rules, 200, &json!({"code": 7})), Some(Kind::Partner));
        let fine = json!({"code": 0, "items": [{"url": null}, {"url": "u"}]});
        assert_eq!(kind(&rules, 200, &fine), None);
        assert_eq!(
            verdict(&rules, Step::Submit, 404, &policy).map(|verdict| verdict.kind),
            Some(Kind::Account)
        );
    }

    #[test]
    fn a_rule_that_cannot_be_told_apart_is_refused() {
        for text in [
            "[[rule]]\nbucket = \"provider_error\"",
            "[[rule]]\npointer = \"/a\"\nbucket = \"provider_error\"",
            "[[rule]]\nis = [1]\nbucket = \"provider_error\"",
            "[[rule]]\npointer = \"/a\"\nis = [1]\npresent = true\nbucket = \"provider_error\"",
            "[[rule]]\nstatus = [99]\nbucket = \"provider_error\"",
            "[[rule]]\nstatus = [\"6xx\"]\nbucket = \"provider_error\"",
            "[[rule]]\nstatus = [400]\nbucket = \"unauthorized\"",
            "[[rule]]\nstatus = [400]\nbucket = \"provider_error\"\nretry = true",
            "[[rule]]\nstatus = [400]\nbucket = \"invalid_input\"\nfree = true",
            "[[rule]]\nstatus = [400]\nbucket = \"service_unavailable\"\nfree = true",
        ] {
            assert!(rules(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*", "", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abbc", true),
            ("a*bc", "abc", true),
            ("ab*ba", "aba", false),
            ("*sensitive*", "was Sensitive.", false),
            ("*x*y*", "yx", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }
}
