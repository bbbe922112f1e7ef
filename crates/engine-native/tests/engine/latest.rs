//! Classes of newer versions against what a real one gave: small inputs made by a formula, hashes of what came of them.

use std::path::Path;
use std::sync::Arc;

use engine_native::define::{link, list_output, output, widget};
use engine_native::images::{Frame, Image, Mask};
use engine_native::nodes::Tracks;
use engine_native::{Latent, Node, NodeError, NodeOutput, Slot, Sound, Value};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use workflow_core::Socket;

use crate::bench::{Bench, CONFIG};
use crate::goldens;
use crate::latents;
use crate::prepared;
use crate::toys::{Toy, toy};

#[tokio::test]
async fn every_class_gives_what_the_real_one_gave() {
    every_case_is_equal("nodes.json", 100).await;
}

#[tokio::test]
async fn classes_of_every_version_give_what_the_real_one_gave() {
    every_case_is_equal("classic.json", 24).await;
}

#[tokio::test]
async fn pictures_are_spread_over_segments_as_by_the_real_one() {
    every_case_is_equal("keyframes.json", 19).await;
}

pub(crate) async fn every_case_is_equal(file: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&folder.join(file));
    let bench = Bench::with(CONFIG, vec![made(), made_list(), shown()]);
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let (graph, outputs) = graph(&bench, case);
        let told = bench.run(&graph).await;
        let found: Vec<Json> = match &told.result {
            Ok(()) => outputs
                .iter()
                .map(|node| of_node(&told.events, node))
                .collect(),
            Err(_) => vec![json!("failed")],
        };
        let outputs = case["outputs"].as_array().cloned();
        let expected = outputs.unwrap_or_else(|| vec![json!("failed")]);
        if !equal(&found, &expected) {
            let error = told.result.err().map(|error| format!("{error:?}"));
            wrong.push(format!(
                "{} {}: {found:?}, recorded {expected:?} {}",
                case["class"],
                case["inputs"],
                error.unwrap_or_default()
            ));
        }
    }
    assert!(cases.as_array().unwrap().len() > least, "the set is whole");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The class of a case between nodes that make its inputs and nodes that tell its outputs.
pub(crate) fn graph(bench: &Bench, case: &Json) -> (Json, Vec<String>) {
    use workflow_core::Engine as _;
    let class = case["class"].as_str().unwrap();
    let catalog = bench.engine.nodes();
    let definition = catalog
        .get(class)
        .unwrap_or_else(|| panic!("there is no {class}"));
    let sent = case["inputs"].as_object().unwrap();
    let expanded = definition.expanded(sent);
    let definition = expanded.as_ref().unwrap_or(definition);
    let mut nodes = Map::new();
    let mut inputs = Map::new();
    for (name, value) in sent {
        let is_link = definition
            .input(name)
            .is_some_and(|input| matches!(input.socket, Socket::Link(_)));
        let is_made = value.is_object()
            && value
                .as_object()
                .unwrap()
                .keys()
                .any(|key| key.starts_with('$'));
        if is_made || (is_link && (value.is_object() || value.is_array())) {
            let id = format!("in {name}");
            let class = match value.get("$list") {
                Some(_) => "MadeList",
                None => "Made",
            };
            let node = json!({"class_type": class, "inputs": {"of": {"__value__": value}}});
            nodes.insert(id.clone(), node);
            inputs.insert(name.clone(), json!([id, 0]));
        } else if value.is_array() || value.is_object() {
            inputs.insert(name.clone(), json!({"__value__": value}));
        } else {
            inputs.insert(name.clone(), value.clone());
        }
    }
    nodes.insert(
        "node".to_owned(),
        json!({"class_type": class, "inputs": inputs}),
    );
    let mut outputs = Vec::new();
    for slot in 0..definition.outputs.len() {
        let id = format!("out {slot}");
        nodes.insert(
            id.clone(),
            json!({"class_type": "Shown", "inputs": {"value": ["node", slot]}}),
        );
        outputs.push(id);
    }
    (Json::Object(nodes), outputs)
}

/// What a node showed: `executed out 0 {"told": [...]}`.
pub(crate) fn of_node(events: &[String], node: &str) -> Json {
    let prefix = format!("executed {node} ");
    let line = events.iter().find_map(|line| line.strip_prefix(&prefix));
    let ui: Json = serde_json::from_str(line.unwrap_or("null")).unwrap_or_default();
    ui["told"][0].clone()
}

fn equal(found: &[Json], expected: &[Json]) -> bool {
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| same(found, expected))
}

