//! Videos against what a real ComfyUI read of the same files, and what saved ones tell of their colours.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::bench::{Bench, CONFIG};
use crate::files::has_ffmpeg;
use crate::goldens;
use crate::latest::{made, of_node};
use crate::shaders::{levels, near};

#[tokio::test]
async fn pictures_of_videos_are_those_that_the_real_one_read() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let recorded = goldens::json(&folder.join("videos.json"));
    let recorded = recorded.as_object().unwrap();
    assert_eq!(
        recorded.len(),
        2,
        "one as it is stored, and one that is turned"
    );
    let mut bench = Bench::with(CONFIG, vec![levels()]);
    for (file, expected) in recorded {
        let bytes = std::fs::read(folder.join(file)).unwrap();
        bench.upload(file, &bytes).await;
        let told = bench
            .run(&json!({
                "1": {"class_type": "LoadVideo", "inputs": {"file": file}},
                "2": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
                "3": {"class_type": "Shown", "inputs": {"value": ["2", 0]}},
            }))
            .await
            .expect_success();
        let found = of_node(&told.events, "3");
        assert_eq!(found["shape"], expected["shape"], "{file}");
        assert!(
            near(&found["levels"], &expected["levels"]),
            "{file}: {found}"
        );
    }
}

#[tokio::test]
async fn a_video_of_pictures_says_that_its_colors_are_srgb() {
    if !has_ffmpeg() {
        return;
    }
    let bench = Bench::with(CONFIG, vec![made()]);
    let told = bench
        .run(&json!({
            "1": {"class_type": "Made", "inputs": {"of": {"$image": [2, 32, 32, 3, 1]}}},
            "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 4.0}},
            "3": {"class_type": "SaveVideo", "inputs": {
                "video": ["2", 0], "filename_prefix": "video", "format": "auto", "codec": "auto",
            }},
        }))
        .await
        .expect_success();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("video.mp4");
    std::fs::write(&file, &told.outputs[0].1).unwrap();
    let probed = std::process::Command::new("ffprobe")
        .args(["-v", "error", "-show_streams", "-of", "json"])
        .arg(&file)
        .output()
        .unwrap();
    let probed: Json = serde_json::from_slice(&probed.stdout).unwrap();
    let stream = &probed["streams"][0];
    let told = [
        "color_space",
        "color_transfer",
        "color_primaries",
        "color_range",
    ];
    let told = told.map(|name| stream[name].as_str().unwrap_or("nothing"));
    assert_eq!(told, ["bt709", "iec61966-2-1", "bt709", "tv"], "{stream:#}");
}
