//! Videos cut and trimmed, as pictures and as files.

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG, Told, has_ffmpeg};
use crate::latest::{made, shown};

/// What comes of a video of 10 pictures of 48x64 a second, and what of one that is edited.
fn graph(source: &Json, class: &str, edit: Json) -> Json {
    let mut edit = edit;
    edit["video"] = json!(["video", 0]);
    json!({
        "1": {"class_type": "Made", "inputs": {"of": {"$image": [10, 48, 64, 3, 1]}}},
        "video": source,
        "edit": {"class_type": class, "inputs": edit},
        "parts": {"class_type": "GetVideoComponents", "inputs": {"video": ["edit", 0]}},
        "out": {"class_type": "Shown", "inputs": {"value": ["parts", 0]}},
    })
}

fn created() -> Json {
    json!({"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 10.0}})
}

fn ui(told: &Told, node: &str) -> Json {
    let prefix = format!("executed {node} ");
    let line = told
        .events
        .iter()
        .find_map(|line| line.strip_prefix(&prefix));
    line.map_or(Json::Null, |line| serde_json::from_str(line).unwrap())
}

fn crop(x: i64, y: i64, width: i64, height: i64) -> Json {
    let rectangle = json!({"x": x, "y": y, "width": width, "height": height});
    json!({"crop": {"__value__": {"crop": rectangle}}})
}

fn trim(start: f64, duration: f64, strict: bool) -> Json {
    let part = json!({"start_time": start, "duration": duration});
    json!({"trim": {"__value__": {"trim": part}}, "strict_duration": strict})
}

#[tokio::test]
async fn videos_are_edited_and_the_page_is_shown_them() {
    if !has_ffmpeg() {
        return;
    }
    let mut bench = Bench::with(CONFIG, vec![made(), shown()]);
    let saved = bench
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [10, 48, 64, 3, 1]}}},
            "2": created(),
            "3": {"class_type": "SaveVideo", "inputs": {
                "video": ["2", 0], "filename_prefix": "video", "format": "auto", "codec": "auto",
            }},
        }))
        .await
        .expect_success();
    let mp4 = saved.outputs[0].1.clone();
    bench.upload("video.mp4", &mp4).await;
    let file = json!({"class_type": "LoadVideo", "inputs": {"file": "video.mp4"}});
    for source in [created(), file] {
        for (class, edit, expected) in [
            ("VideoCrop", crop(3, 5, 21, 11), "IMAGE [10, 10, 20, 3]"),
            ("VideoCrop", crop(60, 40, 99, 99), "IMAGE [10, 8, 4, 3]"),
            ("VideoCrop", crop(0, 0, 0, 0), "IMAGE [10, 48, 64, 3]"),
            (
                "VideoCrop",
                json!({"crop": {"__value__": {}}}),
                "IMAGE [10, 48, 64, 3]",
            ),
            ("VideoTrim", trim(0.5, 0.3, true), "IMAGE [3, 48, 64, 3]"),
            ("VideoTrim", trim(0.0, 0.0, true), "IMAGE [10, 48, 64, 3]"),
        ] {
            let told = bench.run(&graph(&source, class, edit.clone())).await;
            let told = told.expect_success();
            let found = ui(&told, "out")["told"][0][0].clone();
            assert!(
                found.as_str().unwrap().starts_with(expected),
                "{class} {edit}: {found}"
            );
            let preview = ui(&told, "edit");
            assert_eq!(preview["animated"], json!([true]), "{preview}");
            assert_eq!(preview["images"][0]["type"], "temp", "{preview}");
        }
    }
}

#[tokio::test]
async fn a_crop_takes_the_pixels_that_lie_there() {
    if !has_ffmpeg() {
        return;
    }
    let bench = Bench::with(CONFIG, vec![made(), shown()]);
    let mut nodes = graph(&created(), "VideoCrop", crop(4, 6, 20, 10));
    nodes["cut"] = json!({"class_type": "ImageCrop", "inputs": {
        "image": ["1", 0], "width": 20, "height": 10, "x": 4, "y": 6,
    }});
    nodes["same"] = json!({"class_type": "Shown", "inputs": {"value": ["cut", 0]}});
    let told = bench.run(&nodes).await.expect_success();
    assert_eq!(ui(&told, "out")["told"], ui(&told, "same")["told"]);
}

#[tokio::test]
async fn edits_that_make_no_sense_are_refused() {
    if !has_ffmpeg() {
        return;
    }
    let bench = Bench::with(CONFIG, vec![made(), shown()]);
    for (class, edit, expected) in [
        (
            "VideoTrim",
            trim(0.0, -1.0, false),
            "the duration must be 0",
        ),
        (
            "VideoTrim",
            trim(2.0, 1.0, false),
            "the video is 1.000 seconds long",
        ),
        (
            "VideoTrim",
            trim(0.5, 1.0, true),
            "the video is 1.000 seconds long",
        ),
        (
            "VideoCrop",
            json!({"crop": {"__value__": {"crop": {"width": "a"}}}}),
            "width must be a number",
        ),
    ] {
        let told = bench.run(&graph(&created(), class, edit)).await;
        let error = format!("{:?}", told.result.unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}
