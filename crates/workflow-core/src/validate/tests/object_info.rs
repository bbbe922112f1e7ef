//! Reads definitions as clients see them, so that tests can state theirs in a few words.

use serde_json::{Map, Value};

use crate::{FileSource, InputDefinition, NodeCatalog, NodeDefinition, OutputDefinition, Socket};

/// A catalog of `{"Class": {"input": {...}, "output": [...], "output_node": bool}}`.
pub(super) fn catalog(definitions: &Value) -> NodeCatalog {
    let definitions = definitions.as_object().expect("an object of classes");
    NodeCatalog::new(
        definitions
            .iter()
            .map(|(class, info)| definition(class, info)),
    )
}

fn definition(class: &str, info: &Value) -> NodeDefinition {
    let section = |name: &str, required: bool| {
        let fields = info["input"][name].as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .map(move |(name, spec)| input(name, &spec, required))
    };
    let outputs = info["output"].as_array().cloned().unwrap_or_default();
    NodeDefinition {
        class: class.to_owned(),
        display_name: None,
        description: String::new(),
        python_module: "nodes".to_owned(),
        category: String::new(),
        inputs: section("required", true)
            .chain(section("optional", false))
            .collect(),
        hidden: Vec::new(),
        outputs: outputs.iter().map(output).collect(),
        output_node: info["output_node"] == true,
        takes_lists: false,
        not_idempotent: false,
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
    }
}

fn output(io_type: &Value) -> OutputDefinition {
    let io_type = io_type
        .as_str()
        .expect("the types of the core nodes are texts")
        .to_owned();
    OutputDefinition {
        name: io_type.clone(),
        io_type,
        is_list: false,
        tooltip: None,
    }
}

fn input(name: String, spec: &Value, required: bool) -> InputDefinition {
    let options = spec[1].as_object().cloned().unwrap_or_default();
    InputDefinition {
        name,
        socket: socket(&spec[0], &options),
        required,
        lazy: false,
        options,
    }
}

fn socket(io_type: &Value, options: &Map<String, Value>) -> Socket {
    let words = |list: &Value| -> Vec<String> {
        let words = list.as_array().into_iter().flatten();
        words
            .map(|word| word.as_str().expect("a word").to_owned())
            .collect()
    };
    let listed = io_type.is_array();
    match io_type.as_str() {
        None | Some("COMBO")
            if ["image_upload", "video_upload"]
                .iter()
                .any(|mark| options.contains_key(*mark)) =>
        {
            let source = FileSource::Input;
            Socket::File { source, listed }
        }
        None => Socket::Combo {
            choices: words(io_type),
            listed,
        },
        Some("COMBO") => Socket::Combo {
            choices: words(&options["options"]),
            listed,
        },
        Some("INT") => Socket::Int,
        Some("FLOAT") => Socket::Float,
        Some("STRING") => Socket::String,
        Some("BOOLEAN") => Socket::Boolean,
        Some("LOAD_3D") => Socket::Open("LOAD_3D".to_owned()),
        Some(io_type) => Socket::Link(io_type.to_owned()),
    }
}
