//! Small functions that spell definitions: classes, inputs and outputs.
//!
//! Options are given as the JSON object that clients see, in their order, so that a definition reads like the one it equals.

use serde_json::{Map, Value as Json, json};
use workflow_core::{
    FileSource, HiddenInput, InputDefinition, NodeDefinition, OutputDefinition, Socket,
};

/// A class in the older spelling, with nothing in it: combos are bare lists.
#[must_use]
pub fn classic(class: &str, python_module: &str, category: &str) -> NodeDefinition {
    NodeDefinition {
        class: class.to_owned(),
        display_name: Some(class.to_owned()),
        description: String::new(),
        python_module: python_module.to_owned(),
        category: category.to_owned(),
        inputs: Vec::new(),
        hidden: Vec::new(),
        outputs: Vec::new(),
        output_node: false,
        takes_lists: false,
        not_idempotent: false,
        partner: None,
        extra: Map::new(),
    }
}

/// A class in the newer spelling, with nothing in it.
#[must_use]
pub fn modern(class: &str, python_module: &str, category: &str) -> NodeDefinition {
    NodeDefinition {
        display_name: None,
        extra: options(json!({"deprecated": false, "experimental": false, "api_node": false})),
        ..classic(class, python_module, category)
    }
}

/// What marks a class of the older spelling as experimental.
#[must_use]
pub fn experimental() -> Map<String, Json> {
    options(json!({"experimental": true}))
}

/// The name that people see.
#[must_use]
pub fn named(name: &str) -> Option<String> {
    Some(name.to_owned())
}

/// A required input of a socket.
#[must_use]
pub fn input(name: &str, socket: Socket, input_options: Json) -> InputDefinition {
    InputDefinition {
        name: name.to_owned(),
        socket,
        required: true,
        lazy: false,
        options: options(input_options),
    }
}

/// A required link of a type.
#[must_use]
pub fn link(name: &str, io_type: &str) -> InputDefinition {
    input(name, Socket::Link(io_type.to_owned()), json!({}))
}

/// A required whole number.
#[must_use]
pub fn int_input(name: &str, options: Json) -> InputDefinition {
    input(name, Socket::Int, options)
}

/// A required number.
#[must_use]
pub fn float_input(name: &str, options: Json) -> InputDefinition {
    input(name, Socket::Float, options)
}

/// A required text.
#[must_use]
pub fn string_input(name: &str, options: Json) -> InputDefinition {
    input(name, Socket::String, options)
}

/// A required truth value.
#[must_use]
pub fn boolean_input(name: &str, options: Json) -> InputDefinition {
    input(name, Socket::Boolean, options)
}

/// A required choice in the older spelling.
#[must_use]
pub fn listed_combo(name: &str, choices: &[&str], options: Json) -> InputDefinition {
    input(name, combo(choices, true), options)
}

/// A required choice in the newer spelling.
#[must_use]
pub fn modern_combo(name: &str, choices: &[&str], options: Json) -> InputDefinition {
    input(name, combo(choices, false), options)
}

/// A required file.
#[must_use]
pub fn file_input(name: &str, source: FileSource, listed: bool, options: Json) -> InputDefinition {
    input(name, Socket::File { source, listed }, options)
}

/// The same input, not required.
#[must_use]
pub fn optional(input: InputDefinition) -> InputDefinition {
    InputDefinition {
        required: false,
        ..input
    }
}

/// The same input, evaluated only when the node asks for it.
#[must_use]
pub fn lazy(mut input: InputDefinition) -> InputDefinition {
    input.lazy = true;
    input.options.insert("lazy".to_owned(), Json::Bool(true));
    input
}

/// An output that is called like its type.
#[must_use]
pub fn output(io_type: &str) -> OutputDefinition {
    named_output(io_type, io_type)
}

/// An output with a name of its own.
#[must_use]
pub fn named_output(io_type: &str, name: &str) -> OutputDefinition {
    OutputDefinition {
        io_type: io_type.to_owned(),
        name: name.to_owned(),
        is_list: false,
        tooltip: None,
    }
}

/// An output whose items are mapped over.
#[must_use]
pub fn list_output(io_type: &str) -> OutputDefinition {
    OutputDefinition {
        is_list: true,
        ..output(io_type)
    }
}

/// An input that the server fills in.
#[must_use]
pub fn hidden(name: &str, token: &str) -> HiddenInput {
    HiddenInput {
        name: name.to_owned(),
        token: token.to_owned(),
        in_list: false,
    }
}

/// What classes that write metadata ask for: the graph and what comes with it.
#[must_use]
pub fn metadata() -> Vec<HiddenInput> {
    vec![
        hidden("prompt", "PROMPT"),
        hidden("extra_pnginfo", "EXTRA_PNGINFO"),
    ]
}

fn combo(choices: &[&str], listed: bool) -> Socket {
    Socket::Combo {
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        listed,
    }
}

fn options(options: Json) -> Map<String, Json> {
    match options {
        Json::Object(options) => options,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Map::new()
        }
    }
}
