//! Whole graphs against what they gave in a real ComfyUI: files that are loaded, lists of videos, and what output nodes hand on.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, has_ffmpeg};
use crate::goldens;
use crate::latest::{made, made_list, of_node, same, shown};

#[tokio::test]
async fn graphs_give_what_they_gave_in_the_real_one() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let cases = goldens::json(&folder.join("graphs.json"));
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 20, "the set is whole");
    let mut wrong = Vec::new();
    for case in cases {
        let mut bench = Bench::with(CONFIG, vec![made(), made_list(), shown()]);
        for file in case["inputs"].as_array().unwrap() {
            let path = folder.join(file.as_str().unwrap());
            let name = path.file_name().unwrap().to_str().unwrap();
            bench.upload(name, &std::fs::read(&path).unwrap()).await;
        }
        let told = bench.run(&case["workflow"]).await;
        for (node, expected) in case["shown"].as_object().unwrap() {
            let found = of_node(&told.events, node);
            if !same(&found, expected) {
                wrong.push(format!(
                    "{} {node}: {found}, recorded {expected} {:?}",
                    case["case"], told.result
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What an older graph and a newer one send for the same file.
#[tokio::test]
async fn an_encoder_is_named_beside_the_container_or_within_it() {
    if !has_ffmpeg() {
        return;
    }
    let graph = |more: Json| {
        let mut save = json!({"class_type": "SaveVideo", "inputs": {
            "video": ["2", 0], "filename_prefix": "video",
        }});
        let inputs = save["inputs"].as_object_mut().unwrap();
        inputs.extend(more.as_object().unwrap().clone());
        json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [2, 16, 16, 3, 1]}}},
            "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 8.0}},
            "3": save,
        })
    };
    for (more, path) in [
        (json!({"format": "auto"}), "video_00001_.mp4"),
        (
            json!({"format": "mp4", "codec": "h264"}),
            "video_00001_.mp4",
        ),
        (
            json!({"format": "mkv", "codec": "auto"}),
            "video_00001_.mkv",
        ),
        (
            json!({"format": "mkv", "format.codec": "h264"}),
            "video_00001_.mkv",
        ),
    ] {
        let bench = Bench::with(CONFIG, vec![made()]);
        let told = bench.run(&graph(more.clone())).await.expect_success();
        let [(output, _)] = &told.outputs[..] else {
            panic!("one file: {told:?}")
        };
        assert_eq!(output.path.as_str(), path, "{more}");
    }
    let bench = Bench::with(CONFIG, vec![made()]);
    let told = bench
        .run(&graph(json!({"format": "webm", "codec": "h264"})))
        .await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(error.contains("WebM takes no H.264; choose AV1"), "{error}");
}

/// A file of a container goes into another one without being encoded again, and colours are not called by another name.
#[tokio::test]
async fn tracks_are_copied_where_the_container_takes_them() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded/saved");
    let mut bench = Bench::with(CONFIG, Vec::new());
    let file = std::fs::read(folder.join("mkv_pq.mkv")).unwrap();
    bench.upload("pq.mkv", &file).await;
    let graph = |color: &str| {
        json!({
            "1": {"class_type": "LoadVideo", "inputs": {"file": "pq.mkv"}},
            "2": {"class_type": "SaveVideo", "inputs": {
                "video": ["1", 0], "filename_prefix": "video", "format": "mkv", "format.codec": "h264",
                "format.codec.encoding": if color == "auto" { "auto" } else { "re-encode" },
                "format.codec.encoding.color_space": color,
            }},
        })
    };
    let told = bench.run(&graph("auto")).await.expect_success();
    let (output, bytes) = &told.outputs[0];
    assert_eq!(output.content_type, "video/x-matroska");
    // The same packets with another graph beside them.
    assert!(bytes.len().abs_diff(file.len()) < 2048, "{}", bytes.len());
    // Who chooses no container has an MP4, as in ComfyUI; the packets are the same again.
    let unchosen = json!({
        "1": {"class_type": "LoadVideo", "inputs": {"file": "pq.mkv"}},
        "2": {"class_type": "SaveVideo", "inputs": {
            "video": ["1", 0], "filename_prefix": "unchosen", "format": "auto", "codec": "auto",
        }},
    });
    let told = bench.run(&unchosen).await.expect_success();
    let (output, mp4) = &told.outputs[0];
    assert_eq!(output.path.as_str(), "unchosen_00001_.mp4");
    assert_eq!(output.content_type, "video/mp4");
    assert_eq!(&mp4[4..8], b"ftyp");
    assert!(mp4.len().abs_diff(file.len()) < 4096, "{}", mp4.len());
    let told = bench.run(&graph("sRGB")).await;
    let error = format!("{:?}", told.result.unwrap_err());
    assert!(
        error.contains("are HDR PQ, and they are not converted"),
        "{error}"
    );
}
