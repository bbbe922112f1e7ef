//! The definitions, field by field against what the recorded server answers.

use crate::goldens;
use engine_native::nodes;
use serde_json::{Map, Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition, Socket};

/// Recorded classes that need more than this engine has.
const NOT_NATIVE: [&str; 6] = [
    "CreateVideo",
    "GetVideoComponents",
    "LoadVideo",
    "SaveVideo",
    "WebcamCapture",
    "EmptyLatentImage",
];

#[test]
fn every_native_class_is_defined_as_recorded() {
    let Some(folder) = goldens::folder() else {
        return;
    };
    let Json::Object(recorded) = goldens::json(&folder.join("object-info.json")) else {
        panic!("an object of classes")
    };
    let ours: Vec<NodeDefinition> = nodes::all().iter().map(|node| node.definition()).collect();
    for definition in ours
        .iter()
        .filter(|definition| definition.class != "SaveImageWebsocket")
    {
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
    let missing: Vec<&str> = missing
        .map(String::as_str)
        .filter(|class| !NOT_NATIVE.contains(class))
        .collect();
    assert_eq!(missing, [""; 0], "recorded classes without a node");
}

#[test]
fn the_table_has_each_class_once() {
    let mut classes: Vec<String> = nodes::all()
        .iter()
        .map(|node| node.definition().class)
        .collect();
    assert_eq!(classes.len(), 67);
    classes.sort();
    classes.dedup();
    assert_eq!(classes.len(), 67);
}

/// A definition as the recorded server spells it.
fn object_info(definition: &NodeDefinition) -> Json {
    let inputs = |required: bool| {
        let inputs = definition
            .inputs
            .iter()
            .filter(move |input| input.required == required);
        inputs
            .map(|input| (input.name.clone(), input_info(input)))
            .collect::<Map<_, _>>()
    };
    let hidden = definition
        .hidden
        .iter()
        .map(|hidden| (hidden.name.clone(), json!(hidden.token)));
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
        Socket::Int
        | Socket::Float
        | Socket::String
        | Socket::Boolean
        | Socket::File { .. }
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
