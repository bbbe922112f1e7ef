//! The validator by its rules; graphs are as small as the rule allows.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "a case reads better as `check(json!(...))`"
)]

mod dynamic;
mod goldens;
mod links;
mod object_info;
mod scale;
mod values;
mod wild;

use asset_store::{AssetId, BlobHash};
use serde_json::json;

use super::*;
use crate::{NodeInput, ResolvedFile};

/// A few classes with every kind of socket.
fn catalog() -> NodeCatalog {
    object_info::catalog(&json!({
        "Make": {"output": ["IMAGE", "MASK"], "input": {"optional": {"size": ["INT", {"min": 1, "max": 64}]}}},
        "Load": {"output": ["IMAGE"], "input": {"required": {"image": [["old.png"], {"image_upload": true}]}}},
        "Change": {"output": ["IMAGE"], "input": {
            "required": {"image": ["IMAGE"]},
            "optional": {"amount": ["FLOAT", {"min": 0.0, "max": 1.0}], "mask": ["MASK"]},
        }},
        "Join": {"output": ["IMAGE"], "input": {"required": {"a": ["IMAGE"], "b": ["IMAGE"]}}},
        "Values": {"output": [], "output_node": true, "input": {"optional": {
            "int": ["INT"], "float": ["FLOAT"], "text": ["STRING"], "truth": ["BOOLEAN"],
            "old": [["a", "b"]], "new": ["COMBO", {"options": ["a", "b", "8"]}],
            "many": ["COMBO", {"options": ["a", "b"], "multiselect": true}],
            "any": ["*"], "either": ["IMAGE,MASK"], "scene": ["LOAD_3D"],
        }}},
        "Words": {"output": ["STRING", "*", "COMBO", "LATENT, MASK"], "input": {}},
        "Save": {"output": [], "output_node": true, "input": {
            "required": {"images": ["IMAGE"]}, "optional": {"prefix": ["STRING"]},
        }},
    }))
}

fn file(name: &str) -> ResolvedFile {
    ResolvedFile {
        asset: AssetId(uuid::Uuid::nil()),
        hash: BlobHash::of(name.as_bytes()),
        size_bytes: 1,
        name: name.to_owned(),
    }
}

fn files_named(names: &[&str]) -> ResolvedFiles {
    names
        .iter()
        .map(|name| ((*name).to_owned(), file(name)))
        .collect()
}

fn graph(value: Value) -> Graph {
    Graph::from_value(value).unwrap()
}

fn check(value: Value) -> Validation {
    validate(&graph(value), &catalog(), &ResolvedFiles::new(), None)
}

/// Errors as `node.input type`.
fn told(validation: &Validation) -> Vec<String> {
    let errors = validation
        .errors
        .iter()
        .flat_map(|(node, found)| found.errors.iter().map(move |error| (node, error)));
    errors
        .map(|(node, error)| match &error.input {
            Some(input) => format!("{node}.{input} {}", error.kind.error_type()),
            None => format!("{node} {}", error.kind.error_type()),
        })
        .collect()
}

fn ids(ids: &[NodeId]) -> Vec<&str> {
    ids.iter().map(NodeId::as_str).collect()
}

/// The only error.
fn sole_error(validation: &Validation) -> &ValidationError {
    let errors: Vec<_> = validation
        .errors
        .values()
        .flat_map(|node| &node.errors)
        .collect();
    let [error] = errors[..] else {
        panic!("one error, not {errors:?}")
    };
    error
}

#[test]
fn every_error_is_collected_and_nothing_aborts() {
    let validation = check(json!({
        "1": {"class_type": "Make", "inputs": {"size": 65}},
        "2": {"class_type": "Gone", "inputs": {}},
        "3": {"class_type": "Join", "inputs": {"a": ["1", 0], "b": ["2", 0]}},
        "4": {"class_type": "Change", "inputs": {"image": ["1", 0], "amount": "much", "mask": ["1", 0]}},
        "5": {"class_type": "Save", "inputs": {"images": ["3", 0]}},
        "6": {"class_type": "Save", "inputs": {"images": ["4", 0]}},
        "7": {"class_type": "Save", "inputs": {}},
        "8": {"inputs": {}},
    }));
    assert_eq!(
        told(&validation),
        [
            "1.size value_bigger_than_max",
            "2 missing_node_type",
            "4.amount invalid_input_type",
            "4.mask return_type_mismatch",
            "7.images required_input_missing",
            "8 missing_node_type",
        ]
    );
    let dependents = |node: &str| ids(&validation.errors[node].dependent_outputs);
    assert_eq!(dependents("1"), ["5", "6"]);
    assert_eq!(dependents("2"), ["5"]);
    assert_eq!(dependents("4"), ["6"]);
    assert_eq!(dependents("7"), ["7"]);
    assert!(dependents("8").is_empty());
    assert_eq!(ids(&validation.invalid_outputs), ["5", "6", "7"]);
    assert!(validation.graph.is_none());
}

