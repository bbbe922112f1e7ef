//! What is measured: nodes with their inputs, and what bounds each.

use serde_json::{Value, json};

/// One node, codec or graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    /// Its name here and among the peers.
    pub(super) name: &'static str,
    /// The class, or `encode_png`, `decode_png`, `graph`.
    pub(super) class: &'static str,
    /// Inputs that are pictures or masks, by the name of a prepared one.
    pub(super) links: &'static [(&'static str, &'static str)],
    /// The other inputs, as JSON; `SIDE` stands for half the side.
    pub(super) constants: &'static str,
    /// What it is held to.
    pub(super) bound: Bound,
    /// How far its result may be from the peer's, of samples from 0 to 1; nothing where the two are not comparable.
    pub(super) agrees: Option<f64>,
}

/// What sums of floats in another order come to.
const ROUNDING: f64 = 4e-6;

/// Two levels of 8 bits: what rounding comes to where results are cut to levels in between.
const LEVELS: f64 = 2.01 / 255.0;

/// What bounds a node, and so what it is held to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Memory: it must touch so many floats for each pixel, reading and writing.
    Memory(f64),
    /// Arithmetic over neighbours, held to its peer alone.
    Work,
    /// The compressor, held to eight times its peer.
    Encoder,
    /// The decompressor.
    Decoder,
    /// Everything together.
    Graph,
}

const fn node(
    name: &'static str,
    class: &'static str,
    links: &'static [(&'static str, &'static str)],
    constants: &'static str,
    bound: Bound,
) -> Scenario {
    Scenario {
        name,
        class,
        links,
        constants,
        bound,
        agrees: Some(ROUNDING),
    }
}

const A: &[(&str, &str)] = &[("image", "a")];
const MASK: &[(&str, &str)] = &[("mask", "mask")];

const fn scale(name: &'static str, constants: &'static str) -> Scenario {
    node(name, "ImageScale", A, constants, Bound::Work)
}

