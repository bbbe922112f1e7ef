//! Pictures in layers and in other colour spaces: the recorded cases, and what the page's editor is shown.

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::goldens;
use crate::latest::{every_case_is_equal, made, same, shown};

#[tokio::test]
async fn colour_spaces_are_those_of_the_real_one() {
    every_case_is_equal("spaces.json", 17).await;
}

/// The nodes of a case: what makes its pictures, its layers, boxes on top of them, and what lays them together.
fn graph(case: &Json) -> Json {
    let mut nodes = Map::new();
    let mut last: Option<String> = None;
    let mut add = |class: &str, of: &Json| {
        let id = format!("{class} {}", nodes.len());
        let mut inputs = Map::new();
        for (name, value) in of.as_object().unwrap() {
            let is_made = value
                .as_object()
                .is_some_and(|value| value.keys().any(|key| key.starts_with('$')));
            if is_made || name == "bboxes" {
                let from = format!("{id} {name}");
                let node = json!({"class_type": "Made", "inputs": {"of": {"__value__": value}}});
                nodes.insert(from.clone(), node);
                inputs.insert(name.clone(), json!([from, 0]));
            } else {
                inputs.insert(name.clone(), value.clone());
            }
        }
        if let Some(last) = &last {
            inputs.insert("layers".to_owned(), json!([last, 0]));
        }
        nodes.insert(id.clone(), json!({"class_type": class, "inputs": inputs}));
        last = Some(id);
    };
    for layer in case["layers"].as_array().into_iter().flatten() {
        add("AddLayer", layer);
    }
    if case["boxes"].is_object() {
        add("LayersFromBoundingBoxes", &case["boxes"]);
    }
    let compositor = match case.get("compositor") {
        None => json!({"__value__": {}}),
        Some(Json::String(text)) => json!(text),
        Some(state) => json!({"__value__": state}),
    };
    let inputs = json!({"layers": [last.unwrap(), 0], "compositor": compositor});
    nodes.insert(
        "made".to_owned(),
        json!({"class_type": "ImageCompositor", "inputs": inputs}),
    );
    for slot in 0..2 {
        let inputs = json!({"value": ["made", slot]});
        nodes.insert(
            format!("out {slot}"),
            json!({"class_type": "Shown", "inputs": inputs}),
        );
    }
    Json::Object(nodes)
}

#[tokio::test]
async fn layers_are_laid_together_as_by_the_real_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&folder.join("layers.json"));
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 80, "the set is whole");
    let bench = Bench::with(CONFIG, vec![made(), shown()]);
    let mut wrong = Vec::new();
    for case in cases {
        let told = bench.run(&graph(case)).await;
        let Some(outputs) = case.get("outputs") else {
            assert!(told.result.is_err(), "{case}");
            continue;
        };
        let ui = |node: &str| -> Json {
            let prefix = format!("executed {node} ");
            let line = told
                .events
                .iter()
                .find_map(|line| line.strip_prefix(&prefix));
            line.map_or(Json::Null, |line| serde_json::from_str(line).unwrap())
        };
        let found = json!([ui("out 0")["told"][0][0], ui("out 1")["told"][0][0]]);
        let editor = ui("made");
        let is_told = editor["compositor_inputs"] == case["inputs"]
            && same(&editor["compositor_bboxes"], &case["bboxes"])
            && editor["compositor_state_stale"]
                == if case["stale"] == true {
                    json!([true])
                } else {
                    Json::Null
                };
        if !is_told || !same(&found, outputs) {
            wrong.push(format!(
                "{case}\n  gave {found} {editor} {:?}",
                told.result.err()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn the_page_is_shown_every_layer_and_the_whole() {
    let image = json!({"$image": [2, 3, 4, 4, 1]});
    let told = Bench::with(CONFIG, vec![made(), shown()])
        .run(&graph(
            &json!({"layers": [{"image": image, "name": "two"}]}),
        ))
        .await
        .expect_success();
    let line = told
        .events
        .iter()
        .find_map(|line| line.strip_prefix("executed made "));
    let ui: Json = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(
        ui["compositor_layers"].as_array().map(Vec::len),
        Some(2),
        "{ui}"
    );
    assert_eq!(ui["images"].as_array().map(Vec::len), Some(1), "{ui}");
    assert_eq!(ui["compositor_bboxes"][1]["name"], "two");
}

#[tokio::test]
async fn too_many_layers_are_refused_before_anything_is_drawn() {
    let told = Bench::with(CONFIG, vec![made(), shown()])
        .run(&graph(
            &json!({"layers": [{"image": {"$image": [51, 1, 1, 3, 1]}}]}),
        ))
        .await;
    let error = format!("{:?}", told.result.err());
    assert!(error.contains("at most 50 pictures"), "{error}");
    assert!(told.outputs.is_empty(), "nothing was shown");
}