#[test]
fn a_class_that_only_drained_workers_have_is_told_from_an_unknown_one() {
    let drained = ["Gone".to_owned(), "Make".to_owned()];
    let catalog = catalog().with_drained(drained);
    let errors = |class: &str| {
        let one = graph(json!({"1": {"class_type": class, "inputs": {"size": 1}}}));
        let found = validate(&one, &catalog, &ResolvedFiles::new(), None);
        let errors = found.errors.into_values().flat_map(|node| node.errors);
        errors.collect::<Vec<_>>()
    };
    let texts = |class: &str| {
        let found = errors(class);
        let [error] = &found[..] else {
            panic!("one error, not {found:?}")
        };
        assert_eq!(error.kind.error_type(), "missing_node_type");
        (error.message(), error.reason())
    };
    let (message, reason) = texts("Gone");
    assert!(
        message.ends_with("those that have it are drained."),
        "{message}"
    );
    assert!(reason.contains("'Gone' are drained"), "{reason}");
    let (message, reason) = texts("Lost");
    assert!(!message.contains("drained") && !reason.contains("drained"));
    assert!(errors("Make").is_empty(), "another worker has it as well");
}

#[test]
fn what_an_unknown_class_reads_is_judged_for_its_outputs() {
    let validation = check(json!({
        "1": {"class_type": "Make", "inputs": {"size": 65}},
        "2": {"class_type": "Gone", "inputs": {"x": ["1", 0]}},
        "3": {"class_type": "Lost", "inputs": {"y": ["2", 0], "z": "text"}},
        "4": {"class_type": "Save", "inputs": {"images": ["3", 0]}},
        "5": {"class_type": "Save", "inputs": {"images": ["2", 0]}},
    }));
    let expected = [
        "1.size value_bigger_than_max",
        "2 missing_node_type",
        "3 missing_node_type",
    ];
    assert_eq!(told(&validation), expected);
    let dependents = |node: &str| ids(&validation.errors[node].dependent_outputs);
    assert_eq!(dependents("1"), ["4", "5"]);
    assert_eq!(dependents("2"), ["4", "5"]);
    assert_eq!(dependents("3"), ["4"]);
}

#[test]
fn valid_outputs_run_with_what_they_need_and_no_more() {
    let validation = check(json!({
        "save": {"class_type": "Save", "inputs": {"images": ["change", 0]}},
        "unused": {"class_type": "Make", "inputs": {"size": "wrong"}},
        "bad": {"class_type": "Save", "inputs": {"images": "text"}},
        "make": {"class_type": "Make", "inputs": {}},
        "change": {"class_type": "Change", "inputs": {"image": ["make", 0]}},
    }));
    assert_eq!(told(&validation), ["bad.images invalid_input_type"]);
    assert_eq!(ids(&validation.invalid_outputs), ["bad"]);
    let valid = validation.graph.unwrap();
    assert_eq!(ids(&valid.outputs), ["save"]);
    let nodes: Vec<&str> = valid.nodes.keys().map(NodeId::as_str).collect();
    assert_eq!(nodes, ["save", "make", "change"]);
    assert_eq!(valid.prompt.len(), 5, "pictures show the whole graph");
}

#[test]
fn absent_optional_inputs_stay_absent() {
    let validation = check(json!({"1": {"class_type": "Values", "inputs": {}}}));
    assert!(validation.graph.unwrap().nodes["1"].inputs.is_empty());
}