/// Numbers and JSON are equal by value, not by spelling.
pub(crate) fn same(found: &Json, expected: &Json) -> bool {
    let text = |value: &Json, kind: &str| {
        let text = value.as_str()?.strip_prefix(kind)?;
        serde_json::from_str::<Json>(&text.replace("e+", "e")).ok()
    };
    // What is not to be compared was not recorded.
    if expected.is_null() {
        return true;
    }
    if let (Json::Array(found), Json::Array(expected)) = (found, expected) {
        return equal(found, expected);
    }
    if let (Some(found), Some(expected)) = (text(found, "LATENT "), text(expected, "LATENT ")) {
        return latents::same(found, &expected);
    }
    if let Some(is_near) = prepared::near(found, expected) {
        return is_near;
    }
    // Pictures tell their levels cut off and rounded: a recording has the rounded ones where a sine or the like leaves open what
    // lies a bit below a level.
    let levels = |told: &Json| {
        let (shape, levels) = told.as_str()?.strip_prefix("IMAGE ")?.split_once("] ")?;
        Some((shape.to_owned(), levels.to_owned()))
    };
    if let (Some(found), Some(expected)) = (levels(found), levels(expected)) {
        return found.0 == expected.0 && found.1.split(' ').any(|levels| levels == expected.1);
    }
    for kind in ["FLOAT ", "JSON "] {
        if let (Some(found), Some(expected)) = (text(found, kind), text(expected, kind)) {
            return found == expected
                || found
                    .as_f64()
                    .is_some_and(|found| Some(found) == expected.as_f64());
        }
    }
    found == expected
}

/// `MadeList`: a list of what [`made`] makes.
pub(crate) fn made_list() -> Arc<dyn Node> {
    let inputs = vec![widget("of", "ANY", json!({}))];
    let outputs = vec![list_output("*")];
    Arc::new(toy("MadeList", inputs, outputs, |mut inputs, _| {
        let Value::Json(json) = inputs.value("of")? else {
            panic!("an object")
        };
        let items = json["$list"].as_array().unwrap().iter();
        let items = items.map(of_recipe);
        Ok(NodeOutput {
            slots: vec![Slot::List(items.collect())],
            ..NodeOutput::none()
        })
    }))
}

/// `Made`: `{"$image": [frames, height, width, channels, seed]}` and the like, or the value itself.
pub(crate) fn made() -> Arc<dyn Node> {
    let inputs = vec![widget("of", "ANY", json!({}))];
    Arc::new(toy("Made", inputs, vec![output("*")], |mut inputs, _| {
        let value = inputs.value("of")?;
        if let Value::Json(recipe) = &value {
            return Ok(of_recipe(recipe).into());
        }
        Ok(value.into())
    }))
}

pub(crate) fn of_recipe(json: &Json) -> Value {
    if let Some(value) = json.get("$value") {
        return Value::from_json(value);
    }
    let numbers = |name: &str| -> Option<Vec<usize>> {
        let numbers = json.get(name)?.as_array()?.iter();
        Some(
            numbers
                .map(|number| number.as_u64().unwrap() as usize)
                .collect(),
        )
    };
    if let Some(shape) = numbers("$image") {
        return Image::new(frames(&shape[..4], shape[4])).unwrap().into();
    }
    if let Some(shape) = numbers("$mask") {
        let shape = [shape[0], shape[1], shape[2], 1, shape[3]];
        return Mask::new(frames(&shape[..4], shape[4])).unwrap().into();
    }
    if let Some(blob) = json.get("$blob").and_then(Json::as_array) {
        return blob_mask(blob).into();
    }
    if let Some(shape) = numbers("$audio") {
        let [items, channels, length, seed, rate] = shape[..] else {
            panic!("three sides, a seed and a rate")
        };
        let samples = pattern(items * channels * length, seed);
        let samples: Vec<f32> = samples.map(|byte| f32::from(byte) / 127.5 - 1.0).collect();
        let items = samples.chunks_exact(channels * length);
        let item = |item: &[f32]| item.chunks_exact(length).map(<[f32]>::to_vec).collect();
        let items = items.map(item).collect();
        let rate = rate as u32;
        return Sound { rate, items }.into();
    }
    if let Some(recipe) = json.get("$latent") {
        return latents::made(recipe).into();
    }
    if let Some(recipe) = json.get("$tracks") {
        return prepared::tracks(recipe);
    }
    if let Some(operation) = latents::operation(json) {
        return operation;
    }
    Value::from_json(json)
}

