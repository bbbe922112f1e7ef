//! Videos against what a real ComfyUI read of the same files, and the colours of saved ones.

use std::path::Path;
use std::sync::Arc;

use engine_native::define::link;
use engine_native::{Node, NodeOutput};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::bench::{Bench, CONFIG, has_ffmpeg};
use crate::goldens;
use crate::latest::of_node;
use crate::shaders::levels;
use crate::toys::toy;

/// FFmpeg computes its pictures by other steps where the processor is of another kind, and so does ComfyUI's.
const OF_A_PROCESSOR: &str = "video_full_range.mp4";

#[tokio::test]
async fn pictures_of_videos_are_those_that_the_real_one_read() {
    if !has_ffmpeg() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/recorded");
    let recorded = goldens::json(&folder.join("videos.json"));
    let recorded = recorded.as_object().unwrap();
    assert_eq!(recorded.len(), 6, "the set is whole");
    let mut bench = Bench::with(CONFIG, vec![samples()]);
    let mut wrong = Vec::new();
    for (file, expected) in recorded {
        if file == OF_A_PROCESSOR && !cfg!(target_arch = "x86_64") {
            println!("skipped: {file} was recorded on x86-64");
            continue;
        }
        let bytes = std::fs::read(folder.join(file)).unwrap();
        let found = read(&mut bench, file, &bytes).await;
        if &found != expected {
            wrong.push(format!("{file}: {found}, recorded {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the class `Shown` of this bench tells of the pictures of a file.
async fn read(bench: &mut Bench, file: &str, bytes: &[u8]) -> Json {
    bench.upload(file, bytes).await;
    let told = bench
        .run(&json!({
            "1": {"class_type": "LoadVideo", "inputs": {"file": file}},
            "2": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
            "3": {"class_type": "Shown", "inputs": {"value": ["2", 0]}},
        }))
        .await
        .expect_success();
    of_node(&told.events, "3")
}

/// `Shown`: tells a hash of all samples of pictures as they are, as the recorder did.
fn samples() -> Arc<dyn Node> {
    let mut node = toy(
        "Shown",
        vec![link("value", "IMAGE")],
        Vec::new(),
        |mut inputs, _| {
            let image = inputs.image("value")?;
            let mut hasher = Sha256::new();
            let samples = image.frames().iter().flat_map(|frame| frame.data());
            samples.for_each(|sample| hasher.update(sample.to_le_bytes()));
            let digest = hasher.finalize();
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let (height, width, channels) = image.first().shape();
            let mut output = NodeOutput::none();
            let shape = [image.frames().len(), height, width, channels];
            let told = json!({"shape": shape, "sha256": digest});
            output.ui.insert("told".to_owned(), json!([told]));
            Ok(output)
        },
    );
    node.definition.output_node = true;
    Arc::new(node)
}

/// A video of two pictures of one colour, as `SaveVideo` writes it.
async fn saved(bench: &Bench, (width, height): (usize, usize), color: u32) -> Vec<u8> {
    let told = bench
        .run(&json!({
            "1": {"class_type": "EmptyImage", "inputs": {
                "width": width, "height": height, "batch_size": 2, "color": color,
            }},
            "2": {"class_type": "CreateVideo", "inputs": {"images": ["1", 0], "fps": 4.0}},
            "3": {"class_type": "SaveVideo", "inputs": {
                "video": ["2", 0], "filename_prefix": "video", "format": "auto", "codec": "auto",
            }},
        }))
        .await
        .expect_success();
    told.outputs[0].1.to_vec()
}

/// That a saved video of one colour is read with its size and that colour.
async fn comes_back(size: (usize, usize), color: u32) {
    const MOST_OFF: i16 = 3;
    let mut bench = Bench::with(CONFIG, vec![levels()]);
    let bytes = saved(&bench, size, color).await;
    let found = read(&mut bench, "video.mp4", &bytes).await;
    let (width, height) = size;
    assert_eq!(found["shape"], json!([2, height, width, 3]), "{size:?}");
    let [_, expected @ ..] = color.to_be_bytes();
    let found = found["levels"].as_str().unwrap();
    assert_eq!(found.len(), 2 * height * width * 3 * 2, "{size:?}");
    for pixel in found.as_bytes().chunks_exact(6) {
        let pixel = std::str::from_utf8(pixel).unwrap();
        let pixel = u32::from_str_radix(pixel, 16).unwrap();
        let [_, levels @ ..] = pixel.to_be_bytes();
        let is_near = levels
            .iter()
            .zip(expected)
            .all(|(level, expected)| (i16::from(*level) - i16::from(expected)).abs() <= MOST_OFF);
        assert!(is_near, "{size:?}: {pixel:06x} instead of {color:06x}");
    }
}

#[tokio::test]
async fn a_video_of_pictures_says_that_its_colors_are_srgb() {
    if !has_ffmpeg() {
        return;
    }
    let bench = Bench::with(CONFIG, Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("video.mp4");
    std::fs::write(&file, saved(&bench, (32, 32), 0xff_00_00).await).unwrap();
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

#[tokio::test]
async fn saved_colors_are_those_that_the_file_tells() {
    if !has_ffmpeg() {
        return;
    }
    // Each differs by 20 levels or more if the file is written by another matrix than it tells.
    for color in [0xff_00_00, 0x00_ff_00] {
        comes_back((32, 32), color).await;
    }
}

#[tokio::test]
async fn videos_with_short_sides_are_read() {
    if !has_ffmpeg() {
        return;
    }
    for size in [(2, 2), (8, 8), (14, 40), (40, 14)] {
        comes_back(size, 0xff_00_00).await;
    }
}
