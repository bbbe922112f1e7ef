//! Groups that grow, choices with inputs of their own, and types that match.

use serde_json::json;

use super::super::*;
use crate::{
    Autogrow, AutogrowNames, DynamicOption, InputDefinition, MATCH_TYPE, NodeInput,
    OutputDefinition, Socket,
};

fn input(name: &str, socket: Socket, options: Value) -> InputDefinition {
    InputDefinition {
        name: name.to_owned(),
        socket,
        required: true,
        lazy: false,
        options: options.as_object().cloned().unwrap_or_default(),
    }
}

fn link(name: &str, io_type: &str) -> InputDefinition {
    input(name, Socket::Link(io_type.to_owned()), json!({}))
}

fn class(name: &str, inputs: Vec<InputDefinition>, outputs: &[&str]) -> NodeDefinition {
    let output = |io_type: &&str| OutputDefinition {
        io_type: (*io_type).to_owned(),
        name: (*io_type).to_owned(),
        is_list: false,
        tooltip: None,
    };
    NodeDefinition {
        class: name.to_owned(),
        display_name: None,
        description: String::new(),
        python_module: "nodes".to_owned(),
        category: String::new(),
        inputs,
        hidden: Vec::new(),
        outputs: outputs.iter().map(output).collect(),
        output_node: outputs.is_empty(),
        takes_lists: false,
        not_idempotent: false,
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: serde_json::Map::new(),
        shown: None,
    }
}

fn catalog() -> NodeCatalog {
    let group = Autogrow {
        template: link("image", "IMAGE"),
        names: AutogrowNames::Prefix {
            prefix: "image".to_owned(),
            max: 3,
        },
        min: 1,
    };
    let letters = Autogrow {
        template: link("value", "FLOAT,INT,BOOLEAN"),
        names: AutogrowNames::Listed(vec!["a".to_owned(), "b".to_owned()]),
        min: 0,
    };
    let width = input("width", Socket::Int, json!({"default": 5, "min": 1}));
    let option = |key: &str, inputs| DynamicOption {
        key: key.to_owned(),
        inputs,
    };
    let choice = Socket::DynamicCombo(vec![
        option("by width", vec![width]),
        option("like", vec![link("like", "IMAGE,MASK")]),
    ]);
    let template = json!({"template": {"template_id": "t", "allowed_types": "IMAGE,MASK"}});
    let matched = input("input", Socket::Link(MATCH_TYPE.to_owned()), template);
    NodeCatalog::new([
        class("Picture", Vec::new(), &["IMAGE"]),
        class("Sound", Vec::new(), &["AUDIO"]),
        class(
            "Batch",
            vec![input(
                "images",
                Socket::Autogrow(Box::new(group)),
                json!({}),
            )],
            &[],
        ),
        class(
            "Formula",
            vec![input(
                "values",
                Socket::Autogrow(Box::new(letters)),
                json!({}),
            )],
            &[],
        ),
        NodeDefinition {
            fills_defaults: true,
            ..class(
                "Resize",
                vec![matched, input("type", choice, json!({}))],
                &[MATCH_TYPE],
            )
        },
        class("Show", vec![link("images", "IMAGE")], &[]),
        NodeDefinition {
            accepts_all: true,
            ..class(
                "Open",
                vec![input("box", Socket::Widget("BOX".to_owned()), json!({}))],
                &[],
            )
        },
    ])
}

/// Errors as `node input error_type`.
fn judged(graph: Value) -> (Validation, Vec<String>) {
    let graph = Graph::from_value(graph).expect("it is a graph");
    let validation = validate(&graph, &catalog(), &ResolvedFiles::new(), None);
    let told = validation.errors.iter().flat_map(|(node, errors)| {
        let tell = move |error: &ValidationError| {
            let input = error.input.clone().unwrap_or_default();
            format!("{node} {input} {}", error.kind.error_type())
        };
        errors.errors.iter().map(tell)
    });
    let told = told.collect();
    (validation, told)
}

fn node(class: &str, inputs: Value) -> Value {
    json!({"class_type": class, "inputs": inputs})
}

#[test]
fn a_group_has_the_members_that_are_sent() {
    let inputs = json!({"images.image0": ["1", 0], "images.image2": ["1", 0]});
    let (validation, told) =
        judged(json!({"1": node("Picture", json!({})), "2": node("Batch", inputs)}));
    assert_eq!(told, [""; 0]);
    let graph = validation.graph.expect("it is valid");
    let batch = &graph.nodes["2"];
    let names: Vec<&str> = batch
        .definition
        .inputs
        .iter()
        .map(|input| &*input.name)
        .collect();
    assert_eq!(names, ["images.image0", "images.image2"]);
    assert!(matches!(
        batch.inputs["images.image2"],
        NodeInput::Link { .. }
    ));
}

