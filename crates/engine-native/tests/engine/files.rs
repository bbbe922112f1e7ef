//! Files that newer classes save and load: texts, deep pictures, comparisons, sounds and videos.

use engine_native::images::codec::{self, Limits};
use serde_json::json;
use workflow_core::OutputKind;

use crate::bench::{Bench, CONFIG, Told, has_ffmpeg};
use crate::latest::{made, shown};

fn bench() -> Bench {
    Bench::with(CONFIG, vec![made(), shown()])
}

/// What a node showed, as JSON.
fn ui(told: &Told, node: &str) -> serde_json::Value {
    let prefix = format!("executed {node} ");
    let line = told
        .events
        .iter()
        .find_map(|line| line.strip_prefix(&prefix));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{node} showed nothing: {told:?}"))).unwrap()
}

#[tokio::test]
async fn texts_are_saved_in_their_format() {
    for (format, text, content) in [
        ("txt", "ä\n", "ä\n"),
        ("md", "# a", "# a"),
        (
            "json",
            r#"{"b": [1, "ä"], "a": 1.50}"#,
            "{\n  \"b\": [\n    1,\n    \"ä\"\n  ],\n  \"a\": 1.5\n}",
        ),
        ("json", "{no json", "{no json"),
    ] {
        let told = bench()
            .run(&json!({
                "1": {"class_type": "PrimitiveStringMultiline", "inputs": {"value": text}},
                "2": {"class_type": "SaveText", "inputs": {"text": ["1", 0], "filename_prefix": "notes/a", "format": format}},
            }))
            .await
            .expect_success();
        let [(output, bytes)] = &told.outputs[..] else {
            panic!("one file: {told:?}")
        };
        assert_eq!(output.path.as_str(), format!("notes/a_00001_.{format}"));
        assert_eq!(output.kind, OutputKind::Text);
        assert_eq!(std::str::from_utf8(bytes).unwrap(), content);
        let ui = ui(&told, "2");
        assert_eq!(ui["text"], json!([text]));
        assert_eq!(ui["files"][0]["filename"], format!("a_00001_.{format}"));
    }
}

#[tokio::test]
async fn pictures_are_saved_with_16_bits() {
    let graph = |depth: &str| {
        json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [2, 9, 11, 3, 1]}}},
            "2": {"class_type": "SaveImageAdvanced", "inputs": {
                "images": ["1", 0], "filename_prefix": "deep", "format": "png", "format.bit_depth": depth,
            }},
        })
    };
    let shallow = bench().run(&graph("8-bit")).await.expect_success();
    let deep = bench().run(&graph("16-bit")).await.expect_success();
    assert_eq!((shallow.outputs.len(), deep.outputs.len()), (2, 2));
    for ((_, shallow), (output, deep)) in shallow.outputs.iter().zip(&deep.outputs) {
        assert_eq!((shallow[24], deep[24]), (8, 16), "bits a sample");
        assert_eq!(output.content_type, "image/png");
        let shape = |png: &[u8]| {
            let header = codec::probe(png, &Limits::default()).unwrap();
            (header.width, header.height)
        };
        assert_eq!(shape(shallow), (11, 9));
        assert_eq!(shape(deep), (11, 9));
    }
}

#[tokio::test]
async fn a_comparison_shows_both_sides() {
    let told = bench()
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [2, 4, 4, 3, 1]}}},
            "2": {"class_type": "ImageCompare", "inputs": {"image_a": ["1", 0]}},
        }))
        .await
        .expect_success();
    assert!(told.outputs.iter().all(|(output, _)| output.temp));
    let ui = ui(&told, "2");
    assert_eq!(ui["a_images"].as_array().unwrap().len(), 2, "{ui}");
    assert_eq!(ui["b_images"], json!([]));
    assert_eq!(ui["a_images"][0]["type"], "temp");
}

