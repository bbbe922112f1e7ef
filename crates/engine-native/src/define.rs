//! Small functions that spell definitions: classes, inputs and outputs.
//!
//! Options are given as the JSON object that clients see, in their order, so that a definition reads like the one it equals.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use workflow_core::{
    Autogrow, AutogrowNames, DynamicOption, FileSource, HiddenInput, InputDefinition, MATCH_TYPE,
    NodeDefinition, OutputDefinition, Socket,
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
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
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

/// A class in the newer spelling that came after graphs of it were made: inputs that a graph lacks take their defaults. `marks`
/// are further keys of the public definition.
#[must_use]
pub fn latest(class: &str, python_module: &str, category: &str, marks: Json) -> NodeDefinition {
    let mut definition = modern(class, python_module, category);
    definition.fills_defaults = true;
    definition.extra.extend(options(marks));
    definition
}

/// As [`latest`], in the older spelling.
#[must_use]
pub fn core(class: &str, python_module: &str, category: &str, marks: Json) -> NodeDefinition {
    NodeDefinition {
        fills_defaults: true,
        extra: options(marks),
        ..classic(class, python_module, category)
    }
}

/// What marks a class of the older spelling as experimental.
#[must_use]
pub fn experimental() -> Map<String, Json> {
    options(json!({"experimental": true}))
}

/// The class with what newer versions of it have, which graphs may use. Clients are shown the class as it is given, because that
/// is the form that they know.
#[must_use]
pub fn newer(shown: NodeDefinition, change: impl FnOnce(&mut NodeDefinition)) -> NodeDefinition {
    let mut definition = shown.clone();
    definition.shown = Some(Arc::new(shown));
    change(&mut definition);
    definition
}

/// As [`newer`]: an output node that hands on what it got.
#[must_use]
pub fn hands_on(shown: NodeDefinition, io_type: &str, name: &str) -> NodeDefinition {
    newer(shown, |definition| {
        definition.outputs = vec![named_output(io_type, name)];
    })
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

/// A required value that a widget of its own writes.
#[must_use]
pub fn widget(name: &str, io_type: &str, options: Json) -> InputDefinition {
    input(name, Socket::Widget(io_type.to_owned()), options)
}

/// A required link whose type is that of every input and output of `template`, one of `types`.
#[must_use]
pub fn matched(name: &str, template: &str, types: &str) -> InputDefinition {
    let template = json!({"template_id": template, "allowed_types": types});
    input(
        name,
        Socket::Link(MATCH_TYPE.to_owned()),
        json!({"template": template}),
    )
}

/// A group of inputs called `prefix0`, `prefix1` and so on.
#[must_use]
pub fn autogrow(
    name: &str,
    template: InputDefinition,
    prefix: &str,
    min: usize,
    max: usize,
) -> InputDefinition {
    let prefix = prefix.to_owned();
    grows(name, template, AutogrowNames::Prefix { prefix, max }, min)
}

/// A group of inputs called `a` to `z`.
#[must_use]
pub fn autogrow_letters(name: &str, template: InputDefinition, min: usize) -> InputDefinition {
    let names = ('a'..='z').map(String::from).collect();
    grows(name, template, AutogrowNames::Listed(names), min)
}

fn grows(
    name: &str,
    template: InputDefinition,
    names: AutogrowNames,
    min: usize,
) -> InputDefinition {
    let group = Autogrow {
        template,
        names,
        min,
    };
    input(name, Socket::Autogrow(Box::new(group)), json!({}))
}

/// A required choice, each word of which has inputs of its own.
#[must_use]
pub fn dynamic_combo(
    name: &str,
    choices: Vec<(&str, Vec<InputDefinition>)>,
    options: Json,
) -> InputDefinition {
    let choices = choices.into_iter().map(|(key, inputs)| DynamicOption {
        key: key.to_owned(),
        inputs,
    });
    input(name, Socket::DynamicCombo(choices.collect()), options)
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

/// As [`metadata`], for classes in the newer spelling.
#[must_use]
pub fn modern_metadata() -> Vec<HiddenInput> {
    let listed = |hidden| HiddenInput {
        in_list: true,
        ..hidden
    };
    metadata().into_iter().map(listed).collect()
}

fn combo(choices: &[&str], listed: bool) -> Socket {
    Socket::Combo {
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        listed,
    }
}

/// An object of options, from the JSON that clients see.
pub(crate) fn options(options: Json) -> Map<String, Json> {
    match options {
        Json::Object(options) => options,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Map::new()
        }
    }
}
