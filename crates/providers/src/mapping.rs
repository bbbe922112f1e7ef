//! How a model's calls are said in the words of another model: rules of a model's file, both ways.
//!
//! A body is made anew from what the rules take of the caller's. What no rule takes is dropped, and told. An answer is made anew
//! from what the rules find in it.

mod rule;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use router_core::{Answer, Translated, Translation, Unsaid, ViolationStep, read_leniently};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::Pointer;
use rule::{Form, Rule};

const UNKNOWN_FIELD: &str = "has no such field";
const UNKNOWN_VALUE: &str = "has no such value";
const NO_PLACE: &str = "takes it only with the one before it";
const NO_PICTURE: &str =
    "takes a picture as an address, or as the base64 of a PNG, JPEG, WebP or GIF";

/// Most fields that are told of a body; what is dropped beyond them is dropped all the same.
const MOST_UNSAID: usize = 64;

/// The rules for bodies and for answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    /// From the caller's body to that of the other model. What is refused or dropped as a whole is looked at last.
    body: Vec<Rule>,
    /// From the answer of the other model to the one that the caller expects. `*` stands for every item of an array, on both
    /// sides.
    answer: Vec<Rule>,
}

/// Values that were said, or need not be: their places in the caller's body.
#[derive(Default)]
struct Taken<'a>(Vec<&'a [String]>);

impl Mapping {
    /// What is wrong with the rules, given the schemas of both sides: each with the text in the file that it is about.
    pub(crate) fn mistakes(
        &self,
        own: Option<&Value>,
        other: Option<&Value>,
    ) -> Vec<(String, String)> {
        let mut mistakes = Vec::new();
        let mut wrong = |at: &Pointer, reason: String| mistakes.push((at.to_string(), reason));
        for rule in &self.body {
            for pointer in [rule.from(), rule.to()].into_iter().flatten() {
                if pointer.segments().iter().any(|segment| segment == "*")
                    || pointer.segments().is_empty()
                {
                    wrong(
                        pointer,
                        format!("`{pointer}` of a body names one member or item, without `*`"),
                    );
                }
            }
            if let Some(from) = rule.from().filter(|from| !is_known(own, from)) {
                wrong(from, format!("the schema of this model has no `{from}`"));
            }
            if let Some(to) = rule.to().filter(|to| !is_known(other, to)) {
                wrong(to, format!("the schema of the other model has no `{to}`"));
            }
        }
        for rule in &self.answer {
            match rule {
                Rule::Constant { .. } => {}
                Rule::Move { from, to, .. } => {
                    let stars = |pointer: &Pointer| {
                        let segments = pointer.segments().iter();
                        segments.filter(|segment| *segment == "*").count()
                    };
                    if stars(from) != stars(to) || stars(from) > 1 {
                        wrong(
                            from,
                            format!("`{from}` and `{to}` have one `*` each, or none"),
                        );
                    }
                }
                Rule::Implied { from, .. }
                | Rule::Drop { from, .. }
                | Rule::Refuse { from, .. } => {
                    wrong(from, "what an answer has besides needs no rule".to_owned());
                }
            }
        }
        let properties = own.and_then(|schema| schema["properties"].as_object());
        // What a schema says of a member that may not be there is `false`.
        let properties = properties.into_iter().flatten();
        let properties = properties.filter(|(_, schema)| **schema != Value::Bool(false));
        for (name, _) in properties {
            let is_of =
                |rule: &Rule| rule.from().and_then(|from| from.segments().first()) == Some(name);
            if !self.body.iter().any(is_of) {
                mistakes.push((
                    "alternate".to_owned(),
                    format!("no rule says what becomes of `/{name}`: move it, or `drop` or `refuse` it with the reason"),
                ));
            }
        }
        mistakes
    }
}

/// Whether a schema may have a member at this place, as far as its own properties tell.
fn is_known(schema: Option<&Value>, pointer: &Pointer) -> bool {
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    let first = pointer.segments().first();
    match (properties, first) {
        (Some(properties), Some(first)) => properties.contains_key(first),
        (None, _) | (_, None) => true,
    }
}

