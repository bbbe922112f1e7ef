//! The definitions, field by field against what the recorded server answers.

use crate::goldens;
use engine_native::nodes;
use serde_json::{Map, Value as Json, json};
use workflow_core::{AutogrowNames, InputDefinition, NodeDefinition, Socket};

#[test]
fn every_native_class_is_defined_as_recorded() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    let Json::Object(recorded) = goldens::json(&folder.join("object-info.json")) else {
        panic!("an object of classes")
    };
    let ours: Vec<NodeDefinition> = nodes::all().iter().map(|node| node.definition()).collect();
    let newer = newer();
    for definition in ours.iter().filter(|definition| {
        definition.class != "SaveImageWebsocket" && !newer.contains_key(&definition.class)
    }) {
        let recorded = &recorded[&definition.class];
        assert_eq!(
            object_info(definition),
            normalized(recorded),
            "{}",
            definition.class
        );
    }
    let missing = recorded
        .keys()
        .filter(|class| !ours.iter().any(|ours| &ours.class == *class));
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    assert_eq!(missing, [""; 0], "recorded classes without a node");
}

/// Definitions of classes that the recorded server does not have, as a newer one answers them, without what is only prose.
fn newer() -> Map<String, Json> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let Json::Object(recorded) = goldens::json(&folder.join("definitions.json")) else {
        panic!("an object of classes")
    };
    recorded
}

#[test]
fn newer_classes_are_defined_as_a_newer_server_answers() {
    let newer = newer();
    for (class, recorded) in &newer {
        let node = nodes::all()
            .into_iter()
            .find(|node| &node.definition().class == class);
        let definition = node
            .unwrap_or_else(|| panic!("there is no {class}"))
            .definition();
        assert!(
            definition.fills_defaults,
            "{class}: older graphs lack what came later"
        );
        let Json::Object(mut ours) = object_info(&definition) else {
            panic!("an object")
        };
        // What the recorded server does not tell of this class, or tells in prose.
        for prose in ["description", "output_tooltips"] {
            ours.remove(prose);
        }
        ours.insert("is_input_list".to_owned(), json!(definition.takes_lists));
        let ours: Map<String, Json> = ours
            .into_iter()
            // Nor does the recording have what is null.
            .filter(|(key, value)| {
                recorded.get(key).is_some() || ![json!(false), Json::Null].contains(value)
            })
            .collect();
        assert_eq!(Json::Object(ours), normalized(recorded), "{class}");
    }
}

#[test]
fn the_table_has_each_class_once() {
    let mut classes: Vec<String> = nodes::all()
        .iter()
        .map(|node| node.definition().class)
        .collect();
    assert_eq!(classes.len(), 231);
    classes.sort();
    classes.dedup();
    assert_eq!(classes.len(), 231);
}

/// A definition as the recorded server spells it.
fn object_info(definition: &NodeDefinition) -> Json {
    let definition = definition.shown.as_deref().unwrap_or(definition);
    let inputs = |required: bool| {
        let inputs = definition
            .inputs
            .iter()
            .filter(move |input| input.required == required);
        inputs
            .map(|input| (input.name.clone(), input_info(input)))
            .collect::<Map<_, _>>()
    };
    let hidden = definition.hidden.iter().map(|hidden| match hidden.in_list {
        true => (hidden.name.clone(), json!([hidden.token])),
        false => (hidden.name.clone(), json!(hidden.token)),
    });
    let groups = [
        ("required", inputs(true)),
        ("optional", inputs(false)),
        ("hidden", hidden.collect()),
    ];
    let groups: Vec<_> = groups
        .into_iter()
        .filter(|(_, group)| !group.is_empty())
        .collect();
    let order: Map<String, Json> = groups
        .iter()
        .map(|(name, group)| ((*name).to_owned(), json!(group.keys().collect::<Vec<_>>())))
        .collect();
    let input: Map<String, Json> = groups
        .into_iter()
        .map(|(name, group)| (name.to_owned(), Json::Object(group)))
        .collect();
    let outputs = &definition.outputs;
    let mut info = json!({
        "input": input,
        "input_order": order,
        "output": outputs.iter().map(|output| &output.io_type).collect::<Vec<_>>(),
        "output_is_list": outputs.iter().map(|output| output.is_list).collect::<Vec<_>>(),
        "output_name": outputs.iter().map(|output| &output.name).collect::<Vec<_>>(),
        "name": definition.class,
        "display_name": definition.display_name,
        "description": definition.description,
        "python_module": definition.python_module,
        "category": definition.category,
        "output_node": definition.output_node,
    });
    let fields = info.as_object_mut().unwrap();
    if definition.extra.contains_key("api_node") {
        let tooltips: Vec<_> = outputs.iter().map(|output| &output.tooltip).collect();
        fields.insert("output_tooltips".to_owned(), json!(tooltips));
    }
    fields.extend(definition.extra.clone());
    info
}

