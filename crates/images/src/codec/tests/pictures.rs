//! The committed pictures against what Pillow made of them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::goldens::sha256;
use crate::codec::{Channel, Limits, decode, decode_channel, probe};
use crate::pixels::Frame;

/// The committed pictures, by name, with what is recorded of each.
pub(super) fn pictures() -> Vec<(String, Vec<u8>, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let index: Value =
        serde_json::from_slice(&std::fs::read(folder.join("pictures.json")).unwrap()).unwrap();
    let entries = index.as_object().unwrap().iter();
    entries
        .map(|(name, entry)| {
            (
                name.clone(),
                std::fs::read(folder.join(name)).unwrap(),
                entry.clone(),
            )
        })
        .collect()
}

fn described(frame: &Frame) -> Value {
    json!([frame.width(), frame.height(), sha256(&frame.to_bytes())])
}

#[test]
fn every_picture_loads_as_pillow_loads_it() {
    let mut differing = Vec::new();
    for (name, bytes, recorded) in pictures() {
        let Some(images) = recorded.get("images") else {
            continue;
        };
        let loaded = match decode(&bytes, &Limits::default()) {
            Ok(loaded) => loaded,
            Err(error) => {
                differing.push(format!("{name}: {error}"));
                continue;
            }
        };
        let alpha = decode_channel(&bytes, Channel::Alpha, &Limits::default()).unwrap();
        let described_all = |frames: &[std::sync::Arc<Frame>]| {
            frames
                .iter()
                .map(|frame| described(frame))
                .collect::<Value>()
        };
        let pairs = [
            ("image", described_all(loaded.image.frames()), images),
            (
                "mask",
                described_all(loaded.mask.frames()),
                &recorded["masks"],
            ),
            ("alpha", described(alpha.first()), &recorded["alpha"]),
        ];
        for (what, ours, theirs) in pairs {
            if ours != *theirs {
                differing.push(format!("{name}: {what} {ours} instead of {theirs}"));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn what_pillow_refuses_is_shown_or_refused_in_words() {
    for (name, bytes, _) in pictures()
        .iter()
        .filter(|(.., recorded)| recorded.get("refused").is_some())
    {
        if let Err(error) = decode(bytes, &Limits::default()) {
            assert!(error.to_string().len() > 20, "{name}: {error}");
        }
    }
}

#[test]
fn the_header_knows_the_size_of_every_picture() {
    for (name, bytes, recorded) in pictures() {
        let Some(first) = recorded["images"].get(0) else {
            continue;
        };
        let probe = probe(&bytes, &Limits::default()).unwrap();
        let shown = (
            first[0].as_u64().unwrap() as usize,
            first[1].as_u64().unwrap() as usize,
        );
        let turned = (probe.height, probe.width);
        assert!(
            shown == (probe.width, probe.height) || shown == turned,
            "{name}: {probe:?}"
        );
        let frames = recorded["images"].as_array().unwrap().len();
        // Frames of another size are dropped.
        let fewer_are_shown = name == "gif_grows.gif";
        assert!(
            fewer_are_shown || probe.frames.is_none_or(|announced| announced == frames),
            "{name}: {probe:?}"
        );
    }
}