#[test]
fn the_first_members_of_a_group_must_be_there_and_the_others_not() {
    let (_, told) = judged(json!({"2": node("Batch", json!({}))}));
    assert_eq!(told, ["2 images.image0 required_input_missing"]);
    let (_, told) = judged(json!({"2": node("Formula", json!({}))}));
    assert_eq!(told, [""; 0]);
    // Beyond the group's end nothing is declared, so nothing is looked at.
    let inputs = json!({"values.c": ["nowhere", 0]});
    assert_eq!(judged(json!({"2": node("Formula", inputs)})).1, [""; 0]);
}

#[test]
fn members_are_judged_like_any_input() {
    let inputs = json!({"images.image0": ["1", 0], "images.image1": 5});
    let (_, told) = judged(json!({"1": node("Sound", json!({})), "2": node("Batch", inputs)}));
    let expected = [
        "2 images.image0 return_type_mismatch",
        "2 images.image1 invalid_input_type",
    ];
    assert_eq!(told, expected);
    let inputs = json!({"values.a": 1.5, "values.b": true});
    assert_eq!(judged(json!({"2": node("Formula", inputs)})).1, [""; 0]);
    let inputs = json!({"values.a": "text"});
    let told = judged(json!({"2": node("Formula", inputs)})).1;
    assert_eq!(told, ["2 values.a invalid_input_type"]);
}

fn resized(inputs: Value) -> (Validation, Vec<String>) {
    judged(json!({
        "1": node("Picture", json!({})),
        "2": node("Resize", inputs),
        "3": node("Show", json!({"images": ["2", 0]})),
    }))
}

#[test]
fn a_choice_brings_its_own_inputs() {
    let (validation, told) =
        resized(json!({"input": ["1", 0], "type": "by width", "type.width": 7}));
    assert_eq!(told, [""; 0]);
    let graph = validation.graph.expect("it is valid");
    let resize = &graph.nodes["2"];
    assert_eq!(resize.inputs["type.width"], NodeInput::Constant(json!(7)));
    let (_, told) = resized(json!({"input": ["1", 0], "type": "by width", "type.width": 0}));
    assert_eq!(told, ["2 type.width value_smaller_than_min"]);
    let (_, told) = resized(json!({"input": ["1", 0], "type": "like"}));
    assert_eq!(told, ["2 type.like required_input_missing"]);
    let (validation, told) = resized(json!({"input": ["1", 0], "type": "neither"}));
    assert_eq!(told, ["2 type value_not_in_list"]);
    let error = &validation.errors["2"].errors[0];
    assert!(
        error.reason().contains("by width, like"),
        "{}",
        error.reason()
    );
}

#[test]
fn what_came_after_a_graph_takes_its_default_where_the_class_says_so() {
    let (validation, told) = resized(json!({"input": ["1", 0], "type": "by width"}));
    assert_eq!(told, [""; 0]);
    let graph = validation.graph.expect("it is valid");
    assert_eq!(
        graph.nodes["2"].inputs["type.width"],
        NodeInput::Constant(json!(5))
    );
}

#[test]
fn a_matched_input_takes_the_types_of_its_template() {
    let graph = |source: &str| {
        judged(json!({
            "1": node(source, json!({})),
            "2": node("Resize", json!({"input": ["1", 0], "type": "by width"})),
            "3": node("Show", json!({"images": ["2", 0]})),
        }))
    };
    assert_eq!(graph("Picture").1, [""; 0]);
    assert_eq!(graph("Sound").1, ["2 input return_type_mismatch"]);
}

#[test]
fn an_open_class_gets_what_it_does_not_declare() {
    let inputs = json!({"box": {"x": 1}, "more": "text", "linked": ["1", 0]});
    let (validation, told) =
        judged(json!({"1": node("Picture", json!({})), "2": node("Open", inputs)}));
    assert_eq!(told, [""; 0]);
    let graph = validation.graph.expect("it is valid");
    let open = &graph.nodes["2"];
    assert_eq!(open.inputs["box"], NodeInput::Constant(json!({"x": 1})));
    assert!(matches!(open.inputs["linked"], NodeInput::Link { .. }));
    assert!(open.definition.input("more").is_some());
}