impl Translation for Mapping {
    fn body(&self, body: &Value) -> Translated {
        let mut said = Translated {
            body: Value::Object(Map::new()),
            dropped: Vec::new(),
            refused: Vec::new(),
        };
        let mut taken = Taken::default();
        for rule in &self.body {
            match rule {
                Rule::Constant { to, value } => {
                    put(&mut said.body, to.segments(), value.clone(), false);
                }
                Rule::Move {
                    from,
                    to,
                    form,
                    refuse,
                } => {
                    let value = at(body, from.segments()).filter(|value| form.is_for(value));
                    let Some(value) = value else {
                        continue;
                    };
                    taken.0.push(from.segments());
                    // What is null is not there for any partner.
                    if value.is_null() {
                        continue;
                    }
                    let unsaid = |why: &str| unsaid(body, from.segments(), why);
                    match (form.of(value), refuse, form) {
                        (Some(value), ..) => {
                            if !put(&mut said.body, to.segments(), value, false) {
                                said.dropped.push(unsaid(NO_PLACE));
                            }
                        }
                        (None, Some(why), _) => said.refused.push(unsaid(why)),
                        (None, None, Form::DataUrl) => said.refused.push(unsaid(NO_PICTURE)),
                        (None, None, _) => said.dropped.push(unsaid(UNKNOWN_VALUE)),
                    }
                }
                Rule::Implied {
                    from,
                    value,
                    refuse,
                } => {
                    let Some(given) = at(body, from.segments()) else {
                        continue;
                    };
                    taken.0.push(from.segments());
                    match refuse {
                        _ if given == value || given.is_null() => {}
                        Some(why) => said.refused.push(unsaid(body, from.segments(), why)),
                        None => {
                            let why = format!("always has {value} for it");
                            said.dropped.push(unsaid(body, from.segments(), &why));
                        }
                    }
                }
                Rule::Drop { .. } | Rule::Refuse { .. } => {}
            }
        }
        for rule in &self.body {
            let (from, why, into) = match rule {
                Rule::Drop { from, why } => (from, why, &mut said.dropped),
                Rule::Refuse { from, why } => (from, why, &mut said.refused),
                Rule::Move { .. } | Rule::Implied { .. } | Rule::Constant { .. } => continue,
            };
            let mut left = Vec::new();
            if let Some(value) = at(body, from.segments()) {
                taken.left(value, &mut from.segments().to_vec(), &mut left);
            }
            if !left.is_empty() {
                into.push(unsaid(body, from.segments(), why));
            }
            taken.0.push(from.segments());
        }
        let mut left = Vec::new();
        taken.left(body, &mut Vec::new(), &mut left);
        let left = left.iter().map(|path| unsaid(body, path, UNKNOWN_FIELD));
        said.dropped.extend(left);
        said
    }

    fn answer(&self, answer: Answer) -> Answer {
        let Some(read @ Value::Object(_)) = read_leniently(&answer.body) else {
            return answer;
        };
        let mut said = Value::Object(Map::new());
        let mut is_found = false;
        for rule in &self.answer {
            match rule {
                Rule::Constant { to, value } => {
                    put(&mut said, to.segments(), value.clone(), true);
                }
                Rule::Move { from, to, form, .. } => {
                    for (place, value) in each(&read, from.segments()) {
                        if let Some(value) = form.of(value) {
                            let to = numbered(to.segments(), place);
                            is_found |= put(&mut said, &to, value, true);
                        }
                    }
                }
                Rule::Implied { .. } | Rule::Drop { .. } | Rule::Refuse { .. } => {}
            }
        }
        // What nothing is known of is the caller's all the same.
        if !is_found {
            return answer;
        }
        Answer {
            content_type: "application/json".to_owned(),
            body: Bytes::from(said.to_string()),
        }
    }
}

impl Taken<'_> {
    /// What of a value was not taken, as the outermost places that hold nothing else. What is null is nothing.
    fn left(&self, value: &Value, path: &mut Vec<String>, left: &mut Vec<Vec<String>>) {
        let within = |taken: &&[String]| path.starts_with(taken);
        if left.len() >= MOST_UNSAID || value.is_null() || self.0.iter().any(within) {
            return;
        }
        let below = self.0.iter().any(|taken| taken.starts_with(path));
        if let Value::Object(members) = value
            && (below || path.is_empty())
        {
            for (name, value) in members {
                path.push(name.clone());
                self.left(value, path, left);
                path.pop();
            }
        } else if let Value::Array(items) = value
            && below
        {
            for (index, value) in items.iter().enumerate() {
                path.push(index.to_string());
                self.left(value, path, left);
                path.pop();
            }
        } else {
            left.push(path.clone());
        }
    }
}

