//! The fields of a published model: which inputs of which nodes they fill in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use workflow_core::{InputDefinition, Socket};

use super::{INLINE, Source};
use crate::models::definition::{Field, InputRef};

/// What the title of a node begins with whose inputs are fields.
const MARK: &str = "input:";

/// Most characters of a field's name.
const MOST_NAME: usize = 64;

/// Most fields of a model.
const MOST_FIELDS: usize = 200;

/// A field that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) field: Field,
    /// The input that it fills in.
    pub(super) definition: InputDefinition,
    /// What stands in the graph; nothing for files, which only the publisher has.
    pub(super) default: Option<Value>,
}

/// The fields, in the order of the graph.
///
/// # Errors
/// With everything that is wrong with what was named.
pub(super) fn find(
    source: &Source<'_>,
    named: &BTreeMap<String, String>,
    reached: &[&str],
) -> Result<Vec<Found>, Vec<String>> {
    let mut faults = Vec::new();
    let mut names: BTreeMap<(String, String), &str> = BTreeMap::new();
    for (name, place) in named {
        match place_of(source, name, place, reached) {
            Ok(place) => match names.entry(place) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(name);
                }
                std::collections::btree_map::Entry::Occupied(entry) => faults.push(format!(
                    "the inputs `{}` and `{name}` are both {place}; name it once",
                    entry.get(),
                    place = named[name],
                )),
            },
            Err(fault) => faults.push(fault),
        }
    }
    let mut taken: BTreeSet<String> = named.keys().cloned().collect();
    taken.insert(INLINE.to_owned());
    let mut found = Vec::new();
    for node in reached {
        let Some(class) = source.class(node) else {
            continue;
        };
        let sent = source.inputs(node);
        let title = source.title(node).and_then(marked);
        let called = title.filter(|title| !title.is_empty());
        let literal = |input: &InputDefinition| {
            let value = sent.and_then(|sent| sent.get(&input.name));
            value.filter(|value| !value.is_array()).cloned()
        };
        let is_marked = |input: &InputDefinition| {
            title.is_some() && is_value(&input.socket) && literal(input).is_some()
        };
        let marked = class.inputs.iter().filter(|input| is_marked(input)).count();
        for input in &class.inputs {
            let key = ((*node).to_owned(), input.name.clone());
            let is_file = matches!(input.socket, Socket::File { .. });
            let name = match names.get(&key) {
                Some(name) => (*name).to_owned(),
                // A value that another node gives is no field.
                None if is_file
                    && sent
                        .and_then(|sent| sent.get(&input.name))
                        .is_some_and(Value::is_array) =>
                {
                    continue;
                }
                None if is_file && (input.required || literal(input).is_some()) => {
                    free(called.unwrap_or(&input.name), &mut taken)
                }
                None if is_marked(input) && marked == 1 => {
                    free(called.unwrap_or(&input.name), &mut taken)
                }
                None if is_marked(input) => {
                    let title = title.unwrap_or_default();
                    free(&format!("{title} {}", input.name), &mut taken)
                }
                None => continue,
            };
            let place = InputRef {
                node: (*node).to_owned(),
                input: input.name.clone(),
            };
            let default = literal(input).or_else(|| input.options.get("default").cloned());
            found.push(Found {
                name,
                field: Field {
                    picture: is_file,
                    into: vec![place],
                },
                definition: input.clone(),
                default: default.filter(|_| !is_file),
            });
        }
    }
    if found.len() > MOST_FIELDS {
        faults.push(format!(
            "the model has {} inputs, and may have {MOST_FIELDS}; mark fewer nodes",
            found.len()
        ));
    }
    match faults.is_empty() {
        true => Ok(found),
        false => Err(faults),
    }
}

/// Where an input goes that the command names as `NODE.FIELD`; both may hold dots.
fn place_of(
    source: &Source<'_>,
    name: &str,
    place: &str,
    reached: &[&str],
) -> Result<(String, String), String> {
    let told = |reason: String| format!("the input `{name}` ({place}): {reason}");
    if !is_name(name) {
        return Err(told(format!(
            "a name has letters, digits and `_`, does not begin with a digit, has at most {MOST_NAME} characters and is not `{INLINE}`"
        )));
    }
    let dots = place.match_indices('.').map(|(at, _)| at);
    let mut splits = dots.map(|at| (&place[..at], &place[at + 1..]));
    let found = splits.find_map(|(node, field)| Some((source.find(node)?, field)));
    let Some((node, field)) = found else {
        let nodes = source.nodes.keys().map(String::as_str);
        return Err(told(format!(
            "write NODE.FIELD with the id or the title of a node; the graph has {}",
            source.listed(nodes)
        )));
    };
    let shown = source.listed(std::iter::once(node));
    let Some(class) = source.class(node) else {
        return Err(told(format!(
            "node {shown} is of a class that does not run here"
        )));
    };
    let Some(input) = class.input(field) else {
        let names: Vec<&str> = class
            .inputs
            .iter()
            .map(|input| input.name.as_str())
            .collect();
        return Err(told(format!(
            "node {shown} has no input `{field}`; it has {}",
            names.join(", ")
        )));
    };
    let sent = source.inputs(node).and_then(|sent| sent.get(field));
    if sent.is_some_and(Value::is_array) {
        return Err(told(
            "another node gives its value; name an input with a value of its own".to_owned(),
        ));
    }
    if !is_value(&input.socket) && !matches!(input.socket, Socket::File { .. }) {
        return Err(told("it takes a link to another node, or decides which inputs the node has; name an input with a plain value".to_owned()));
    }
    if !reached.contains(&node) {
        return Err(told(format!("the result does not depend on node {shown}")));
    }
    Ok((node.to_owned(), field.to_owned()))
}

/// Whether an input holds a value that a body can give.
fn is_value(socket: &Socket) -> bool {
    match socket {
        Socket::Int
        | Socket::Float
        | Socket::String
        | Socket::Boolean
        | Socket::Combo { .. }
        | Socket::Widget(_)
        | Socket::Open(_) => true,
        Socket::File { .. } | Socket::Autogrow(_) | Socket::DynamicCombo(_) | Socket::Link(_) => {
            false
        }
    }
}

/// What the title of a node calls its inputs, if it marks them.
fn marked(title: &str) -> Option<&str> {
    let (mark, name) = title.split_at_checked(MARK.len())?;
    mark.eq_ignore_ascii_case(MARK).then(|| name.trim())
}

fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name
        .bytes()
        .next()
        .is_some_and(|byte| !byte.is_ascii_digit());
    begins && name.bytes().all(is_word) && name.len() <= MOST_NAME && name != INLINE
}

/// A name of a field like this text, which no other one has.
fn free(text: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = String::new();
    for character in text.to_lowercase().chars() {
        match character {
            'a'..='z' | '0'..='9' => name.push(character),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    name.truncate(MOST_NAME - 4);
    let name = name.trim_end_matches('_');
    let name = match name.bytes().next() {
        None => "input".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("input_{name}"),
        Some(_) => name.to_owned(),
    };
    let mut numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut free = name.clone();
    while taken.contains(&free) {
        free = numbered.next().expect("numbers do not end");
    }
    taken.insert(free.clone());
    free
}
