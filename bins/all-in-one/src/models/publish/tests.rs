//! What a graph becomes: fields, schema and output, and what is refused.

use serde_json::json;
use workflow_server::nodes::of_engine;

use super::*;
use crate::models::definition::InputRef;

/// A picture that is scaled and saved.
fn graph() -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "mine.png"}},
        "2": {
            "class_type": "ImageScale",
            "inputs": {
                "image": ["1", 0], "upscale_method": "lanczos", "width": 640, "height": 0, "crop": "disabled"
            },
            "_meta": {"title": "To its size"}
        },
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "scaled"}}
    })
}

fn body(graph: &Value, inputs: &[(&str, &str)]) -> GraphBody {
    let inputs = inputs.iter();
    GraphBody {
        graph: graph.as_object().expect("an object").clone(),
        inputs: inputs
            .map(|(name, place)| ((*name).to_owned(), (*place).to_owned()))
            .collect(),
        output: None,
        price_cents: 3,
        description: Some("Scales.".to_owned()),
    }
}

fn derived(body: &GraphBody) -> Result<PublishedModel, Vec<String>> {
    let id = "easel/scale".parse().expect("an id");
    derive(&id, body, &of_engine())
}

fn made(body: &GraphBody) -> PublishedModel {
    derived(body).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn names(model: &PublishedModel) -> Vec<&str> {
    let properties = model.schema["properties"].as_object();
    properties
        .expect("it has some")
        .keys()
        .map(String::as_str)
        .collect()
}

fn refused(body: &GraphBody) -> String {
    derived(body).expect_err("it is refused").join("\n")
}

#[test]
fn files_are_fields_and_everything_else_stays_as_it_is_written() {
    let model = made(&body(&graph(), &[]));
    assert_eq!(names(&model), ["image", "inline"]);
    assert_eq!(model.schema["required"], json!(["image"]));
    assert_eq!(model.schema["description"], "Scales.");
    assert_eq!(model.wiring.price_cents, 3);
    assert_eq!(model.wiring.output.node, "3");
    assert_eq!(model.wiring.output.kind, OutputForm::Image);
    let image = &model.wiring.fields["image"];
    let place = InputRef {
        node: "1".to_owned(),
        input: "image".to_owned(),
    };
    assert_eq!((image.picture, &image.into), (true, &vec![place]));
}

#[test]
fn bounds_and_choices_are_those_of_the_nodes_and_defaults_those_of_the_graph() {
    let named = [
        ("width", "2.width"),
        ("method", "To its size.upscale_method"),
        ("photo", "1.image"),
    ];
    let model = made(&body(&graph(), &named));
    assert_eq!(names(&model), ["photo", "method", "width", "inline"]);
    let width = &model.schema["properties"]["width"];
    assert_eq!(width["type"], "integer");
    assert_eq!(
        (&width["minimum"], &width["default"]),
        (&json!(0), &json!(640))
    );
    assert!(
        width["maximum"].as_u64().is_some_and(|most| most >= 8192),
        "{width}"
    );
    let method = &model.schema["properties"]["method"];
    assert_eq!(method["default"], "lanczos");
    assert!(
        method["enum"]
            .as_array()
            .expect("words")
            .contains(&json!("area"))
    );
    assert_eq!(model.schema["required"], json!(["photo"]));
}

#[test]
fn titles_mark_the_inputs_of_nodes() {
    let mut graph = graph();
    graph["1"]["_meta"] = json!({"title": "input: The photo!"});
    graph["2"]["_meta"] = json!({"title": "INPUT: size"});
    let model = made(&body(&graph, &[]));
    assert_eq!(
        names(&model),
        [
            "the_photo",
            "size_upscale_method",
            "size_width",
            "size_height",
            "size_crop",
            "inline"
        ]
    );
    // What the command names is called as it says, and of two names alike the second has a number.
    graph["1"]["_meta"] = json!({"title": "input: size_crop"});
    let model = made(&body(&graph, &[("wide", "2.width")]));
    assert_eq!(
        names(&model),
        [
            "size_crop",
            "size_upscale_method",
            "wide",
            "size_height",
            "size_crop_2",
            "inline"
        ]
    );
}

#[test]
fn what_the_result_does_not_depend_on_is_no_field() {
    let mut graph = graph();
    graph["7"] = json!({
        "class_type": "LoadImage", "inputs": {"image": "other.png"}, "_meta": {"title": "input: other"}
    });
    graph["8"] = json!({"class_type": "PreviewImage", "inputs": {"images": ["7", 0]}});
    let told = refused(&body(&graph, &[]));
    assert!(
        told.contains("name the one that is the result: 3 (SaveImage), 8 (PreviewImage)"),
        "{told}"
    );
    let mut wish = body(&graph, &[]);
    wish.output = Some("3".to_owned());
    assert_eq!(names(&made(&wish)), ["image", "inline"]);
    wish.inputs = [("other".to_owned(), "7.image".to_owned())].into();
    let told = refused(&wish);
    assert!(
        told.contains("the result does not depend on node 7 (LoadImage)"),
        "{told}"
    );
}

#[test]
fn mistakes_are_all_told_with_what_to_do() {
    let named = [
        ("a", "9.width"),
        ("b", "2.wide"),
        ("c", "2.image"),
        ("2d", "2.width"),
        ("inline", "2.width"),
        ("e", "2.height"),
        ("f", "To its size.height"),
    ];
    let told = derived(&body(&graph(), &named)).expect_err("they are wrong");
    assert_eq!(told.len(), 6, "{told:#?}");
    for (told, expected) in [
        (&told[0], "does not begin with a digit"),
        (
            &told[1],
            "the graph has 1 (LoadImage), 2 (ImageScale), 3 (SaveImage)",
        ),
        (
            &told[2],
            "no input `wide`; it has image, upscale_method, width, height, crop",
        ),
        (&told[3], "another node gives its value"),
        (&told[4], "`e` and `f` are both"),
        (&told[5], "is not `inline`"),
    ] {
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_graph_that_could_not_run_is_not_published() {
    let mut unknown = graph();
    unknown["2"]["class_type"] = "Unheard".into();
    assert!(refused(&body(&unknown, &[])).starts_with("node 2"));
    let mut bound = graph();
    bound["2"]["width"] = json!(null);
    bound["2"]["inputs"]["width"] = json!(-5);
    assert!(refused(&body(&bound, &[])).starts_with("node 2, input `width`"));
    let none = json!({"1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}}});
    assert!(refused(&body(&none, &[])).starts_with("no node of the graph makes an output"));
    let page = json!({"nodes": [], "links": [], "last_node_id": 1});
    assert!(refused(&body(&page, &[])).contains("API"));
    let mut large = graph();
    large["2"]["_meta"]["note"] = "x".repeat(MOST_GRAPH_BYTES).into();
    assert!(refused(&body(&large, &[])).contains("more than 1048576 bytes"));
    let mut wish = body(&graph(), &[]);
    wish.output = Some("2".to_owned());
    assert!(refused(&wish).contains("makes no outputs"));
    wish.output = Some("9".to_owned());
    assert!(refused(&wish).contains("is no node of the graph"));
}

#[test]
fn what_was_kept_reads_back() {
    let model = made(&body(&graph(), &[("width", "2.width")]));
    let text = serde_json::to_string(&model).expect("it has keys of text");
    let read: PublishedModel = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(serde_json::to_string(&read).expect("it is the same"), text);
    assert_eq!(read.graph["2"]["inputs"]["width"], 640);
}
