//! Pictures into files of a format and depth.

use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind};

use super::save::Prefix;
use crate::define::{
    dynamic_combo, latest, link, modern_combo, modern_metadata, named, named_output, string_input,
};
use crate::program::{Ffmpeg, folder, written};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile};
use images::{Frame, codec};

/// Pictures into PNG files of 8 or 16 bits, or OpenEXR files of floats, which FFmpeg writes.
#[derive(Clone, Copy, Debug)]
pub struct SaveImageAdvanced;

impl Node for SaveImageAdvanced {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Image (Advanced)"),
            inputs: vec![
                link("images", "IMAGE"),
                string_input(
                    "filename_prefix",
                    json!({"default": "ComfyUI", "multiline": false}),
                ),
                dynamic_combo(
                    "format",
                    vec![
                        (
                            "png",
                            vec![
                                modern_combo(
                                    "bit_depth",
                                    &["8-bit", "16-bit"],
                                    json!({"advanced": true, "default": "8-bit"}),
                                ),
                                modern_combo(
                                    "input_color_space",
                                    &["sRGB"],
                                    json!({"advanced": true, "default": "sRGB"}),
                                ),
                            ],
                        ),
                        (
                            "exr",
                            vec![
                                modern_combo(
                                    "bit_depth",
                                    &["32-bit float"],
                                    json!({"advanced": true, "default": "32-bit float"}),
                                ),
                                modern_combo(
                                    "input_color_space",
                                    &["sRGB", "HDR", "linear"],
                                    json!({"advanced": true, "default": "sRGB"}),
                                ),
                            ],
                        ),
                    ],
                    json!({}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("IMAGE", "images")],
            output_node: true,
            ..latest(
                "SaveImageAdvanced",
                "comfy_extras.nodes_images",
                "image",
                json!({"search_aliases": ["save", "save image", "export image", "output image", "write image"], "essentials_category": "Basics"}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("images")?;
        let prefix = inputs.text("filename_prefix")?;
        let prefix = Prefix::of(prefix, image.first().width(), image.first().height())?;
        let is_png = inputs.text("format")? == "png";
        let deep = inputs.text("format.bit_depth")? == "16-bit";
        let space = inputs.text("format.input_color_space")?;
        let linear: fn(f32) -> f32 = match space {
            "HDR" => of_hlg,
            "linear" => |sample| sample,
            _ => of_srgb,
        };
        let metadata = context.metadata();
        for (at, frame) in image.frames().iter().enumerate() {
            context.check()?;
            let (bytes, extension, content_type) = match (is_png, deep) {
                (true, false) => (codec::encode_png(frame, &metadata)?, "png", "image/png"),
                (true, true) => (codec::encode_png16(frame, &metadata)?, "png", "image/png"),
                (false, _) => (exr(frame, linear, context)?, "exr", "image/x-exr"),
            };
            context.emit(OutputFile {
                kind: OutputKind::Image,
                temp: false,
                name: prefix.name(at, extension),
                content_type,
                bytes: bytes.into(),
                shown_under: Some("images"),
            })?;
        }
        Ok(image.into())
    }
}

/// A frame as OpenEXR, its colours made linear.
fn exr(frame: &Frame, linear: fn(f32) -> f32, context: &NodeContext) -> Result<Vec<u8>, NodeError> {
    let program = Ffmpeg::installed()?;
    let (height, width, channels) = frame.shape();
    // FFmpeg's order of planes: green, blue, red.
    let (planes, format): (&[usize], _) = match channels {
        1 => (&[0], "grayf32le"),
        3 => (&[1, 2, 0], "gbrpf32le"),
        4 => (&[1, 2, 0, 3], "gbrapf32le"),
        _ => {
            return Err(NodeError::value(format!(
                "a picture of {channels} channels cannot be saved as EXR; use 1, 3 or 4"
            )));
        }
    };
    context.reserve(frame.size_bytes() as u64)?;
    let mut bytes = Vec::with_capacity(frame.size_bytes());
    for &plane in planes {
        let samples = frame.data().iter().skip(plane).step_by(channels);
        for &sample in samples {
            let sample = if plane == 3 { sample } else { linear(sample) };
            bytes.extend(sample.to_le_bytes());
        }
    }
    let folder = folder()?;
    let file = folder.path().join("picture");
    written(&file, &bytes)?;
    let size = format!("{width}x{height}");
    let how = ["-f", "rawvideo", "-pix_fmt", format, "-s", &size];
    let options = [
        "-frames:v",
        "1",
        "-c:v",
        "exr",
        "-pix_fmt",
        format,
        "-f",
        "image2pipe",
    ];
    program.write(&[(file.as_path(), how.as_slice())], &options, context)
}

/// IEC 61966-2-1, inverted.
fn of_srgb(sample: f32) -> f32 {
    match sample <= 0.04045 {
        true => sample / 12.92,
        false => ((sample + 0.055) / 1.055).powf(2.4),
    }
}

/// The hybrid log-gamma of BT.2100, inverted to light of the scene.
fn of_hlg(sample: f32) -> f32 {
    match sample <= 0.5 {
        true => sample * sample / 3.0,
        false => (((sample - 0.559_910_7) / 0.178_832_77).exp() + 0.284_668_92) / 12.0,
    }
}
