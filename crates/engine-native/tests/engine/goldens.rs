//! Every recorded workflow, run as it was recorded, and what it saved compared with what was saved then.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use images::codec::{Limits, decode_first, png_text};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use workflow_core::OutputKind;

use crate::bench::{Bench, Told};

/// Where the recordings lie, if they are there.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the recordings are not beside this repository");
    None
}

/// A JSON file of the recordings.
pub(crate) fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[tokio::test]
async fn recorded_workflows_give_the_recorded_outputs() {
    let Some(folder) = folder() else { return };
    let index = json(&folder.join("index.json"));
    let mut outputs = 0;
    let mut wrong = Vec::new();
    for case in index["cases"].as_array().unwrap() {
        let told = run(&folder, case).await;
        let name = case["case"].as_str().unwrap();
        let mut files: HashMap<&str, Vec<&[u8]>> = HashMap::new();
        for (output, bytes) in &told.outputs {
            if output.kind == OutputKind::Image {
                files
                    .entry(output.node_id.as_str())
                    .or_default()
                    .push(bytes);
            }
        }
        let texts = told.texts();
        for output in case["outputs"].as_array().unwrap() {
            let (node, at) = (
                output["node"].as_str().unwrap(),
                output["i"].as_u64().unwrap() as usize,
            );
            let place = format!("{name}/{node}/{}/{at}", output["key"].as_str().unwrap());
            outputs += 1;
            if output["key"] == "text" {
                let found = texts
                    .get(node)
                    .and_then(|texts| texts.get(at))
                    .map(String::as_str);
                if found != output["value"].as_str() {
                    wrong.push(format!("{place}: {found:?} instead of {}", output["value"]));
                }
                continue;
            }
            let Some(found) = files.get(node).and_then(|files| files.get(at)) else {
                wrong.push(format!("{place}: nothing was saved"));
                continue;
            };
            if output["class_type"]
                .as_str()
                .unwrap()
                .starts_with("SaveAnimated")
            {
                continue;
            }
            let recorded =
                std::fs::read(folder.join(name).join(output["file"].as_str().unwrap())).unwrap();
            wrong.extend(
                differences(&place, found, &recorded, output, &index)
                    .map(|how| format!("{place}: {how}")),
            );
        }
    }
    println!("{outputs} outputs compared");
    assert!(
        wrong.is_empty(),
        "{} of {outputs} outputs differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

async fn run(folder: &Path, case: &Json) -> Told {
    let mut bench = Bench::new();
    for input in case["inputs"].as_array().unwrap() {
        let path = folder.join(input.as_str().unwrap());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        bench.upload(&name, &std::fs::read(path).unwrap()).await;
    }
    let workflow = json(&folder.join(case["workflow"].as_str().unwrap()));
    bench.run(&workflow).await.expect_success()
}

/// How a saved picture differs from the recorded one by more than it may.
fn differences(
    place: &str,
    found: &[u8],
    recorded: &[u8],
    output: &Json,
    index: &Json,
) -> Option<String> {
    if metadata(found, None) != metadata(recorded, Some(found)) {
        return Some("it carries other metadata".to_owned());
    }
    let found = Picture::read(found);
    let frame = &output["frames"][0];
    if found.sha256() == frame["sha256"].as_str().unwrap() {
        return None;
    }
    let recorded = Picture::read(recorded);
    if found.shape != recorded.shape {
        return Some(format!(
            "its shape is {:?} instead of {:?}",
            found.shape, recorded.shape
        ));
    }
    let pairs = || {
        found
            .samples
            .iter()
            .zip(&recorded.samples)
            .map(|(a, b)| a.abs_diff(*b))
    };
    let count = found.samples.len() as f64;
    let beyond = |level: u8| pairs().filter(|&by| by > level).count() as f64 / count;
    let mean = pairs().map(f64::from).sum::<f64>() / count;
    let worst = pairs().max().unwrap_or(0);
    let is_well = match tolerance(place, index) {
        Tolerance::None => false,
        Tolerance::Levels {
            worst: allowed,
            fraction,
        } => worst <= allowed && beyond(0) <= fraction,
        Tolerance::Jpeg => worst <= 4 && beyond(2) <= 0.001,
        Tolerance::Mean(allowed) => mean <= allowed,
        Tolerance::Statistics => {
            let (a, b) = (found.moments(), recorded.moments());
            (a.0 - b.0).abs() < 2.0 && (a.1 - b.1).abs() < 2.0
        }
    };
    let shares = (beyond(0), beyond(1), beyond(2));
    (!is_well)
        .then(|| format!("worst by {worst}, mean {mean:.4}, shares beyond 0, 1, 2: {shares:?}"))
}

/// The texts that a picture carries. Nodes that no output needs say nothing of their changes here, as they do in the recorded
/// one, so that is left out where `like` has none.
fn metadata(picture: &[u8], like: Option<&[u8]>) -> Vec<(String, Json)> {
    let read = |picture| png_text(picture, 1 << 20).unwrap().into_iter();
    let mut texts: Vec<(String, Json)> = read(picture)
        .map(|text| (text.keyword, serde_json::from_str(&text.text).unwrap()))
        .collect();
    let like = like.map(|like| metadata(like, None));
    if let (Some(like), Some((_, Json::Object(nodes)))) = (like, texts.first_mut()) {
        for (id, node) in nodes {
            if like[0].1[id].get("is_changed").is_none() {
                node.as_object_mut().unwrap().shift_remove("is_changed");
            }
        }
    }
    texts
}

/// By how much an output may differ (README of the recordings).
enum Tolerance {
    None,
    Levels { worst: u8, fraction: f64 },
    Jpeg,
    Mean(f64),
    Statistics,
}

fn tolerance(place: &str, index: &Json) -> Tolerance {
    let sensitive = index["library_sensitive_outputs"]["differs"]
        .as_array()
        .unwrap();
    if let Some(known) = sensitive.iter().find(|known| known["output"] == place) {
        return Tolerance::Levels {
            worst: known["max_abs_diff"].as_u64().unwrap() as u8,
            fraction: known["fraction_differing"].as_f64().unwrap().max(0.005),
        };
    }
    let case = place.split('/').next().unwrap();
    match case {
        "add_noise" => Tolerance::Statistics,
        "quantize" => Tolerance::Mean(2.0),
        _ if case.ends_with("_jpg") => Tolerance::Jpeg,
        "resize_and_pad"
        | "blur"
        | "sharpen"
        | "scale_bilinear"
        | "scale_bicubic"
        | "scale_by"
        | "scale_total_pixels"
        | "morphology_yuv_canny" => Tolerance::Levels {
            worst: 1,
            fraction: 0.005,
        },
        _ if case.starts_with("blend_") => Tolerance::Levels {
            worst: 1,
            fraction: 0.005,
        },
        _ => Tolerance::None,
    }
}

/// The samples of a picture, with its columns, rows and channels.
pub(crate) struct Picture {
    pub(crate) shape: (usize, usize, usize),
    samples: Vec<u8>,
}

impl Picture {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let raster = decode_first(bytes, &Limits::default()).unwrap();
        Self {
            shape: (raster.width(), raster.height(), raster.channels()),
            samples: raster.data().to_vec(),
        }
    }

    /// The hash of the samples.
    pub(crate) fn sha256(&self) -> String {
        Sha256::digest(&self.samples)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Mean and deviation.
    fn moments(&self) -> (f64, f64) {
        let count = self.samples.len() as f64;
        let mean = self.samples.iter().copied().map(f64::from).sum::<f64>() / count;
        let variance = self
            .samples
            .iter()
            .map(|&sample| (f64::from(sample) - mean).powi(2))
            .sum::<f64>()
            / count;
        (mean, variance.sqrt())
    }
}