fn nested(inputs: &[InputDefinition], required: bool) -> Map<String, Json> {
    let inputs = inputs.iter().filter(|input| input.required == required);
    inputs
        .map(|input| (input.name.clone(), input_info(input)))
        .collect()
}

fn input_info(input: &InputDefinition) -> Json {
    let mut options = input.options.clone();
    let kind = match &input.socket {
        Socket::Combo {
            choices,
            listed: true,
        } => json!(choices),
        Socket::File { listed: true, .. } => json!([]),
        Socket::Combo {
            choices,
            listed: false,
        } => {
            options.insert("multiselect".to_owned(), json!(false));
            options.insert("options".to_owned(), json!(choices));
            json!("COMBO")
        }
        // Newer classes tell the choices of files as all others.
        Socket::File { listed: false, .. }
            if ["audio_upload", "video_upload"]
                .iter()
                .any(|mark| options.contains_key(*mark)) =>
        {
            options.insert("multiselect".to_owned(), json!(false));
            options.insert("options".to_owned(), json!([]));
            json!("COMBO")
        }
        Socket::Widget(io_type) if io_type == "COMBO" => {
            options.insert("multiselect".to_owned(), json!(false));
            json!("COMBO")
        }
        Socket::Autogrow(group) => {
            let required = [group.template.clone()];
            let inputs = json!({"required": nested(&required, true)});
            let template = match &group.names {
                AutogrowNames::Prefix { prefix, max } => {
                    json!({"input": inputs, "prefix": prefix, "min": group.min, "max": max})
                }
                AutogrowNames::Listed(names) => {
                    json!({"input": inputs, "names": names, "min": group.min})
                }
            };
            options.insert("template".to_owned(), template);
            json!(input.socket.io_type())
        }
        Socket::DynamicCombo(choices) => {
            let choices = choices.iter().map(|choice| {
                let mut inputs = json!({"required": nested(&choice.inputs, true)});
                let optional = nested(&choice.inputs, false);
                if !optional.is_empty() {
                    inputs["optional"] = optional.into();
                }
                json!({"key": choice.key, "inputs": inputs})
            });
            options.insert("options".to_owned(), choices.collect());
            json!(input.socket.io_type())
        }
        Socket::Int
        | Socket::Float
        | Socket::String
        | Socket::Boolean
        | Socket::File { .. }
        | Socket::Widget(_)
        | Socket::Link(_)
        | Socket::Open(_) => {
            json!(input.socket.io_type())
        }
    };
    json!([kind, options])
}

/// The recorded spelling, with the empty options that it leaves out in places.
fn normalized(recorded: &Json) -> Json {
    let mut recorded = recorded.clone();
    for group in ["required", "optional"] {
        let Some(inputs) = recorded["input"]
            .get_mut(group)
            .and_then(Json::as_object_mut)
        else {
            continue;
        };
        for input in inputs.values_mut().filter_map(Json::as_array_mut) {
            if input.len() == 1 {
                input.push(json!({}));
            }
        }
    }
    recorded
}