/// Everything that can be measured. What only moves references in one of the two is left out.
pub(super) const ALL: &[Scenario] = &[
    node("encode_png", "encode_png", &[], "{}", Bound::Encoder),
    node("decode_png", "decode_png", &[], "{}", Bound::Decoder),
    node("invert", "ImageInvert", A, "{}", Bound::Memory(6.0)),
    node(
        "invert_owned",
        "ImageInvert",
        &[("image", "own a")],
        "{}",
        Bound::Memory(6.0),
    ),
    node(
        "blend_normal",
        "ImageBlend",
        &[("image1", "a"), ("image2", "b")],
        r#"{"blend_factor": 0.5, "blend_mode": "normal"}"#,
        Bound::Memory(9.0),
    ),
    node(
        "blend_soft_light",
        "ImageBlend",
        &[("image1", "a"), ("image2", "b")],
        r#"{"blend_factor": 0.5, "blend_mode": "soft_light"}"#,
        Bound::Memory(9.0),
    ),
    node(
        "composite",
        "ImageCompositeMasked",
        &[("destination", "a"), ("source", "b"), ("mask", "mask")],
        r#"{"x": 0, "y": 0, "resize_source": false}"#,
        Bound::Memory(10.0),
    ),
    node(
        "porter_duff",
        "PorterDuffImageComposite",
        &[
            ("source", "a"),
            ("source_alpha", "mask"),
            ("destination", "b"),
            ("destination_alpha", "mask2"),
        ],
        r#"{"mode": "SRC_OVER"}"#,
        Bound::Memory(12.0),
    ),
    node("invert_mask", "InvertMask", MASK, "{}", Bound::Memory(2.0)),
    node(
        "threshold",
        "ThresholdMask",
        MASK,
        r#"{"value": 0.5}"#,
        Bound::Memory(2.0),
    ),
    node(
        "combine_masks",
        "MaskComposite",
        &[("destination", "mask"), ("source", "mask2")],
        r#"{"x": 0, "y": 0, "operation": "add"}"#,
        Bound::Memory(3.0),
    ),
    node(
        "color_to_mask",
        "ImageColorToMask",
        A,
        r#"{"color": 8421504}"#,
        Bound::Memory(4.0),
    ),
    node(
        "join_alpha",
        "JoinImageWithAlpha",
        &[("image", "a"), ("alpha", "mask")],
        "{}",
        Bound::Memory(8.0),
    ),
    node(
        "split_alpha",
        "SplitImageWithAlpha",
        &[("image", "rgba")],
        "{}",
        Bound::Memory(8.0),
    ),
    node("to_yuv", "ImageRGBToYUV", A, "{}", Bound::Memory(12.0)),
    node(
        "from_yuv",
        "ImageYUVToRGB",
        &[("Y", "a"), ("U", "b"), ("V", "a")],
        "{}",
        Bound::Memory(12.0),
    ),
    Scenario {
        agrees: None,
        ..node(
            "noise",
            "ImageAddNoise",
            A,
            r#"{"seed": 7, "strength": 0.1}"#,
            Bound::Work,
        )
    },
    node(
        "flip",
        "ImageFlip",
        A,
        r#"{"flip_method": "y-axis: horizontally"}"#,
        Bound::Memory(6.0),
    ),
    node(
        "rotate",
        "ImageRotate",
        A,
        r#"{"rotation": "90 degrees"}"#,
        Bound::Work,
    ),
    node(
        "pad",
        "ImagePadForOutpaint",
        A,
        r#"{"left": 64, "top": 64, "right": 64, "bottom": 64, "feathering": 0}"#,
        Bound::Memory(7.0),
    ),
    node(
        "feather",
        "FeatherMask",
        MASK,
        r#"{"left": 64, "top": 64, "right": 64, "bottom": 64}"#,
        Bound::Memory(2.0),
    ),
    node(
        "blur",
        "ImageBlur",
        A,
        r#"{"blur_radius": 4, "sigma": 1.0}"#,
        Bound::Work,
    ),
    node(
        "sharpen",
        "ImageSharpen",
        A,
        r#"{"sharpen_radius": 1, "sigma": 1.0, "alpha": 1.0}"#,
        Bound::Work,
    ),
    node(
        "grow",
        "GrowMask",
        MASK,
        r#"{"expand": 6, "tapered_corners": true}"#,
        Bound::Work,
    ),
    node(
        "dilate",
        "Morphology",
        A,
        r#"{"operation": "dilate", "kernel_size": 3}"#,
        Bound::Work,
    ),
    Scenario {
        agrees: None,
        ..node(
            "canny",
            "Canny",
            A,
            r#"{"low_threshold": 0.1, "high_threshold": 0.3}"#,
            Bound::Work,
        )
    },
    Scenario {
        agrees: None,
        ..node(
            "quantize",
            "ImageQuantize",
            A,
            r#"{"colors": 64, "dither": "none"}"#,
            Bound::Work,
        )
    },
    scale(
        "nearest",
        r#"{"upscale_method": "nearest-exact", "width": "SIDE", "height": "SIDE", "crop": "disabled"}"#,
    ),
    scale(
        "bilinear",
        r#"{"upscale_method": "bilinear", "width": "SIDE", "height": "SIDE", "crop": "disabled"}"#,
    ),
    scale(
        "bicubic",
        r#"{"upscale_method": "bicubic", "width": "SIDE", "height": "SIDE", "crop": "disabled"}"#,
    ),
    scale(
        "area",
        r#"{"upscale_method": "area", "width": "SIDE", "height": "SIDE", "crop": "disabled"}"#,
    ),
    scale(
        "lanczos",
        r#"{"upscale_method": "lanczos", "width": "SIDE", "height": "SIDE", "crop": "disabled"}"#,
    ),
    node(
        "graph_invert",
        "graph",
        &[],
        r#"{
            "1": {"class_type": "LoadImage", "inputs": {"image": "photo"}},
            "2": {"class_type": "ImageInvert", "inputs": {"image": ["1", 0]}},
            "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "a"}}
        }"#,
        Bound::Graph,
    ),
    Scenario {
        agrees: Some(LEVELS),
        ..node(
            "graph_photo",
            "graph",
            &[],
            r#"{
                "1": {"class_type": "LoadImage", "inputs": {"image": "photo"}},
                "2": {"class_type": "ImageScale", "inputs": {"image": ["1", 0], "upscale_method": "lanczos", "width": "SIDE", "height": "SIDE", "crop": "disabled"}},
                "3": {"class_type": "ImageBlur", "inputs": {"image": ["2", 0], "blur_radius": 4, "sigma": 1.0}},
                "4": {"class_type": "ImageBlend", "inputs": {"image1": ["2", 0], "image2": ["3", 0], "blend_factor": 0.5, "blend_mode": "screen"}},
                "5": {"class_type": "SaveImage", "inputs": {"images": ["4", 0], "filename_prefix": "a"}}
            }"#,
            Bound::Graph,
        )
    },
];

/// The size of what is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Pixels a side.
    pub(super) side: u64,
    /// Pictures.
    pub(super) batch: u64,
    /// Threads.
    pub(super) threads: u64,
}

impl Scenario {
    /// What the measured program and the peers are asked.
    pub(super) fn request(&self, shape: Shape) -> Value {
        let half = (shape.side / 2).to_string();
        let constants = self.constants.replace("\"SIDE\"", &half);
        let constants: Value = serde_json::from_str(&constants).expect("constants are JSON");
        let links: serde_json::Map<_, _> = self
            .links
            .iter()
            .map(|(input, link)| ((*input).to_owned(), json!(link)))
            .collect();
        json!({
            "name": self.name,
            "class": self.class,
            "links": links,
            "constants": constants,
            "graph": constants,
            "side": shape.side,
            "batch": shape.batch,
            "threads": shape.threads,
        })
    }

    /// Whether a batch of many changes what is done; codecs and graphs here take one picture.
    pub(super) fn takes_batches(&self) -> bool {
        matches!(self.bound, Bound::Memory(_) | Bound::Work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_a_request_with_a_name_of_its_own() {
        let shape = Shape {
            side: 512,
            batch: 1,
            threads: 2,
        };
        let mut names: Vec<_> = ALL.iter().map(|scenario| scenario.name).collect();
        for scenario in ALL {
            let request = scenario.request(shape);
            assert!(!request.to_string().contains("SIDE"), "{request}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn every_scenario_has_a_peer() {
        let peers = include_str!("peers.py");
        for scenario in ALL {
            assert!(
                peers.contains(&format!("\"{}\":", scenario.name)),
                "{}",
                scenario.name
            );
        }
    }
}