/// `[frames, height, width, x, y, radius]`: a disc around a point; all but the disc if the radius is negative.
fn blob_mask(blob: &[Json]) -> Mask {
    let numbers: Vec<i64> = blob.iter().filter_map(Json::as_i64).collect();
    let [count, height, width, x, y, radius] = numbers[..] else {
        panic!("six numbers")
    };
    let sample = |at: i64| {
        let (across, down) = (at % width - x, at / width - y);
        let is_inside = across * across + down * down <= radius * radius;
        if is_inside == (radius >= 0) { 1.0 } else { 0.0 }
    };
    let samples = (0..height * width).map(sample).collect();
    let frame = Arc::new(Frame::new(height as usize, width as usize, 1, samples));
    Mask::new(vec![frame; count as usize]).unwrap()
}

/// Bytes that look random and are the same everywhere.
pub(crate) fn pattern(samples: usize, seed: usize) -> impl Iterator<Item = u8> {
    (0..samples as u64).map(move |at| {
        let mixed = (at * 2_654_435_761 + seed as u64 * 40_503) % (1 << 32);
        ((mixed >> 16) % 256) as u8
    })
}

fn frames(shape: &[usize], seed: usize) -> Vec<Arc<Frame>> {
    let [count, height, width, channels] = *shape else {
        panic!("four sides")
    };
    let size = height * width * channels;
    let bytes: Vec<u8> = pattern(count * size, seed).collect();
    let frames = bytes.chunks_exact(size);
    let frame = |bytes: &[u8]| {
        let samples = bytes.iter().map(|byte| f32::from(*byte) / 255.0);
        Arc::new(Frame::new(height, width, channels, samples.collect()))
    };
    frames.map(frame).collect()
}

/// `Shown`: tells what it gets, as the recorder did.
pub(crate) fn shown() -> Arc<dyn Node> {
    let mut node: Toy = toy(
        "Shown",
        vec![link("value", "*")],
        Vec::new(),
        |mut inputs, _| {
            let values = inputs.list("value")?;
            let told: Vec<String> = values.iter().map(told).collect::<Result<_, NodeError>>()?;
            let mut output = NodeOutput::none();
            output.ui.insert("told".to_owned(), json!([told]));
            Ok(output)
        },
    );
    node.definition.output_node = true;
    node.definition.takes_lists = true;
    Arc::new(node)
}

fn told(value: &Value) -> Result<String, NodeError> {
    let levels = |frames: &[Arc<Frame>], half: f32| {
        let mut hasher = Sha256::new();
        for frame in frames {
            let bytes = frame
                .data()
                .iter()
                .map(|sample| (sample * 255.0 + half).clamp(0.0, 255.0) as u8);
            hasher.update(bytes.collect::<Vec<u8>>());
        }
        let digest = hasher.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let hash = |frames: &[Arc<Frame>]| levels(frames, 0.0);
    Ok(match value {
        Value::Image(image) => {
            let (height, width, channels) = image.first().shape();
            let count = image.frames().len();
            format!(
                "IMAGE [{count}, {height}, {width}, {channels}] {} ~{} @{}",
                hash(image.frames()),
                levels(image.frames(), 0.5),
                prepared::some_samples(image.frames())
            )
        }
        Value::Mask(mask) => {
            let (height, width, _) = mask.first().shape();
            let count = mask.frames().len();
            format!("MASK [{count}, {height}, {width}] {}", hash(mask.frames()))
        }
        Value::Boolean(true) => "BOOLEAN True".to_owned(),
        Value::Boolean(false) => "BOOLEAN False".to_owned(),
        Value::Int(number) => format!("INT {number}"),
        Value::Float(number) => format!("FLOAT {number:?}"),
        Value::String(text) => format!("STRING {text}"),
        Value::Json(json) => format!("JSON {json}"),
        Value::Opaque(opaque) if opaque.get::<Latent>().is_some() => {
            latents::told(opaque.get().unwrap())
        }
        Value::Opaque(opaque) if opaque.get::<Tracks>().is_some() => {
            prepared::told(opaque.get().unwrap())
        }
        Value::Opaque(opaque) => match opaque.get::<Sound>() {
            Some(sound) => {
                let mut hasher = Sha256::new();
                for sample in sound.items.iter().flatten().flatten() {
                    let level = (sample * 8192.0).round_ties_even() as i32;
                    hasher.update(level.to_le_bytes());
                }
                let digest = hasher.finalize();
                let hash: String = digest[..8]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let (items, channels) = (sound.items.len(), sound.channels().len());
                format!(
                    "AUDIO [{items}, {channels}, {}] {} {hash}",
                    sound.length(),
                    sound.rate
                )
            }
            None => value.io_type().to_owned(),
        },
        Value::File(_) | Value::Blocker(_) => value.io_type().to_owned(),
    })
}
