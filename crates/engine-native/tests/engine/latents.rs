//! Latents: the recorded cases, and files of them.

use std::path::Path;

use engine_native::{Inputs, Latent, NodeContext, Slot, Tensor, Value, nodes};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use workflow_core::OutputKind;

use crate::bench::{Bench, CONFIG};
use crate::latest::{self, every_case_is_equal, pattern, shown};

#[tokio::test]
async fn every_class_of_latents_gives_what_the_real_one_gave() {
    every_case_is_equal("latents.json", 330).await;
}

/// The file that a real ComfyUI saved of `[1, 4, 3, 5]` samples of the seed 7.
const SAVED: &str = "tests/engine/recorded/saved.latent";

#[tokio::test]
async fn a_saved_latent_is_a_file_like_the_real_ones() {
    let samples = json!({"$latent": {"shape": [1, 4, 3, 5], "seed": 7}});
    let told = Bench::with(CONFIG, vec![latest::made()])
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"__value__": samples}}},
            "2": {"class_type": "SaveLatent", "inputs": {"samples": ["1", 0], "filename_prefix": "latents/a %width%"}},
        }))
        .await
        .expect_success();
    let [(output, bytes)] = &told.outputs[..] else {
        panic!("one file: {told:?}")
    };
    assert_eq!(output.path.as_str(), "latents/a 0_00001_.latent");
    assert_eq!(output.kind, OutputKind::Latent);
    assert_eq!(output.content_type, "application/octet-stream");
    let shown = executed(&told.events, "2");
    assert_eq!(shown["latents"][0]["filename"], "a 0_00001_.latent");
    let real = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(SAVED)).unwrap();
    let (ours, real) = (parted(bytes), parted(&real));
    assert_eq!(ours.1, real.1, "the samples");
    for array in ["latent_tensor", "latent_format_version_0"] {
        assert_eq!(ours.0[array], real.0[array]);
    }
    let prompt = ours.0["__metadata__"]["prompt"].as_str().unwrap();
    let prompt: Json = serde_json::from_str(prompt).unwrap();
    assert_eq!(prompt["2"]["class_type"], "SaveLatent");
}

/// What a node showed.
fn executed(events: &[String], node: &str) -> Json {
    let prefix = format!("executed {node} ");
    let line = events.iter().find_map(|line| line.strip_prefix(&prefix));
    serde_json::from_str(line.unwrap()).unwrap()
}

/// The header of a safetensors file, and what follows it.
fn parted(file: &[u8]) -> (Json, Vec<u8>) {
    let (length, rest) = file.split_first_chunk().unwrap();
    let (header, samples) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).unwrap(), samples.to_vec())
}

#[tokio::test]
async fn a_latent_that_the_real_one_saved_is_loaded() {
    let mut bench = Bench::with(CONFIG, vec![shown()]);
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(SAVED)).unwrap();
    bench.upload("saved.latent", &file).await;
    bench.upload("other.latent", b"no latent at all").await;
    let graph = |name: &str| {
        json!({
            "1": {"class_type": "LoadLatent", "inputs": {"latent": name}},
            "2": {"class_type": "Shown", "inputs": {"value": ["1", 0]}},
        })
    };
    let loaded = bench.run(&graph("saved.latent")).await.expect_success();
    let expected = told(&made(&json!({"shape": [1, 4, 3, 5], "seed": 7})));
    assert_eq!(executed(&loaded.events, "2")["told"][0][0], expected);
    let refused = bench.run(&graph("other.latent")).await;
    let error = format!("{:?}", refused.result.expect_err("it is no latent"));
    assert!(error.contains("a file that SaveLatent wrote"), "{error}");
}

#[tokio::test]
async fn a_latent_beyond_the_memory_of_a_job_is_refused() {
    let told = Bench::new()
        .run(&json!({
            "1": {"class_type": "EmptyLatentImage", "inputs": {"width": 16384, "height": 16384, "batch_size": 4096}},
            "2": {"class_type": "SaveLatent", "inputs": {"samples": ["1", 0], "filename_prefix": "a"}},
        }))
        .await;
    let error = format!("{:?}", told.result.expect_err("it is 256 GiB"));
    assert!(error.contains("274877906944 bytes more"), "{error}");
}

