//! Every recorded load, compared by the hash of its decoded pixels.

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::codec::{Channel, Limits, decode, decode_channel};
use crate::pixels::Frame;

/// The recordings, or nothing after saying so.
pub(super) fn recordings() -> Option<(PathBuf, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/goldens");
    match std::fs::read(folder.join("index.json")) {
        Ok(index) => Some((folder, serde_json::from_slice(&index).unwrap())),
        Err(_) => {
            #[expect(clippy::print_stderr, reason = "a skipped test says why")]
            {
                eprintln!("skipped: no recordings beside the repository (../shared/goldens)");
            }
            None
        }
    }
}

/// One recorded file, or nothing after saying so.
pub(super) fn golden(path: &str) -> Option<Vec<u8>> {
    let (folder, _) = recordings()?;
    Some(std::fs::read(folder.join(path)).unwrap())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A mask as MaskToImage shows it.
fn grey(mask: &Frame) -> Vec<u8> {
    mask.to_bytes().into_iter().flat_map(|v| [v; 3]).collect()
}

/// Size and hash of output `i` of a node.
fn recorded<'a>(case: &'a Value, node: &str, i: usize) -> Option<(&'a Value, &'a str)> {
    let outputs = case["outputs"].as_array().unwrap();
    let output = outputs
        .iter()
        .find(|output| output["node"] == node && output["i"] == i)?;
    let frame = &output["frames"][0];
    Some((&frame["size"], frame["sha256"].as_str().unwrap()))
}

fn shown(frame: &Frame, bytes: &[u8]) -> (Value, String) {
    (
        serde_json::json!([frame.width(), frame.height()]),
        sha256(bytes),
    )
}

#[test]
fn every_recorded_picture_loads_as_recorded() {
    let Some((folder, index)) = recordings() else {
        return;
    };
    let mut differing = Vec::new();
    let mut compared = 0;
    for case in index["cases"].as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        if !name.starts_with("load_") || name == "load_image_mask" {
            continue;
        }
        let input = folder.join(case["inputs"][0].as_str().unwrap());
        let loaded = decode(&std::fs::read(input).unwrap(), &Limits::default()).unwrap();
        let frames = loaded.image.frames();
        let images = frames
            .iter()
            .map(|frame| ("2", shown(frame, &frame.to_bytes())));
        let masks = loaded
            .mask
            .frames()
            .iter()
            .map(|frame| ("4", shown(frame, &grey(frame))));
        for (at, (node, (size, hash))) in images.enumerate().chain(masks.enumerate()) {
            compared += 1;
            if recorded(case, node, at) != Some((&size, &hash)) {
                differing.push(format!("{name} node {node} frame {at}"));
            }
        }
        let recorded_frames = case["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|output| output["node"] == "2")
            .count();
        assert_eq!(frames.len(), recorded_frames, "{name}");
    }
    assert!(compared >= 70, "only {compared} outputs were found");
    assert_eq!(differing, Vec::<String>::new());
}

#[test]
fn every_recorded_channel_loads_as_recorded() {
    let Some((folder, index)) = recordings() else {
        return;
    };
    let case = index["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|case| case["case"] == "load_image_mask")
        .unwrap();
    let workflow = std::fs::read(folder.join(case["workflow"].as_str().unwrap())).unwrap();
    let workflow: Value = serde_json::from_slice(&workflow).unwrap();
    let mut compared = 0;
    for (id, node) in workflow.as_object().unwrap() {
        if node["class_type"] != "LoadImageMask" {
            continue;
        }
        let channel = match node["inputs"]["channel"].as_str().unwrap() {
            "red" => Channel::Red,
            "green" => Channel::Green,
            "blue" => Channel::Blue,
            _ => Channel::Alpha,
        };
        let file = std::fs::read(
            folder
                .join("load_image_mask")
                .join(node["inputs"]["image"].as_str().unwrap()),
        )
        .unwrap();
        let mask = decode_channel(&file, channel, &Limits::default()).unwrap();
        // LoadImageMask, MaskToImage and SaveImage follow one another.
        let saved = (id.parse::<usize>().unwrap() + 2).to_string();
        let (size, hash) = shown(mask.first(), &grey(mask.first()));
        assert_eq!(
            recorded(case, &saved, 0),
            Some((&size, hash.as_str())),
            "node {id}"
        );
        compared += 1;
    }
    assert_eq!(compared, 10);
}
