//! Merged definitions: whose menu entry, version and file choice stands.

use serde_json::json;
use workflow_core::{FileSource, Graph, ResolvedFiles, Socket, validate};

use super::*;

fn loader(files: &[&str]) -> Value {
    json!({
        "CheckpointLoaderSimple": {
            "input": {"required": {"ckpt_name": [files, {"tooltip": "The model."}]}},
            "output": ["MODEL", "CLIP", "VAE"], "output_is_list": [false, false, false],
            "output_name": ["MODEL", "CLIP", "VAE"], "name": "CheckpointLoaderSimple",
            "display_name": "Load Checkpoint", "category": "loaders", "output_node": false
        },
        "LoadImage": {
            "input": {"required": {"image": [["someone-elses.png"], {"image_upload": true}]}},
            "output": ["IMAGE", "MASK"], "name": "LoadImage"
        },
        "Save": {
            "input": {"required": {"x": ["*", {}], "width": ["INT", {"max": 1}], "parts": ["COMFY_AUTOGROW_V3", {}]}},
            "output": [], "name": "Save", "output_node": true
        }
    })
}

fn worker(version: &str, files: &[&str]) -> Arc<Definitions> {
    Arc::new(Definitions::read(version, loader(files)).expect("definitions"))
}

#[test]
fn a_file_of_a_worker_is_offered_to_nobody_and_an_upload_is_a_file() {
    let merged = Merged::of(&[worker("0.3.64", &[])], &[]);
    let class = merged.catalog.get("LoadImage").expect("a class");
    assert_eq!(
        class.input("image").map(|input| &input.socket),
        Some(&Socket::File {
            source: FileSource::Input,
            listed: true
        })
    );
    assert_eq!(class.extra["input"]["required"]["image"][0], json!([]));
}

#[test]
fn menus_offer_what_any_worker_has_and_the_newest_definition_stands() {
    let merged = Merged::of(
        &[worker("0.3.9", &["b.ckpt"]), worker("0.3.64", &["a.ckpt"])],
        &[],
    );
    let class = merged
        .catalog
        .get("CheckpointLoaderSimple")
        .expect("a class");
    assert_eq!(
        class.extra["input"]["required"]["ckpt_name"],
        json!([["a.ckpt", "b.ckpt"], {"tooltip": "The model."}])
    );
}

#[test]
fn what_is_linked_into_a_group_of_inputs_is_part_of_the_graph() {
    let merged = Merged::of(&[worker("1", &["a.ckpt"])], &[]);
    let graph = json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.ckpt"}},
        "2": {"class_type": "Save", "inputs": {"x": 1, "width": 1, "parts.a": ["1", 0]}}
    });
    let graph = Graph::from_value(graph).expect("a graph");
    let validation = validate(&graph, &merged.catalog, &ResolvedFiles::new(), None);
    assert!(validation.errors.is_empty(), "{:?}", validation.errors);
    let valid = validation.graph.expect("a valid graph");
    assert_eq!(valid.nodes.len(), 2, "{:?}", valid.nodes.keys());
}

#[test]
fn ranges_are_left_to_the_worker_and_model_files_say_where_a_graph_runs() {
    let workers = [worker("1", &["a.ckpt"]), worker("1", &["b.ckpt"])];
    let merged = Merged::of(&workers, &[]);
    let graph = json!({
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "b.ckpt"}},
        "2": {"class_type": "Save", "inputs": {"x": ["1", 0], "width": 5.5, "parts.a": ["1", 1]}}
    });
    let graph = Graph::from_value(graph).expect("a graph");
    let validation = validate(&graph, &merged.catalog, &ResolvedFiles::new(), None);
    assert!(validation.errors.is_empty(), "{:?}", validation.errors);
    let valid = validation.graph.expect("a valid graph");
    assert_eq!(valid.prompt["2"]["inputs"]["width"], json!(5.5));
    let needs = Requirements {
        classes: ["Save".to_owned(), "Other".to_owned()].into(),
        files: merged.model_files(&valid),
        ..Requirements::of_engine("comfyui")
    };
    assert_eq!(needs.files.len(), 1);
    assert_eq!(
        in_words(&workers[0].lacks(&needs)),
        "class Other; file b.ckpt"
    );
    assert_eq!(in_words(&workers[1].lacks(&needs)), "class Other");
}

#[test]
fn versions_compare_by_number() {
    assert!(version_number("0.10.0") > version_number("0.3.64"));
    assert!(version_number("v0.3.64") > version_number("0.3.9"));
    assert_eq!(Definitions::read("", json!([])).err(), Some(NotDefinitions));
}
