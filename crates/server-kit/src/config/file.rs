//! The TOML file: flat, every key known, every value remembered with its line.

use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::{ConfigError, Key, Kind};

/// One key of a file as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) text: String,
    pub(super) line: usize,
}

/// Reads the text of the file at `path`.
pub(super) fn read(text: &str, path: &Path, keys: &[Key]) -> Result<Vec<Entry>, ConfigError> {
    let line_of = |span: Range<usize>| 1 + text[..span.start].matches('\n').count();
    let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(error.span().unwrap_or(0..0)),
        message: error.message().to_owned(),
    })?;

    let mut written: Vec<_> = table.into_inner().into_iter().collect();
    written.sort_by_key(|(name, _)| name.span().start);
    let entries = written.into_iter().map(|(name, value)| {
        let line = line_of(name.span());
        let known = keys.iter().find(|key| key.name == name.get_ref().as_ref());
        let key = *known.ok_or_else(|| ConfigError::UnknownKey {
            path: path.to_owned(),
            line,
            key: name.get_ref().to_string(),
            nearest: nearest(name.get_ref(), keys.iter().map(|key| key.name)),
        })?;
        let text = plain(value.get_ref(), key.kind).ok_or_else(|| ConfigError::Type {
            path: path.to_owned(),
            line,
            key: key.name,
            found: kind_of(value.get_ref()),
            allowed: match key.kind {
                Kind::Value(_) => "a text or a whole number",
                Kind::Switch => "true or false",
                Kind::List(_) => "an array of texts",
                Kind::Tables => "tables that begin with its name in double brackets",
            },
        })?;
        Ok(Entry { key, text, line })
    });
    entries.collect()
}

/// The value as a flag would have it.
fn plain(value: &DeValue<'_>, kind: Kind) -> Option<String> {
    match (kind, value) {
        (Kind::Value(_) | Kind::List(_), DeValue::String(text)) => Some(text.to_string()),
        (Kind::Value(_), DeValue::Integer(number)) => {
            (number.radix() == 10).then(|| number.as_str().to_owned())
        }
        (Kind::Switch, DeValue::Boolean(switch)) => Some(switch.to_string()),
        (Kind::List(_), DeValue::Array(items)) => {
            let texts: Option<Vec<&str>> =
                items.iter().map(|item| item.get_ref().as_str()).collect();
            Some(texts?.join(","))
        }
        (Kind::Tables, DeValue::Array(items)) => {
            let is_table = items
                .iter()
                .all(|item| matches!(item.get_ref(), DeValue::Table(_)));
            is_table
                .then(|| json(value))?
                .map(|tables| tables.to_string())
        }
        _ => None,
    }
}

/// Texts, whole numbers, switches, arrays and tables of them as JSON.
fn json(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) if number.radix() == 10 => {
            number.as_str().parse::<i64>().ok().map(Value::from)
        }
        DeValue::Boolean(switch) => Some((*switch).into()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| json(item.get_ref()));
            items.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        DeValue::Table(fields) => {
            let fields = fields.iter();
            let fields = fields
                .map(|(name, field)| Some((name.get_ref().to_string(), json(field.get_ref())?)));
            fields.collect::<Option<_>>().map(Value::Object)
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) => None,
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array like this",
        DeValue::Table(_) => "a table",
    }
}
