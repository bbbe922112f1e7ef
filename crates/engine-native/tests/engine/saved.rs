//! Files of sounds and videos against those that a real ComfyUI saved of the same values.
//!
//! Encoders write other bytes in each version, so what is compared is what the files tell of themselves and what they are decoded to.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, has_ffmpeg};
use crate::goldens;
use crate::latest::made;

#[tokio::test]
async fn files_are_like_those_that_the_real_one_saved() {
    if !has_ffmpeg() {
        return;
    }
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&recorded.join("saved.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 17, "the set is whole");
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let bench = Bench::with(CONFIG, vec![made()]);
        let told = bench.run(&case["workflow"]).await;
        if let Err(error) = &told.result {
            wrong.push(format!("{}: {error:?}", case["case"]));
            continue;
        }
        let files = case["files"].as_array().unwrap();
        assert_eq!(told.outputs.len(), files.len(), "{}", case["case"]);
        for ((output, bytes), file) in told.outputs.iter().zip(files) {
            let theirs = recorded.join("saved").join(file.as_str().unwrap());
            let ours = folder.path().join(file.as_str().unwrap());
            std::fs::write(&ours, bytes).unwrap();
            assert_eq!(
                Path::new(output.path.as_str()).extension(),
                theirs.extension()
            );
            wrong.extend(compared(&ours, &theirs, case));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What differs between a file and the recorded one.
fn compared(ours: &Path, theirs: &Path, case: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    let (found, expected) = (told(ours), told(theirs));
    if found != expected {
        wrong.push(format!("{}: {found}, recorded {expected}", case["case"]));
    }
    let tracks = [
        ("sound", [ours, theirs].map(sound)),
        ("pictures", [ours, theirs].map(pictures)),
    ];
    for (track, [found, expected]) in tracks {
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            wrong.push(format!(
                "{}: {track} {found}, recorded {expected}",
                case["case"]
            ));
            continue;
        }
        let pairs = found.iter().zip(&expected);
        let off = pairs.map(|(found, expected)| (found - expected).abs());
        let off = off.sum::<f64>() / found.len().max(1) as f64;
        let most = case["most"][track].as_f64().unwrap_or_default();
        if off > most {
            wrong.push(format!(
                "{}: {track} is {off} off, and may be {most}",
                case["case"]
            ));
        }
    }
    wrong
}

/// What a file tells of its tracks, and whether it has the graph that made it.
fn told(file: &Path) -> Json {
    let probed = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-show_streams",
            "-show_format",
            "-of",
            "json",
        ])
        .arg(file)
        .output()
        .unwrap();
    let probed: Json = serde_json::from_slice(&probed.stdout).unwrap();
    let streams = probed["streams"].as_array().unwrap();
    let kept = [
        "codec_name",
        "width",
        "height",
        "pix_fmt",
        "r_frame_rate",
        "color_range",
        "color_space",
        "color_transfer",
        "color_primaries",
        "sample_rate",
        "channels",
    ];
    let tracks = streams.iter().map(|stream| {
        let kept = kept
            .iter()
            .map(|name| ((*name).to_owned(), stream[*name].clone()));
        Json::Object(kept.collect())
    });
    let tags = streams.iter().chain([&probed["format"]]);
    let tags = tags.filter_map(|of| of["tags"].as_object()).flatten();
    let mut names = tags.map(|(name, _)| name.to_lowercase());
    json!({
        "format": probed["format"]["format_name"],
        "tracks": tracks.collect::<Vec<_>>(),
        "prompt": names.any(|name| name == "prompt"),
    })
}

fn decoded(file: &Path, options: &[&str]) -> Vec<u8> {
    let program = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(file)
        .args(options)
        .arg("pipe:1")
        .output()
        .unwrap();
    program.stdout
}

/// The samples of a file's sound; none if it has none.
fn sound(file: &Path) -> Vec<f64> {
    let bytes = decoded(file, &["-map", "0:a", "-f", "f32le", "-c:a", "pcm_f32le"]);
    let samples = bytes.as_chunks().0.iter();
    samples
        .map(|sample| f64::from(f32::from_le_bytes(*sample)))
        .collect()
}

/// The levels of a file's pictures; none if it has none.
fn pictures(file: &Path) -> Vec<f64> {
    let options = ["-map", "0:v", "-f", "rawvideo", "-pix_fmt", "rgba"];
    decoded(file, &options).into_iter().map(f64::from).collect()
}
