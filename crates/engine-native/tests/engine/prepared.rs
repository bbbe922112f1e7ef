//! Boxes, tracks and latents of videos, and pictures for particular models: the recorded cases, and what was not recorded.

use std::sync::Arc;

use engine_native::images::Frame;
use engine_native::nodes::{self, Tracks};
use engine_native::{Inputs, NodeContext, Slot, Value};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

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
async fn tracks_are_made_and_drawn_as_by_the_real_one() {
    every_case_is_equal("tracks.json", 50).await;
}

#[tokio::test]
async fn cameras_stand_where_the_real_one_puts_them() {
    every_case_is_equal("camera.json", 14).await;
}

#[tokio::test]
async fn a_label_that_would_be_written_is_refused() {
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
async fn sizes_that_boxes_and_places_ask_for_are_bounded() {
    let far = json!([{"x": 0, "y": 0, "width": 1e12, "height": 1e12}]);
    let track = r#"[{"x": 0, "y": 0}, {"x": 1e30, "y": 0}]"#;
    let bench = Bench::with(CONFIG, vec![shown()]);
    for (graph, words) in [
        (
            json!({"1": {"class_type": "DrawBBoxes", "inputs": {"bboxes": {"__value__": far}}}}),
            "more than one picture may hold",
        ),
        (
            json!({
                "0": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 2, "color": 0}},
                "3": {"class_type": "WanMoveTracksFromCoords", "inputs": {"track_coords": track}},
                "1": {"class_type": "WanMoveVisualizeTracks", "inputs": {
                    "images": ["0", 0], "tracks": ["3", 0],
                    "line_resolution": 24, "circle_size": 12, "opacity": 1.0, "line_width": 16,
                }},
            }),
            "farther than 65536 pixels",
        ),
        (
            json!({
                "0": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}},
                "3": {"class_type": "PrimitiveInt", "inputs": {"value": 1 << 30}},
                "1": {"class_type": "CropByBBoxes", "inputs": {
                    "image": ["0", 0], "output_width": ["3", 0], "output_height": ["3", 0],
                    "bboxes": {"__value__": {"x": 1, "y": 1, "width": 4, "height": 4}},
                    "padding": 0, "keep_aspect": "pad",
                }},
            }),
            "more than one picture may hold",
        ),
    ] {
        let mut graph = graph;
        graph["2"] = json!({"class_type": "Shown", "inputs": {"value": ["1", 0]}});
        let told = bench.run(&graph).await;
        let error = format!("{:?}", told.result.expect_err("it is far"));
        assert!(error.contains(words), "{error}");
    }
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

#[tokio::test]
async fn the_definition_of_any_class_says_whether_it_gives_a_list() {
    let bench = Bench::with(CONFIG, vec![latest::made(), latest::made_list(), shown()]);
    let item = async |class: &str, of: Json, index: i64| {
        let graph = json!({
            "made": {"class_type": class, "inputs": {"of": {"__value__": of}}},
            "item": {"class_type": "GetItemFromList", "inputs": {"list": ["made", 0], "index": index}},
            "shown": {"class_type": "Shown", "inputs": {"value": ["item", 0]}},
        });
        let told = bench.run(&graph).await;
        match &told.result {
            Ok(()) => of_node(&told.events, "shown")[0].to_string(),
            Err(error) => format!("{error:?}"),
        }
    };
    let picture = json!({"$image": [2, 4, 4, 3, 1]});
    for index in [0, 1] {
        let refused = item("Made", picture.clone(), index).await;
        assert!(refused.contains("ImageFromBatch"), "{refused}");
    }
    let whole = item("MadeList", json!({"$list": [picture]}), 0).await;
    assert!(whole.starts_with("\"IMAGE [2, 4, 4, 3]"), "{whole}");
    let second = item("Made", json!({"$value": [5, 7]}), 1).await;
    assert_eq!(second, r#""INT 7""#);
}

#[tokio::test]
async fn tracks_that_do_not_fit_say_what_differs() {
    let places = r#"[{"x": 1, "y": 2}, {"x": 3, "y": 4}]"#;
    let tracks = |mask: usize| {
        let mask = json!({"$mask": [mask, 4, 4, 1]});
        json!({"$tracks": {"coords": {"track_coords": places, "track_mask": mask}}})
    };
    let told = Bench::with(CONFIG, vec![latest::made(), shown()])
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"__value__": tracks(2)}}},
            "2": {"class_type": "Made", "inputs": {"of": {"__value__": tracks(3)}}},
            "3": {"class_type": "WanMoveConcatTrack", "inputs": {"tracks_1": ["1", 0], "tracks_2": ["2", 0]}},
            "4": {"class_type": "Shown", "inputs": {"value": ["3", 0]}},
        }))
        .await;
    let error = format!("{:?}", told.result.expect_err("masks differ"));
    assert!(
        error.contains("masks of the tracks have 2 and 3 frames"),
        "{error}"
    );
}

/// What a class of tracks gives: `{"gen": {...}}` or `{"coords": {...}}` with its inputs.
pub(crate) fn tracks(recipe: &Json) -> Value {
    let (class, inputs) = match recipe.get("gen") {
        Some(inputs) => ("GenerateTracks", inputs),
        None => ("WanMoveTracksFromCoords", &recipe["coords"]),
    };
    let node = nodes::all().into_iter();
    let node = { node }
        .find(|node| node.definition().class == class)
        .unwrap();
    let inputs: &Map<String, Json> = inputs.as_object().unwrap();
    let values = inputs.iter().map(|(name, value)| {
        let name: &'static str = Box::leak(name.clone().into_boxed_str());
        (name, latest::of_recipe(value))
    });
    let inputs = Inputs::new(node.definition(), values);
    let output = node.run(inputs, &NodeContext::detached()).unwrap();
    match output.slots.into_iter().next() {
        Some(Slot::One(value)) => value,
        _ => panic!("tracks"),
    }
}

/// The shape of tracks, when they are seen, and some of their places.
pub(crate) fn told(tracks: &Tracks) -> String {
    let places: Vec<f32> = tracks.places.iter().flatten().flatten().copied().collect();
    let visible: Vec<u8> = tracks
        .visible
        .iter()
        .flatten()
        .map(|seen| u8::from(*seen))
        .collect();
    let count = tracks.places.first().map_or(0, Vec::len);
    let visible = match visible.len() {
        0..400 => json!(visible),
        _ => {
            let digest = Sha256::digest(&visible);
            json!(
                digest[..8]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            )
        }
    };
    let near: Vec<f32> = places
        .iter()
        .step_by((places.len() / 48).max(1))
        .take(48)
        .copied()
        .collect();
    let shape = [tracks.places.len(), count, 2];
    format!(
        "TRACKS {}",
        json!({"shape": shape, "visible": visible, "near": near})
    )
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

/// Whether pictures, given as `IMAGE [shape] levels ~levels @[samples]`, and tracks are near the recorded ones.
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
    let (found, expected) = (
        found.strip_prefix("TRACKS ")?,
        expected.strip_prefix("TRACKS ")?,
    );
    let (found, expected) = (read(found), read(expected));
    let are_alike = ["shape", "visible"]
        .iter()
        .all(|field| found[*field] == expected[*field]);
    Some(are_alike && are_near(&found["near"], &expected["near"], 2e-5))
}
