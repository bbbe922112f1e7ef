//! Constants: converted to the type of their socket as Python would, then held against its bounds.

use std::cmp::Ordering;

use indexmap::IndexMap;
use serde_json::{Number, Value};

use super::ValidationErrorKind;
use super::judge::{Fault, is_any};
use crate::python::{WholeNumber, float_repr, python_bool, python_float, python_int, python_str};
use crate::{
    DynamicOption, FileSource, Input, InputDefinition, NO_FILE, NodeInput, ResolvedFile,
    ResolvedFiles, Socket,
};

/// Converts a constant.
pub(super) fn constant(
    files: &ResolvedFiles,
    definition: &InputDefinition,
    value: &Value,
) -> Result<NodeInput, Box<Fault>> {
    let invalid = |exception: String| {
        let kind = ValidationErrorKind::InvalidInputType { exception };
        Fault::new(Some(value.clone()), kind)
    };
    let converted = match &definition.socket {
        Socket::Int => {
            let number = python_int(value).map_err(invalid)?;
            within(
                definition,
                |bound| number.compare(bound),
                || number.to_value(),
            )?;
            match number {
                WholeNumber::Fits(number) => Value::Number(number),
                WholeNumber::Beyond(_) => {
                    return Err(invalid(
                        "Python int too large to convert to C long".to_owned(),
                    ));
                }
            }
        }
        Socket::Float => {
            let number = python_float(value).map_err(invalid)?;
            let compare = |bound: &Number| number.partial_cmp(&bound.as_f64()?);
            within(definition, compare, || float_value(number))?;
            float_value(number)
        }
        Socket::String => Value::String(python_str(value)),
        Socket::Boolean => Value::Bool(python_bool(value)),
        Socket::Combo { choices, .. } => {
            if !is_chosen(definition, choices, value) {
                let kind = ValidationErrorKind::ValueNotInList;
                return Err(Fault::new(Some(value.clone()), kind));
            }
            value.clone()
        }
        Socket::File {
            source: FileSource::Drawing,
            ..
        } if value.as_str() == Some("") => value.clone(),
        Socket::File {
            source: FileSource::Optional,
            ..
        } if value.as_str() == Some(NO_FILE) => value.clone(),
        Socket::File { .. } => return file(files, value),
        Socket::Open(_) if !definition.socket.file_keys().is_empty() => {
            return scene(files, definition.socket.file_keys(), value);
        }
        Socket::DynamicCombo(options) => {
            let is_key = |option: &DynamicOption| Some(option.key.as_str()) == value.as_str();
            if !options.iter().any(is_key) {
                let kind = ValidationErrorKind::ValueNotInList;
                return Err(Fault::new(Some(value.clone()), kind));
            }
            value.clone()
        }
        // The members of a group are inputs of their own, and nothing is put into the group itself.
        Socket::Widget(_) | Socket::Open(_) | Socket::Autogrow(_) => value.clone(),
        Socket::Link(_) if takes(definition.link_types(), value) => value.clone(),
        Socket::Link(io_type) => {
            return Err(invalid(format!(
                "{io_type} takes a link to the output of a node"
            )));
        }
    };
    Ok(NodeInput::Constant(converted))
}

/// Whether a socket of these types takes a constant: any type does, and one of several is that of the constant.
fn takes(types: &str, value: &Value) -> bool {
    let one_of = |wanted: &[&str]| {
        let mut types = types.split(',').map(str::trim);
        types.any(|io_type| wanted.contains(&io_type))
    };
    is_any(types)
        || match value {
            Value::Bool(_) => one_of(&["BOOLEAN"]),
            Value::Number(_) => one_of(&["INT", "FLOAT"]),
            Value::String(_) => one_of(&["STRING"]),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
}

/// JSON has no word for what is not finite: the text that Python prints stands for it.
fn float_value(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::String(float_repr(number)), Value::Number)
}

/// What cannot be compared (`nan`) is out of no bound.
fn within(
    definition: &InputDefinition,
    compare: impl Fn(&Number) -> Option<Ordering>,
    received: impl Fn() -> Value,
) -> Result<(), Box<Fault>> {
    let is = |bound: Option<&Number>, ordering| bound.and_then(&compare) == Some(ordering);
    let kind = if is(definition.min(), Ordering::Less) {
        ValidationErrorKind::ValueSmallerThanMin
    } else if is(definition.max(), Ordering::Greater) {
        ValidationErrorKind::ValueBiggerThanMax
    } else {
        return Ok(());
    };
    Err(Fault::new(Some(received()), kind))
}

/// Whether a value is among the choices. Choices are kept as texts, so a number or a truth value is one by its spelling.
fn is_chosen(definition: &InputDefinition, choices: &[String], value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            choices.contains(&python_str(value))
        }
        Value::Array(values)
            if definition.options.get("multiselect") == Some(&Value::Bool(true)) =>
        {
            values.iter().all(|value| {
                value
                    .as_str()
                    .is_some_and(|text| choices.iter().any(|choice| choice == text))
            })
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Finds a file by what the graph calls it, else by that without the note of a folder. An address is left to the engine.
fn file(files: &ResolvedFiles, value: &Value) -> Result<NodeInput, Box<Fault>> {
    if let Value::String(name) = value {
        if let Some(file) = named(files, name) {
            return Ok(NodeInput::File(file.clone()));
        }
        if name.starts_with("https://") {
            return Ok(NodeInput::Constant(value.clone()));
        }
    }
    let name = python_str(value);
    let kind = ValidationErrorKind::InvalidFile { name };
    Err(Fault::new(Some(value.clone()), kind))
}

/// Finds the files that a scene names under these keys: a worker has files of all accounts, and must be given no other name.
fn scene(
    files: &ResolvedFiles,
    keys: &'static [&'static str],
    value: &Value,
) -> Result<NodeInput, Box<Fault>> {
    let Value::Object(fields) = value else {
        return Ok(NodeInput::Constant(value.clone()));
    };
    let mut found = IndexMap::new();
    for key in keys {
        let name = match fields.get(*key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(name)) if name.is_empty() => continue,
            Some(named) => match Input::read(named) {
                Input::Asset(reference) => reference.id,
                Input::Constant(_) | Input::Link(_) => python_str(named),
            },
        };
        let Some(file) = named(files, &name) else {
            let kind = ValidationErrorKind::InvalidFile { name };
            return Err(Fault::new(Some(value.clone()), kind));
        };
        found.insert(*key, file.clone());
    }
    Ok(NodeInput::Scene {
        value: fields.clone(),
        files: found,
    })
}

/// The file of a name, with the note of a folder or without it.
fn named<'a>(files: &'a ResolvedFiles, name: &str) -> Option<&'a ResolvedFile> {
    files
        .get(name)
        .or_else(|| files.get(without_folder_note(name)?))
}

fn without_folder_note(name: &str) -> Option<&str> {
    [" [input]", " [output]", " [temp]"]
        .iter()
        .find_map(|note| name.strip_suffix(note))
}