/// Latents are equal to the bit where the operation is settled to the bit; else the recording has samples in place of a hash.
pub(crate) fn same(mut found: Json, expected: &Json) -> bool {
    let near: Option<Vec<f64>> = expected["near"]
        .as_array()
        .map(|near| near.iter().filter_map(Json::as_f64).collect());
    let fields = found.as_object_mut().unwrap();
    let samples = fields.remove("samples").unwrap_or_default();
    let samples: Vec<f64> = samples
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Json::as_f64)
        .collect();
    let Some(near) = near else {
        return &found == expected;
    };
    fields.remove("sha256");
    fields.insert("near".to_owned(), expected["near"].clone());
    let step = (samples.len() / 24).max(1);
    let taken: Vec<f64> = samples.into_iter().step_by(step).take(24).collect();
    let is_near = |(found, near): (&f64, &f64)| (found - near).abs() <= 2e-5 * near.abs().max(1.0);
    &found == expected && taken.len() == near.len() && taken.iter().zip(&near).all(is_near)
}

/// `{"shape": [...], "seed": n}`, perhaps with `zero`, `mask` ([frames, 1, height, width, seed]), `index` and `audio`.
pub(crate) fn made(recipe: &Json) -> Latent {
    let numbers = |name: &str| -> Option<Vec<usize>> {
        let numbers = recipe.get(name)?.as_array()?.iter();
        Some(
            numbers
                .map(|number| number.as_u64().unwrap() as usize)
                .collect(),
        )
    };
    let seed = recipe["seed"].as_u64().unwrap() as usize;
    let shape = numbers("shape").unwrap();
    let is_zero = recipe.get("zero").is_some();
    let samples = pattern(shape.iter().product(), seed);
    let samples = samples.map(|byte| {
        if is_zero {
            0.0
        } else {
            f32::from(byte) / 32.0 - 4.0
        }
    });
    let samples = Tensor::new(shape.clone(), samples.collect());
    let mask = numbers("mask").map(|mut shape| {
        let seed = shape.pop().unwrap();
        let samples = pattern(shape.iter().product(), seed);
        Tensor::new(shape, samples.map(|byte| f32::from(byte) / 255.0).collect())
    });
    let index = numbers("index");
    Latent {
        noise_mask: mask,
        batch_index: index.map(|index| index.into_iter().map(|number| number as i64).collect()),
        is_audio: recipe.get("audio").is_some(),
        ..Latent::new(samples)
    }
}

pub(crate) fn told(latent: &Latent) -> String {
    let hash = |tensor: &Tensor| {
        let mut hasher = Sha256::new();
        for sample in tensor.data() {
            hasher.update(sample.to_le_bytes());
        }
        let digest = hasher.finalize();
        digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let samples = &latent.samples;
    let mut told =
        json!({"shape": samples.shape(), "sha256": hash(samples), "samples": samples.data()});
    if let Some(mask) = &latent.noise_mask {
        told["mask"] = json!({"shape": mask.shape(), "sha256": hash(mask)});
    }
    if let Some(index) = &latent.batch_index {
        told["index"] = json!(index);
    }
    if latent.is_audio {
        told["type"] = json!("audio");
    }
    format!("LATENT {told}")
}

const OPERATIONS: [(&str, &str, &[&str]); 3] = [
    ("$blend", "LatentOperationBlend", &["reference", "strength"]),
    (
        "$tonemap",
        "LatentOperationTonemapReinhard",
        &["multiplier"],
    ),
    (
        "$sharpen",
        "LatentOperationSharpen",
        &["sharpen_radius", "sigma", "alpha"],
    ),
];

/// What a class of operations gives, if this is its recipe: its inputs in order.
pub(crate) fn operation(recipe: &Json) -> Option<Value> {
    let mut operations = OPERATIONS.into_iter();
    let (class, names, arguments) =
        operations.find_map(|(name, class, names)| Some((class, names, recipe.get(name)?)))?;
    let node = nodes::all()
        .into_iter()
        .find(|node| node.definition().class == class);
    let node = node.unwrap();
    let definition = node.definition();
    let arguments = arguments
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![arguments.clone()]);
    let values = names
        .iter()
        .copied()
        .zip(arguments.iter().map(latest::of_recipe));
    let inputs = Inputs::new(definition, values);
    let output = node.run(inputs, &NodeContext::detached()).unwrap();
    match output.slots.into_iter().next() {
        Some(Slot::One(value)) => Some(value),
        _ => panic!("one operation"),
    }
}

