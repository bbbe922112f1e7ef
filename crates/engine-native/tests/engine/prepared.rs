//! Boxes and latents of videos, and pictures for particular models: the recorded cases, and what was not recorded.

use std::sync::Arc;

use engine_native::images::Frame;
use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::latest::{self, every_case_is_equal, of_node, shown};

#[tokio::test]
async fn parts_in_boxes_are_those_of_the_real_one() {
    every_case_is_equal("box_pictures.json", 50).await;
}

#[tokio::test]
async fn latents_of_videos_are_split_and_merged_as_by_the_real_one() {
    every_case_is_equal("frames.json", 32).await;
}

#[tokio::test]
async fn pictures_for_models_are_those_of_the_real_one() {
    every_case_is_equal("prepared.json", 50).await;
}

#[tokio::test]
async fn cameras_stand_where_the_real_one_puts_them() {
    every_case_is_equal("camera.json", 14).await;
}

#[tokio::test]
async fn a_label_of_a_box_is_refused_because_no_letters_are_drawn() {
    let boxes = json!([{"x": 1, "y": 1, "width": 5, "height": 5, "label": "cat"}]);
    let told = Bench::with(CONFIG, vec![shown()])
        .run(&json!({
            "1": {"class_type": "DrawBBoxes", "inputs": {"bboxes": {"__value__": boxes}}},
            "2": {"class_type": "Shown", "inputs": {"value": ["1", 0]}},
        }))
        .await;
    let error = format!("{:?}", told.result.expect_err("it has a label"));
    assert!(error.contains("a ComfyUI worker"), "{error}");
}

#[tokio::test]
async fn a_latent_is_one_chunk_where_no_memory_of_a_model_counts() {
    let latent = json!({"$latent": {"shape": [1, 16, 5, 2, 2], "seed": 8}});
    let told = Bench::with(CONFIG, vec![latest::made(), shown()])
        .run(&json!({
            "0": {"class_type": "Made", "inputs": {"of": {"__value__": latent}}},
            "1": {"class_type": "SeedVR2TemporalChunk", "inputs": {
                "latent": ["0", 0], "temporal_overlap": 3, "chunking_mode": "auto",
            }},
            "2": {"class_type": "Shown", "inputs": {"value": ["1", 0]}},
            "3": {"class_type": "Shown", "inputs": {"value": ["1", 1]}},
        }))
        .await
        .expect_success();
    let chunks = of_node(&told.events, "2");
    assert_eq!(chunks.as_array().map(Vec::len), Some(1), "{chunks}");
    assert_eq!(of_node(&told.events, "3"), json!(["INT 0"]));
}

#[tokio::test]
async fn an_item_of_a_list_or_of_one_value_that_is_a_list() {
    let bench = Bench::with(CONFIG, vec![shown()]);
    let item = async |index: i64, source: Json| {
        let told = bench
            .run(&json!({
                "a": {"class_type": "PrimitiveInt", "inputs": {"value": 5}},
                "b": {"class_type": "PrimitiveInt", "inputs": {"value": 7}},
                "list": {"class_type": "CreateList", "inputs": {"inputs.input0": ["a", 0], "inputs.input1": ["b", 0]}},
                "one": {"class_type": "CreateList", "inputs": {"inputs.input0": ["boxes", 1]}},
                "boxes": {"class_type": "CreateBoundingBoxes", "inputs": {
                    "width": 64, "height": 64,
                    "editor_state": {"__value__": [{"x": 1, "y": 2, "width": 3, "height": 4}]},
                }},
                "item": {"class_type": "GetItemFromList", "inputs": {"list": source, "index": index}},
                "shown": {"class_type": "Shown", "inputs": {"value": ["item", 0]}},
            }))
            .await;
        match &told.result {
            Ok(()) => of_node(&told.events, "shown")[0].clone(),
            Err(error) => json!(format!("{error:?}")),
        }
    };
    assert_eq!(item(0, json!(["list", 0])).await, "INT 5");
    assert_eq!(item(-1, json!(["list", 0])).await, "INT 7");
    let beyond = item(2, json!(["list", 0])).await;
    assert!(
        beyond
            .as_str()
            .unwrap()
            .contains("no item 2 in a list of 2"),
        "{beyond}"
    );
    let boxes = r#"[{"height":4,"width":3,"x":1,"y":2}]"#;
    let first = item(0, json!(["boxes", 1])).await;
    assert!(
        latest::same(&first, &json!(format!("JSON {boxes}"))),
        "{first}"
    );
    let first = item(0, json!(["one", 0])).await;
    assert!(
        latest::same(&first, &json!(format!("JSON [{boxes}]"))),
        "{first}"
    );
    let picture = item(0, json!(["boxes", 0])).await;
    assert!(
        picture.as_str().unwrap().contains("ImageFromBatch"),
        "{picture}"
    );
}

/// Some samples of a picture, for cases that roots and powers leave open.
pub(crate) fn some_samples(frames: &[Arc<Frame>]) -> String {
    let samples: Vec<f32> = frames
        .iter()
        .flat_map(|frame| frame.data())
        .copied()
        .collect();
    let step = (samples.len() / 64).max(1) | 1;
    json!(samples.iter().step_by(step).take(64).collect::<Vec<_>>()).to_string()
}

/// Whether pictures, given as `IMAGE [shape] levels ~levels @[samples]` are near the recorded ones.
pub(crate) fn near(found: &Json, expected: &Json) -> Option<bool> {
    let (found, expected) = (found.as_str()?, expected.as_str()?);
    let numbers = |json: &Json| -> Vec<f64> {
        json.as_array()
            .unwrap()
            .iter()
            .filter_map(Json::as_f64)
            .collect()
    };
    let are_near = |found: &Json, expected: &Json, off: f64| {
        let (found, expected) = (numbers(found), numbers(expected));
        let is_near = |(found, expected): (&f64, &f64)| {
            (found - expected).abs() <= off * expected.abs().max(1.0)
        };
        found.len() == expected.len() && found.iter().zip(&expected).all(is_near)
    };
    let read = |text: &str| serde_json::from_str::<Json>(text).unwrap();
    if let Some(expected) = expected.strip_prefix("NEAR IMAGE ") {
        let (shape, samples) = expected.split_once("] ")?;
        let (own, told) = found.strip_prefix("IMAGE ")?.split_once("] ")?;
        let (_, own_samples) = told.split_once('@')?;
        return Some(shape == own && are_near(&read(own_samples), &read(samples), 1e-4));
    }
    None
}
