//! One class of `/object_info` as a definition of ours.

use serde_json::{Map, Value};
use workflow_core::{
    FileSource, HiddenInput, InputDefinition, NodeDefinition, OutputDefinition, Socket,
};

/// The definition of a class. What cannot be read is taken for the least that it can mean.
pub(super) fn definition(class: &str, mut entry: Map<String, Value>) -> NodeDefinition {
    let text = |key: &str| {
        let text = entry.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let is = |key: &str| entry.get(key) == Some(&Value::Bool(true));
    let mut inputs = section(&entry, "required", true);
    inputs.extend(section(&entry, "optional", false));
    let mut definition = NodeDefinition {
        class: class.to_owned(),
        display_name: entry
            .get("display_name")
            .and_then(Value::as_str)
            .map(str::to_owned),
        description: text("description"),
        python_module: text("python_module"),
        category: text("category"),
        inputs,
        hidden: hidden(&entry),
        outputs: outputs(&entry),
        output_node: is("output_node"),
        takes_lists: is("is_input_list"),
        not_idempotent: false,
        // What an input is composed of is sent as inputs that only the worker can name, and may be links.
        accepts_all: has_composed_input(&entry),
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
    };
    withhold_files(&mut entry, &definition.inputs);
    // Clients see what the worker says, to the letter.
    definition.extra = entry;
    definition
}

fn section(entry: &Map<String, Value>, name: &str, required: bool) -> Vec<InputDefinition> {
    let inputs = entry.get("input").and_then(|input| input.get(name));
    let Some(inputs) = inputs.and_then(Value::as_object) else {
        return Vec::new();
    };
    inputs
        .iter()
        .map(|(name, spec)| input(name, spec, required))
        .collect()
}

fn input(name: &str, spec: &Value, required: bool) -> InputDefinition {
    let options = spec.get(1).and_then(Value::as_object);
    let options = options.cloned().unwrap_or_default();
    let io_type = io_type(spec.get(0).unwrap_or(&Value::Null));
    // Its parts are inputs of their own, under names that only the worker can tell.
    let is_composed = spec
        .get(0)
        .and_then(Value::as_str)
        .is_some_and(is_composed_type);
    InputDefinition {
        name: name.to_owned(),
        socket: match file_source(&options) {
            Some(source) => Socket::File {
                source,
                listed: spec.get(0).is_some_and(Value::is_array),
            },
            None => Socket::Open(io_type),
        },
        required: required && !is_composed,
        lazy: options.get("lazy") == Some(&Value::Bool(true)),
        options,
    }
}

fn has_composed_input(entry: &Map<String, Value>) -> bool {
    let sections = ["required", "optional"]
        .iter()
        .filter_map(|section| entry.get("input")?.get(section)?.as_object());
    let mut types = sections
        .flatten()
        .filter_map(|(_, spec)| spec.get(0)?.as_str());
    types.any(is_composed_type)
}

/// The folder that an input chooses files from, if those are uploads or outputs.
fn file_source(options: &Map<String, Value>) -> Option<FileSource> {
    let folder = options.get("image_folder").and_then(Value::as_str);
    let is_upload =
        |(key, value): (&String, &Value)| key.ends_with("_upload") && *value == Value::Bool(true);
    let is = |key: &str| options.get(key) == Some(&Value::Bool(true));
    match folder {
        // ComfyUI's widget for drawing.
        None if options.get("widgetType").and_then(Value::as_str) == Some("PAINTER") => {
            Some(FileSource::Drawing)
        }
        // It stands at models in three dimensions only, whose menus begin with `none`.
        None if is("file_upload") => Some(FileSource::Optional),
        Some("output") => Some(FileSource::Output),
        Some(_) => Some(FileSource::Input),
        None => options.iter().any(is_upload).then_some(FileSource::Input),
    }
}

/// The type of a link, which for a menu is `COMBO`.
fn io_type(written: &Value) -> String {
    match written {
        Value::String(name) if is_composed_type(name) => "*".to_owned(),
        Value::String(name) => name.clone(),
        Value::Array(_) => "COMBO".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "*".to_owned(),
    }
}

/// Types that stand for others, which depend on the graph.
fn is_composed_type(name: &str) -> bool {
    name.starts_with("COMFY_")
}

fn hidden(entry: &Map<String, Value>) -> Vec<HiddenInput> {
    let inputs = entry.get("input").and_then(|input| input.get("hidden"));
    let Some(inputs) = inputs.and_then(Value::as_object) else {
        return Vec::new();
    };
    let hidden = inputs.iter().map(|(name, token)| {
        let in_list = token.is_array();
        let token = token.get(0).unwrap_or(token).as_str().unwrap_or_default();
        HiddenInput {
            name: name.clone(),
            token: token.to_owned(),
            in_list,
        }
    });
    hidden.collect()
}

fn outputs(entry: &Map<String, Value>) -> Vec<OutputDefinition> {
    let list = |key: &str| entry.get(key).and_then(Value::as_array);
    let Some(types) = list("output") else {
        return Vec::new();
    };
    let at = |key: &str, slot: usize| list(key).and_then(|items| items.get(slot));
    let slots = types.iter().enumerate().map(|(slot, written)| {
        let io_type = io_type(written);
        let name = at("output_name", slot).and_then(Value::as_str);
        let tooltip = at("output_tooltips", slot).and_then(Value::as_str);
        OutputDefinition {
            name: name.unwrap_or(&io_type).to_owned(),
            is_list: at("output_is_list", slot) == Some(&Value::Bool(true)),
            tooltip: tooltip.map(str::to_owned),
            io_type,
        }
    });
    slots.collect()
}

/// The files of a worker's own folders are nobody's to choose from: they are inputs and outputs of all accounts.
fn withhold_files(entry: &mut Map<String, Value>, inputs: &[InputDefinition]) {
    let files = inputs
        .iter()
        .filter(|input| matches!(input.socket, Socket::File { .. }));
    for input in files {
        for section in ["required", "optional"] {
            let spec = entry
                .get_mut("input")
                .and_then(|sections| sections.get_mut(section)?.get_mut(&input.name));
            if let Some(choices) = spec.and_then(choices_mut) {
                choices.clear();
            }
        }
    }
}

/// The choices of a menu, in either spelling. One whose choices come from elsewhere has none.
pub(super) fn choices(spec: &Value) -> Option<&Vec<Value>> {
    match spec.get(0)? {
        Value::Array(choices) => Some(choices),
        Value::String(name) if name == "COMBO" => spec.get(1)?.get("options")?.as_array(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            None
        }
    }
}

/// As [`choices`], to be changed.
pub(super) fn choices_mut(spec: &mut Value) -> Option<&mut Vec<Value>> {
    if spec.get(0)?.is_array() {
        return spec.get_mut(0)?.as_array_mut();
    }
    if spec.get(0)?.as_str() != Some("COMBO") {
        return None;
    }
    spec.get_mut(1)?.get_mut("options")?.as_array_mut()
}