impl Rule {
    fn from(&self) -> Option<&Pointer> {
        match self {
            Self::Move { from, .. }
            | Self::Implied { from, .. }
            | Self::Drop { from, .. }
            | Self::Refuse { from, .. } => Some(from),
            Self::Constant { .. } => None,
        }
    }

    fn to(&self) -> Option<&Pointer> {
        match self {
            Self::Move { to, .. } | Self::Constant { to, .. } => Some(to),
            Self::Implied { .. } | Self::Drop { .. } | Self::Refuse { .. } => None,
        }
    }
}

fn unsaid(body: &Value, path: &[String], why: &str) -> Unsaid {
    let mut value = Some(body);
    let steps = path.iter().map(|segment| {
        let is_item = value.is_some_and(Value::is_array);
        value = value.and_then(|value| below(value, segment));
        match (is_item, segment.parse()) {
            (true, Ok(index)) => ViolationStep::Index(index),
            _ => ViolationStep::Field(segment.clone()),
        }
    });
    Unsaid {
        location: steps.collect(),
        why: why.to_owned(),
    }
}

fn below<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter()
        .try_fold(value, |value, segment| below(value, segment))
}

/// The values at a path in which `*` stands for every item, with the index of each.
fn each<'a>(value: &'a Value, path: &[String]) -> Vec<(usize, &'a Value)> {
    let Some(star) = path.iter().position(|segment| segment == "*") else {
        return at(value, path)
            .map(|value| (0, value))
            .into_iter()
            .collect();
    };
    let (before, after) = (&path[..star], &path[star + 1..]);
    let items = at(value, before).and_then(Value::as_array);
    let items = items.into_iter().flatten().enumerate();
    items
        .filter_map(|(place, item)| Some((place, at(item, after)?)))
        .collect()
}

/// A path with the index in the place of `*`.
fn numbered(path: &[String], place: usize) -> Vec<String> {
    let number = |segment: &String| match segment.as_str() {
        "*" => place.to_string(),
        _ => segment.clone(),
    };
    path.iter().map(number).collect()
}

/// Puts a value at a place, with what has to be around it. Where an array lacks the items before, they are left empty if
/// `is_padded`, and else there is no such place.
fn put(within: &mut Value, path: &[String], value: Value, is_padded: bool) -> bool {
    (is_padded || has_place(Some(within), path)) && put_at(within, path, value)
}

/// Whether no array on the way lacks the items before.
fn has_place(within: Option<&Value>, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    let items = match within {
        Some(Value::Array(items)) => Some(items.len()),
        None | Some(Value::Null) => index(first).map(|_| 0),
        Some(Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_)) => None,
    };
    let is_lacking = items
        .zip(index(first))
        .is_some_and(|(items, place)| place > items);
    !is_lacking && has_place(within.and_then(|within| below(within, first)), rest)
}

fn put_at(within: &mut Value, path: &[String], value: Value) -> bool {
    let Some((first, rest)) = path.split_first() else {
        *within = value;
        return true;
    };
    if within.is_null() {
        *within = match index(first) {
            Some(_) => Value::Array(Vec::new()),
            None => Value::Object(Map::new()),
        };
    }
    match (within, index(first)) {
        (Value::Array(items), Some(place)) => {
            while items.len() <= place {
                items.push(match items.len() {
                    last if last == place => Value::Null,
                    _ => Value::Object(Map::new()),
                });
            }
            put_at(&mut items[place], rest, value)
        }
        (Value::Object(members), _) => {
            let member = members.entry(first.clone()).or_insert(Value::Null);
            put_at(member, rest, value)
        }
        _ => false,
    }
}

/// The index that a segment is. Answers of partners have no arrays of a million pictures.
fn index(segment: &str) -> Option<usize> {
    let is_short = segment.len() <= 5 && (segment == "0" || !segment.starts_with('0'));
    let is_number = segment.bytes().all(|byte| byte.is_ascii_digit());
    (is_short && is_number)
        .then(|| segment.parse().ok())
        .flatten()
}