#[test]
fn targets_narrow_the_outputs() {
    let two = json!({
        "1": {"class_type": "Make", "inputs": {}},
        "2": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
        "3": {"class_type": "Save", "inputs": {}},
    });
    let with = |targets: &[&str]| {
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        validate(
            &graph(two.clone()),
            &catalog(),
            &ResolvedFiles::new(),
            Some(&targets),
        )
    };
    let validation = with(&["2", "1", "nowhere"]);
    assert!(validation.errors.is_empty() && validation.invalid_outputs.is_empty());
    assert_eq!(ids(&validation.graph.unwrap().outputs), ["2"]);
    let validation = with(&["3"]);
    assert_eq!(told(&validation), ["3.images required_input_missing"]);
    assert!(validation.graph.is_none());
    let validation = with(&[]);
    assert!(
        validation.graph.is_none()
            && validation.errors.is_empty()
            && validation.invalid_outputs.is_empty()
    );
}

#[test]
fn a_node_without_a_known_class_is_told_wherever_it_is() {
    let validation = check(json!({
        "1": {"class_type": "Gone", "inputs": {}, "_meta": {"title": "Upscale"}},
        "2": {"class_type": "Gone"},
        "3": {"class_type": 7, "_meta": {"title": "Odd"}},
        "4": "text",
        "5": {"class_type": "Values"},
    }));
    let words: Vec<String> = validation
        .errors
        .values()
        .map(|node| node.errors[0].message())
        .collect();
    assert_eq!(
        words,
        [
            "Node 'Upscale' not found. The custom node may not be installed.",
            "Node 'Gone' not found. The custom node may not be installed.",
            "Node 'Odd' has no class_type. The workflow may be corrupted or a custom node is missing.",
            "Node 'ID #4' has no class_type. The workflow may be corrupted or a custom node is missing.",
        ]
    );
    assert_eq!(validation.errors["2"].errors[0].details(), "Node ID '#2'");
    assert_eq!(
        validation.errors["2"].errors[0].reason(),
        "the node class 'Gone' is not available here; check its spelling or use one that `nodes list` and /api/object_info show"
    );
    assert_eq!(validation.errors["2"].class_type.as_deref(), Some("Gone"));
    assert!(validation.graph.is_some());
}

#[test]
fn undeclared_inputs_tell_nodes_apart_and_do_nothing_else() {
    let undeclared = json!({"zeta": ["9", 0], "image": ["1", 0], "note": {"__value__": 1}});
    let validation = check(json!({
        "1": {"class_type": "Make", "inputs": {}},
        "2": {"class_type": "Change", "inputs": undeclared.clone()},
        "3": {"class_type": "Save", "inputs": {"images": ["2", 0]}},
    }));
    assert!(validation.errors.is_empty());
    let inputs = &validation.graph.unwrap().nodes["2"].inputs;
    let fields: Vec<&String> = inputs.keys().collect();
    assert_eq!(
        fields,
        ["image", "zeta", "note"],
        "declared ones come first"
    );
    assert_eq!(
        inputs["zeta"],
        NodeInput::Constant(undeclared["zeta"].clone())
    );
    assert_eq!(
        inputs["note"],
        NodeInput::Constant(undeclared["note"].clone())
    );
}

#[test]
fn the_prompt_shows_what_was_sent_with_constants_converted() {
    let reference = json!({"__type": "core/ASSET", "info": {"id": "id-1"}});
    let files = ResolvedFiles::from([("id-1".to_owned(), file("cat.png"))]);
    let sent = graph(json!({
        "b": {"_meta": {"title": "T", "other": 1}, "class_type": "Load", "inputs": {"image": reference}, "odd": 1},
        "a": {"inputs": {"prefix": 5, "images": ["b", 0], "extra": "7"}, "class_type": "Save", "_meta": {}},
        "c": {"class_type": "Make", "inputs": {"size": "7"}},
        "d": {"class_type": "Values", "inputs": {"int": "7", "any": {"__value__": [1]}, "old": "a"}},
    }));
    let prompt = validate(&sent, &catalog(), &files, None)
        .graph
        .unwrap()
        .prompt;
    let expected = json!({
        "b": {"_meta": {"title": "T", "other": 1}, "class_type": "Load", "inputs": {"image": "cat.png"}, "odd": 1},
        "a": {"inputs": {"prefix": "5", "images": ["b", 0], "extra": "7"}, "class_type": "Save", "_meta": {}},
        "c": {"class_type": "Make", "inputs": {"size": "7"}},
        "d": {"class_type": "Values", "inputs": {"int": 7, "any": [1], "old": "a"}},
    });
    assert_eq!(
        Value::Object((*prompt).clone()).to_string(),
        expected.to_string()
    );
}
