//! Sounds of files against what a real ComfyUI read of them: where they begin and end, and every sixteenth sample.

use std::path::Path;
use std::sync::Arc;

use engine_native::define::link;
use engine_native::{Node, NodeOutput, Sound};
use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, has_ffmpeg};
use crate::goldens;
use crate::latest::of_node;
use crate::toys::toy;

/// Levels that a sample may be off, of 8192: decoders are not of one version.
const MOST_OFF: i64 = 2;

#[tokio::test]
async fn sounds_of_files_are_those_that_the_real_one_read() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let recorded = goldens::json(&folder.join("sounds.json"));
    let recorded = recorded.as_object().unwrap();
    assert_eq!(recorded.len(), 7, "the set is whole");
    let mut wrong = Vec::new();
    for (file, ways) in recorded {
        let bytes = std::fs::read(folder.join("sounds").join(file)).unwrap();
        let mut bench = Bench::with(CONFIG, vec![samples()]);
        bench.upload(file, &bytes).await;
        for (way, expected) in ways.as_object().unwrap() {
            let loaded = match way.as_str() {
                "audio" => json!({
                    "1": {"class_type": "LoadAudio", "inputs": {"audio": file}},
                    "2": {"class_type": "Samples", "inputs": {"value": ["1", 0]}},
                }),
                _ => json!({
                    "1": {"class_type": "LoadVideo", "inputs": {"file": file}},
                    "3": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
                    "2": {"class_type": "Samples", "inputs": {"value": ["3", 1]}},
                }),
            };
            let told = bench.run(&loaded).await;
            let found = of_node(&told.events, "2");
            let is_like = ["shape", "rate"]
                .iter()
                .all(|name| found[*name] == expected[*name]);
            let off = off(&found["levels"], &expected["levels"]);
            if !is_like || off > MOST_OFF {
                let (found, expected) = (&found["shape"], &expected["shape"]);
                wrong.push(format!(
                    "{file} {way}: {found}, recorded {expected}, {off} levels off {:?}",
                    told.result
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The largest difference of two rows of levels.
fn off(found: &Json, expected: &Json) -> i64 {
    let levels = |row: &Json| -> Vec<i64> {
        let row = row.as_array().into_iter().flatten();
        row.filter_map(Json::as_i64).collect()
    };
    let (found, expected) = (levels(found), levels(expected));
    let pairs = found.iter().zip(&expected);
    let off = pairs.map(|(found, expected)| (found - expected).abs());
    off.max().unwrap_or(i64::MAX)
}

/// `Samples`: tells every sixteenth sample of a sound.
fn samples() -> Arc<dyn Node> {
    let mut node = toy(
        "Samples",
        vec![link("value", "AUDIO")],
        Vec::new(),
        |inputs, _| {
            let sound: &Sound = inputs.opaque("value")?;
            let samples = sound.items.iter().flatten().flatten().step_by(16);
            let levels: Vec<i64> = samples
                .map(|sample| (sample * 8192.0).round_ties_even() as i64)
                .collect();
            let shape = [sound.items.len(), sound.channels().len(), sound.length()];
            let told = json!({"shape": shape, "rate": sound.rate, "levels": levels});
            let mut output = NodeOutput::none();
            output.ui.insert("told".to_owned(), json!([told]));
            Ok(output)
        },
    );
    node.definition.output_node = true;
    Arc::new(node)
}