/// Latents of videos and sounds that were put together and taken apart by a real ComfyUI.
const AV: &str = include_str!("recorded/av.json");

#[tokio::test]
async fn latents_of_both_kinds_come_apart_as_in_the_real_one() {
    let cases: Vec<Json> = serde_json::from_str(AV).unwrap();
    let bench = Bench::with(CONFIG, vec![latest::made(), shown()]);
    for case in &cases {
        let made = |name: &str| json!({"class_type": "Made", "inputs": {"of": {"__value__": {"$latent": case[name]}}}});
        let shown = |slot: usize| json!({"class_type": "Shown", "inputs": {"value": ["4", slot]}});
        let told = bench
            .run(&json!({
                "1": made("video"),
                "2": made("audio"),
                "3": {"class_type": "LTXVConcatAVLatent", "inputs": {"video_latent": ["1", 0], "audio_latent": ["2", 0]}},
                "4": {"class_type": "LTXVSeparateAVLatent", "inputs": {"av_latent": ["3", 0]}},
                "5": shown(0),
                "6": shown(1),
            }))
            .await
            .expect_success();
        for (at, node) in ["5", "6"].into_iter().enumerate() {
            let found = executed(&told.events, node)["told"][0][0].clone();
            let latent = |told: &Json| -> Json {
                serde_json::from_str(told.as_str().unwrap().strip_prefix("LATENT ").unwrap())
                    .unwrap()
            };
            assert!(
                same(latent(&found), &latent(&case["outputs"][at])),
                "{found} {case}"
            );
        }
    }
}

#[tokio::test]
async fn a_latent_of_both_kinds_is_told_to_be_taken_apart() {
    let latent = json!({"$latent": {"shape": [1, 4, 3, 3], "seed": 1}});
    let made = json!({"class_type": "Made", "inputs": {"of": {"__value__": latent}}});
    let bench = Bench::with(CONFIG, vec![latest::made(), shown()]);
    for (last, advice) in [
        (
            json!({"class_type": "LatentAdd", "inputs": {"samples1": ["2", 0], "samples2": ["1", 0]}}),
            "LTXVSeparateAVLatent",
        ),
        (
            json!({"class_type": "LTXVSeparateAVLatent", "inputs": {"av_latent": ["1", 0]}}),
            "LTXVConcatAVLatent",
        ),
    ] {
        let told = bench
            .run(&json!({
                "1": made,
                "2": {"class_type": "LTXVConcatAVLatent", "inputs": {"video_latent": ["1", 0], "audio_latent": ["1", 0]}},
                "3": last,
                "4": {"class_type": "Shown", "inputs": {"value": ["3", 0]}},
            }))
            .await;
        let error = format!("{:?}", told.result.unwrap_err());
        assert!(error.contains(advice), "{error}");
    }
}

/// Empty latents of both kinds that a real ComfyUI made and took apart.
const EMPTY_AV: &str = include_str!("recorded/av_empty.json");

#[tokio::test]
async fn an_empty_latent_of_both_kinds_has_the_shapes_of_the_real_one() {
    let cases: Vec<Json> = serde_json::from_str(EMPTY_AV).unwrap();
    let bench = Bench::with(CONFIG, vec![shown()]);
    for case in &cases {
        let shown = |slot: usize| json!({"class_type": "Shown", "inputs": {"value": ["2", slot]}});
        let [width, height, length] = ["width", "height", "length"].map(|name| &case[name]);
        let told = bench
            .run(&json!({
                "1": {"class_type": "EmptyMiniMaxH3LatentAV", "inputs": {"width": width, "height": height, "length": length}},
                "2": {"class_type": "LTXVSeparateAVLatent", "inputs": {"av_latent": ["1", 0]}},
                "3": shown(0),
                "4": shown(1),
            }))
            .await
            .expect_success();
        for (at, node) in ["3", "4"].into_iter().enumerate() {
            let found = &executed(&told.events, node)["told"][0][0];
            assert!(latest::same(found, &case["outputs"][at]), "{found} {case}");
        }
    }
}