#[tokio::test]
async fn a_switch_runs_only_the_chosen_side() {
    let told = bench()
        .run(&json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}},
            "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
            "3": {"class_type": "ComfySwitchNode", "inputs": {"switch": true, "on_true": ["1", 0], "on_false": ["2", 0]}},
            "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
        }))
        .await
        .expect_success();
    let started: Vec<&str> = told.lines(&["started "]);
    assert!(
        !started.iter().any(|line| line.contains("ImageInvert")),
        "{started:?}"
    );
    assert!(
        started.iter().any(|line| line.contains("ComfySwitchNode")),
        "{started:?}"
    );
}

#[tokio::test]
async fn sounds_are_saved_and_loaded() {
    let mut bench = bench();
    let told = bench
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$audio": [1, 2, 9000, 1, 8000]}}},
            "2": {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "audio/ComfyUI"}},
        }))
        .await
        .expect_success();
    let [(output, flac)] = &told.outputs[..] else {
        panic!("one file: {told:?}")
    };
    assert_eq!(output.path.as_str(), "audio/ComfyUI_00001_.flac");
    assert_eq!(output.kind, OutputKind::Audio);
    assert!(flac.starts_with(b"fLaC"));
    let prompt = b"prompt={\"1\"";
    assert!(
        flac.windows(prompt.len()).any(|part| part == prompt),
        "it carries its graph"
    );
    bench.upload("sound.flac", flac).await;
    let told = bench
        .run(&json!({
            "1": {"class_type": "LoadAudio", "inputs": {"audio": "sound.flac"}},
            "2": {"class_type": "Shown", "inputs": {"value": ["1", 0]}},
            "3": {"class_type": "Made", "inputs": {"of": {"$audio": [1, 2, 9000, 1, 8000]}}},
            "4": {"class_type": "AudioMerge", "inputs": {"audio1": ["1", 0], "audio2": ["3", 0], "merge_method": "subtract"}},
            "5": {"class_type": "Shown", "inputs": {"value": ["4", 0]}},
            "6": {"class_type": "EmptyAudio", "inputs": {"duration": 1.125, "sample_rate": 8000, "channels": 2}},
            "7": {"class_type": "Shown", "inputs": {"value": ["6", 0]}},
        }))
        .await
        .expect_success();
    let told = |node: &str| ui(&told, node)["told"][0][0].as_str().unwrap().to_owned();
    assert!(
        told("2").starts_with("AUDIO [1, 2, 9000] 8000"),
        "{}",
        told("2")
    );
    // FLAC of 16 bits differs from what was saved by less than what `Shown` tells apart.
    assert_eq!(told("5"), told("7"), "not the sound that was saved");
}

#[tokio::test]
async fn what_is_no_sound_is_told() {
    let mut bench = bench();
    bench.upload("text.wav", b"this is no sound").await;
    let told = bench
        .run(&json!({
            "1": {"class_type": "LoadAudio", "inputs": {"audio": "text.wav"}},
            "2": {"class_type": "PreviewAudio", "inputs": {"audio": ["1", 0]}},
        }))
        .await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(error.contains("use WAV, FLAC, MP3"), "{error}");
}

