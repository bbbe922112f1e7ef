//! What a real server said of the same graphs: every recorded refusal, and the graph it wrote into its pictures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::object_info::catalog;
use super::{file, files_named};
use crate::{Graph, GraphError, NodeCatalog, ResolvedFiles, Validation, validate};

/// An error as it is compared: node, type and the input, where the recording names one.
type Told = (String, String, Option<String>);

fn goldens() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens");
    folder.is_dir().then_some(folder)
}

/// Runs a test on the recordings, or says that there are none.
#[expect(
    clippy::print_stderr,
    reason = "a test that looks at nothing must say so"
)]
fn with_goldens(test: impl FnOnce(&Path, &NodeCatalog)) {
    match goldens() {
        Some(folder) => test(&folder, &catalog(&read(&folder.join("object-info.json")))),
        None => eprintln!("skipped: no recordings at ../shared/goldens of the repository"),
    }
}

fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).expect("recordings are readable");
    serde_json::from_slice(&bytes).expect("recordings are JSON")
}

fn folders(path: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(path).expect("recordings are readable");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect()
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("recordings have names")
}

/// What the recording says, its types as they are called now.
fn recorded(case: &str, response: &Value) -> BTreeSet<Told> {
    let told = |node: &str, error_type: &str, input: Option<&str>| {
        (
            node.to_owned(),
            error_type.to_owned(),
            input.map(str::to_owned),
        )
    };
    match case {
        // The recorded server gave up on these two, and ran into the third.
        "cycle" => {
            return ["1", "2"]
                .map(|node| told(node, "dependency_cycle", None))
                .into();
        }
        "image_literal_instead_of_link" => {
            return [told("1", "invalid_input_type", Some("images"))].into();
        }
        _ => {}
    }
    let error = &response["body"]["error"];
    if error["type"] == "invalid_prompt" {
        let details = error["details"].as_str().expect("names the node");
        let node = details
            .trim_start_matches("Node ID '#")
            .trim_end_matches('\'');
        return [told(node, "missing_node_type", None)].into();
    }
    let nodes = response["body"]["node_errors"]
        .as_object()
        .expect("errors by node");
    let errors = nodes.iter().flat_map(|(node, found)| {
        let errors = found["errors"].as_array().expect("errors");
        errors.iter().map(move |error| (node, error))
    });
    errors
        .map(|(node, error)| {
            told(
                node,
                error["type"].as_str().expect("a type"),
                error["extra_info"]["input_name"].as_str(),
            )
        })
        .collect()
}

fn found(validation: &Validation) -> BTreeSet<Told> {
    let errors = validation
        .errors
        .iter()
        .flat_map(|(node, found)| found.errors.iter().map(move |error| (node, error)));
    errors
        .map(|(node, error)| {
            let error_type = error.kind.error_type();
            // The recorded server names no input when it ran into an exception.
            let input = error
                .input
                .clone()
                .filter(|_| error_type != "exception_during_validation");
            (node.to_string(), error_type.to_owned(), input)
        })
        .collect()
}

#[test]
fn recorded_refusals_come_out_the_same() {
    with_goldens(|folder, catalog| {
        let mut compared = 0;
        for case in folders(&folder.join("invalid")) {
            let workflow = case.join("workflow.json");
            if !workflow.exists() {
                continue;
            }
            let response = read(&case.join("response.json"));
            let graph = match Graph::from_value(read(&workflow)) {
                Ok(graph) => graph,
                Err(error) => {
                    assert_eq!((name(&case), error), ("empty_prompt", GraphError::Empty));
                    continue;
                }
            };
            let validation = validate(&graph, catalog, &files_named(&["gold_photo.png"]), None);
            assert_eq!(
                found(&validation),
                recorded(name(&case), &response),
                "{}",
                name(&case)
            );
            let runs = response["status"] == 200 && name(&case) != "image_literal_instead_of_link";
            assert_eq!(validation.graph.is_some(), runs, "{}", name(&case));
            compare_words(&validation, &response);
            compared += 1;
        }
        assert!(compared > 0, "there are recorded refusals");
    });
}

/// Texts, values and dependents, wherever the recording has them and no traceback of Python's.
fn compare_words(validation: &Validation, response: &Value) {
    let nodes = response["body"]["node_errors"]
        .as_object()
        .expect("errors by node");
    for (node, recorded) in nodes {
        let found = &validation.errors[node.as_str()];
        let dependents: Vec<String> = found
            .dependent_outputs
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(json!(dependents), recorded["dependent_outputs"]);
        assert_eq!(json!(found.class_type), recorded["class_type"]);
        for (found, recorded) in found
            .errors
            .iter()
            .zip(recorded["errors"].as_array().expect("errors"))
        {
            assert_eq!(json!(found.message()), recorded["message"]);
            assert_eq!(json!(found.details()), recorded["details"]);
            if let Some(received) = recorded["extra_info"].get("received_value") {
                assert_eq!(found.received.as_ref(), Some(received));
            }
        }
    }
}

#[test]
fn recorded_bodies_that_are_no_graph_are_none() {
    with_goldens(|folder, _| {
        let refusal = |case: &str| {
            let mut body = read(&folder.join("invalid").join(case).join("request.bin"));
            Graph::from_value(body["prompt"].take()).expect_err("no graph")
        };
        assert_eq!(refusal("raw_ui_format"), GraphError::UiFormat);
        assert_eq!(refusal("raw_prompt_not_object"), GraphError::NotAnObject);
    });
}

#[test]
fn recorded_workflows_are_valid_and_look_as_in_their_pictures() {
    with_goldens(|folder, catalog| {
        let (mut workflows, mut pictures) = (0, 0);
        for case in folders(folder)
            .iter()
            .filter(|case| case.join("workflow.json").exists())
        {
            let entries = std::fs::read_dir(case).expect("recordings are readable");
            let entries: Vec<PathBuf> = entries
                .map(|entry| entry.expect("an entry").path())
                .collect();
            let files: ResolvedFiles = entries
                .iter()
                .map(|path| (name(path).to_owned(), file(name(path))))
                .collect();
            let graph = Graph::from_value(read(&case.join("workflow.json"))).expect("a graph");
            let validation = validate(&graph, catalog, &files, None);
            assert!(
                validation.errors.is_empty(),
                "{}: {:?}",
                name(case),
                validation.errors
            );
            let valid = validation.graph.expect("outputs");
            workflows += 1;
            for picture in entries
                .iter()
                .filter(|path| name(path).starts_with("out_") && name(path).ends_with(".png"))
            {
                if let Some(recorded) = prompt_of(picture) {
                    assert_eq!(
                        Value::Object((*valid.prompt).clone()).to_string(),
                        recorded.to_string()
                    );
                    pictures += 1;
                }
            }
        }
        assert!(
            workflows > 0 && pictures > 0,
            "there are recorded workflows and pictures"
        );
    });
}

/// The `prompt` text of a PNG file, without what the engine adds to it while it runs.
fn prompt_of(path: &Path) -> Option<Value> {
    let bytes = std::fs::read(path).expect("recordings are readable");
    let mut rest = bytes.get(8..)?;
    while let Some((head, tail)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (data, next) = tail.split_at_checked(length)?;
        if &head[4..] == b"tEXt" && data.starts_with(b"prompt\0") {
            let mut prompt: Value = serde_json::from_slice(&data[7..]).expect("the prompt is JSON");
            for node in prompt.as_object_mut()?.values_mut() {
                node.as_object_mut()?.shift_remove("is_changed");
            }
            return Some(prompt);
        }
        rest = next.get(4..)?;
    }
    None
}
