//! How a call answers with server-sent events, for models that say `stream = "sse"`: which bodies ask for them, and what is
//! read of the events on their way to the caller.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::pointer::Pointer;
use super::rule::Rule;
use super::template::Template;

/// A stream that a model gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StreamKind {
    /// Server-sent events.
    Sse,
}

/// The events of a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawEvents")]
pub(crate) struct Events {
    /// The member of the body that asks for a stream by being `true`.
    pub asked_by: String,
    /// Where bodies go that ask for one, if that is another address. The member that asks is then a word of the router's, and
    /// is not sent.
    pub path: Option<Template>,
    /// The names of the events that are read; without any, all are.
    read: BTreeSet<String>,
    /// Where events tell what the call took.
    usage: Vec<UsagePlace>,
    /// The names of the events that a whole stream ends with; without any, its end is that of the answer.
    last: BTreeSet<String>,
    /// What events mean that tell of a refusal or a failure.
    pub guards: Vec<Rule>,
    /// Whether a stream that breaks off or fails costs what its events told so far.
    pub bill_broken: bool,
}

/// Where an event tells what the call took.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsagePlace {
    from: Pointer,
    /// Where an answer that is no stream has it; without it, at the same place.
    to: Option<Pointer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvents {
    #[serde(default = "stream")]
    asked_by: String,
    path: Option<Template>,
    #[serde(default)]
    read: BTreeSet<String>,
    #[serde(default)]
    usage: Vec<UsagePlace>,
    #[serde(default)]
    last: BTreeSet<String>,
    #[serde(default)]
    guards: Vec<Rule>,
    #[serde(default)]
    bill_broken: bool,
}

fn stream() -> String {
    "stream".to_owned()
}

impl Events {
    /// Whether a body asks for a stream.
    #[must_use]
    pub(crate) fn are_asked_for(&self, body: &Value) -> bool {
        body.get(&self.asked_by) == Some(&Value::Bool(true))
    }

    /// Whether an event of this name is read.
    #[must_use]
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.read.is_empty() || self.read.contains(name)
    }

    /// Whether a whole stream ends with an event of this name; `None` if no event must come last.
    #[must_use]
    pub(crate) fn is_last(&self, name: &str) -> Option<bool> {
        (!self.last.is_empty()).then(|| self.last.contains(name))
    }

    /// Adds what an event tells of usage to `told`, in which it stands where an answer that is no stream has it. What a later
    /// event tells of the same counts.
    pub(crate) fn add_usage(&self, event: &Value, told: &mut Value) {
        for place in &self.usage {
            let found = place.from.first(event);
            let Some(found) = found.filter(|found| !found.is_null()) else {
                continue;
            };
            let to = place.to.as_ref().unwrap_or(&place.from);
            let mut at = &mut *told;
            for segment in to.segments() {
                at = members(at).entry(segment.as_str()).or_insert(Value::Null);
            }
            match found.as_object() {
                Some(found) => members(at).extend(found.clone()),
                None => *at = found.clone(),
            }
        }
    }
}

/// The members of what is an object from now on.
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it is an object")
}

impl TryFrom<RawEvents> for Events {
    type Error = String;

    fn try_from(written: RawEvents) -> Result<Self, String> {
        if let Some(path) = &written.path
            && !path.begins_with("/")
        {
            return Err("the `path` of `events` begins with `/`".to_owned());
        }
        let mut unread = written.last.difference(&written.read);
        if let Some(name) = unread.next().filter(|_| !written.read.is_empty()) {
            return Err(format!(
                "`{name}` is in `last` and not in `read`; name it in both"
            ));
        }
        let places = written.usage.iter();
        let mut places = places.map(|place| place.to.as_ref().unwrap_or(&place.from));
        if let Some(to) = places.find(|to| to.segments().iter().any(|segment| segment == "*")) {
            return Err(format!(
                "usage goes to one place, and `{to}` names several; give `to` without `*`"
            ));
        }
        Ok(Self {
            asked_by: written.asked_by,
            path: written.path,
            read: written.read,
            usage: written.usage,
            last: written.last,
            guards: written.guards,
            bill_broken: written.bill_broken,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events(text: &str) -> Result<Events, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn usage_stands_where_a_whole_answer_has_it_and_later_events_count() {
        let events = events(
            r#"usage = [{ from = "/message/usage", to = "/usage" }, { from = "/usage" }, { from = "/n", to = "/a/b" }]"#,
        )
        .expect("right");
        let mut told = Value::Null;
        for event in [
            json!({"message": {"usage": {"in": 7, "out": 1}}}),
            json!({"delta": "x", "usage": null}),
            json!({"usage": {"out": 5}, "n": 3}),
        ] {
            events.add_usage(&event, &mut told);
        }
        assert_eq!(told, json!({"usage": {"in": 7, "out": 5}, "a": {"b": 3}}));
    }

    #[test]
    fn only_true_asks_for_a_stream() {
        let events = events("").expect("right");
        let asks = |body: Value| events.are_asked_for(&body);
        assert!(asks(json!({"stream": true})));
        for other in [
            json!({}),
            json!({"stream": false}),
            json!({"stream": "true"}),
            json!([true]),
        ] {
            assert!(!asks(other.clone()), "{other}");
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, told) in [
            (r#"path = "v1""#, "the `path` of `events` begins with `/`"),
            (
                r#"read = ["a"]
                last = ["b"]"#,
                "`b` is in `last` and not in `read`; name it in both",
            ),
            (
                r#"usage = [{ from = "/a/*/b" }]"#,
                "usage goes to one place, and `/a/*/b` names several; give `to` without `*`",
            ),
        ] {
            let refused = events(text).expect_err(text);
            assert!(refused.contains(told), "{refused}");
        }
    }
}