#[tokio::test]
async fn videos_are_made_and_taken_apart_where_ffmpeg_is() {
    let mut bench = bench();
    let told = bench
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [10, 48, 64, 3, 1]}}},
            "2": {"class_type": "EmptyAudio", "inputs": {"duration": 1.0, "sample_rate": 44100, "channels": 2}},
            "3": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 10.0, "audio": ["2", 0]}},
            "4": {"class_type": "SaveVideo", "inputs": {
                "video": ["3", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto",
            }},
        }))
        .await;
    if !has_ffmpeg() {
        let error = format!("{:?}", told.result.unwrap_err());
        assert!(error.contains("FFmpeg, which is not installed"), "{error}");
        return;
    }
    let told = told.expect_success();
    let [(output, mp4)] = &told.outputs[..] else {
        panic!("one file: {told:?}")
    };
    assert_eq!(output.path.as_str(), "video/ComfyUI_00001_.mp4");
    assert_eq!(&mp4[4..8], b"ftyp");
    assert_eq!(ui(&told, "4")["animated"], json!([true]));
    bench.upload("video.mp4", mp4).await;
    let told = bench
        .run(&json!({
            "1": {"class_type": "LoadVideo", "inputs": {"file": "video.mp4"}},
            "2": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
            "3": {"class_type": "Shown", "inputs": {"value": ["2", 0]}},
            "4": {"class_type": "Shown", "inputs": {"value": ["2", 1]}},
            "5": {"class_type": "Shown", "inputs": {"value": ["2", 2]}},
            "6": {"class_type": "Video Slice", "inputs": {
                "video": ["1", 0], "start_time": 0.5, "duration": 0.3, "strict_duration": true,
            }},
            "7": {"class_type": "GetVideoComponents", "inputs": {"video": ["6", 0]}},
            "8": {"class_type": "Shown", "inputs": {"value": ["7", 0]}},
            "9": {"class_type": "SaveVideo", "inputs": {
                "video": ["1", 0], "filename_prefix": "video/again", "format": "auto", "codec": "auto",
            }},
            "10": {"class_type": "VideoTemporalCrop", "inputs": {"video": ["1", 0], "start_frame": 5, "length": 3}},
            "11": {"class_type": "GetVideoComponents", "inputs": {"video": ["10", 0]}},
            "12": {"class_type": "Shown", "inputs": {"value": ["11", 0]}},
            "13": {"class_type": "ImageFromBatch", "inputs": {"image": ["2", 0], "batch_index": 5, "length": 3}},
            "14": {"class_type": "Shown", "inputs": {"value": ["13", 0]}},
            "15": {"class_type": "VideoFrameSample", "inputs": {
                "video": ["10", 0], "num_frames": 2, "strategy": "uniform", "seed": 0,
            }},
            "16": {"class_type": "GetVideoComponents", "inputs": {"video": ["15", 0]}},
            "17": {"class_type": "Shown", "inputs": {"value": ["16", 0]}},
            "18": {"class_type": "ImageFromBatch", "inputs": {"image": ["2", 0], "batch_index": 7, "length": 1}},
            "19": {"class_type": "ImageFromBatch", "inputs": {"image": ["2", 0], "batch_index": 5, "length": 1}},
            "20": {"class_type": "ImageBatch", "inputs": {"image1": ["19", 0], "image2": ["18", 0]}},
            "21": {"class_type": "Shown", "inputs": {"value": ["20", 0]}},
        }))
        .await
        .expect_success();
    let shown = |node: &str| ui(&told, node)["told"][0][0].as_str().unwrap().to_owned();
    assert!(
        shown("3").starts_with("IMAGE [10, 48, 64, 3]"),
        "{}",
        shown("3")
    );
    assert!(shown("4").starts_with("AUDIO [1, 2, "), "{}", shown("4"));
    assert_eq!(shown("5"), "FLOAT 10.0");
    assert!(
        shown("8").starts_with("IMAGE [3, 48, 64, 3]"),
        "{}",
        shown("8")
    );
    assert_eq!(shown("12"), shown("14"), "a range of frames");
    assert_eq!(shown("17"), shown("21"), "the ends of that range");
    let (_, again) = told.outputs.last().unwrap();
    assert_eq!(again, mp4, "a file is saved as it came");
}

#[tokio::test]
async fn what_ffmpeg_cannot_read_is_told_without_paths() {
    if !has_ffmpeg() {
        return;
    }
    let mut bench = bench();
    // A list of files, which must not be followed.
    bench
        .upload("list.mp4", b"ffconcat version 1.0\nfile /etc/hostname\n")
        .await;
    let told = bench
        .run(&json!({
            "1": {"class_type": "LoadVideo", "inputs": {"file": "list.mp4"}},
            "2": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
            "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
        }))
        .await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(
        error.contains("FFmpeg could not do this") && !error.contains("/tmp"),
        "{error}"
    );
}
