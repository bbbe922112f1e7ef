//! Videos into files of several containers and encoders.

use serde_json::json;
use workflow_core::{InputDefinition, NodeDefinition, OutputKind, Socket};

use super::read::Opened;
use super::write::{Colors, Container, How, OPAQUE, copied, encoded};
use super::{Prefix, Video, video};
use crate::define::{
    dynamic_combo, float_input, input, latest, link, modern, modern_combo, modern_metadata, named,
    named_output, newer, optional, string_input,
};
use crate::nodes::media::Media;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile, Value};

/// A video into a file: as it came, if it came as one and nothing else is asked for.
#[derive(Clone, Copy, Debug)]
pub struct SaveVideo;

impl Node for SaveVideo {
    fn definition(&self) -> NodeDefinition {
        let shown = NodeDefinition {
            description: "Saves the input images to your ComfyUI output directory.".to_owned(),
            display_name: named("Save Video"),
            inputs: vec![
                input(
                    "video",
                    Socket::Link("VIDEO".to_owned()),
                    json!({"tooltip": "The video to save."}),
                ),
                string_input(
                    "filename_prefix",
                    json!({"tooltip": "The prefix for the file to save. This may include formatting information such as %date:yyyy-MM-dd% or %Empty Latent Image.width% to include values from nodes.", "default": "video/ComfyUI", "multiline": false}),
                ),
                modern_combo(
                    "format",
                    &["auto", "mp4"],
                    json!({"tooltip": "The format to save the video as.", "default": "auto"}),
                ),
                modern_combo(
                    "codec",
                    &["auto", "h264"],
                    json!({"tooltip": "The codec to use for the video.", "default": "auto"}),
                ),
            ],
            hidden: modern_metadata(),
            output_node: true,
            ..modern("SaveVideo", "comfy_extras.nodes_video", "image/video")
        };
        newer(shown, |definition| {
            let any = || codec(&["h264", "av1"]);
            let formats = vec![
                ("auto", vec![any()]),
                ("mp4", vec![any()]),
                ("mkv", vec![any()]),
                ("webm", vec![codec(&["av1"])]),
            ];
            definition.inputs.truncate(2);
            let format = dynamic_combo("format", formats, json!({}));
            definition.inputs.extend([format, any()]);
            definition.outputs = vec![named_output("VIDEO", "video")];
        })
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let wanted = Wanted::of(&inputs)?;
        let video = video(&mut inputs)?;
        let file = match wanted.untouched(&video) {
            Some(media) => media.output(&prefix, "images"),
            None => wanted.made(video.clone(), &prefix, context)?,
        };
        context.emit(file)?;
        Ok(animated(Value::from(video).into()))
    }
}

/// The choice of an encoder. Without one, the container's usual encoder is taken.
fn codec(encoders: &[&str]) -> InputDefinition {
    let choice = |encoder: &&'static str| {
        let most = if *encoder == "av1" { 63.0 } else { 51.0 };
        let colors = modern_combo("color_space", &["auto", "sRGB", "HDR", "HDR PQ"], json!({}));
        let again = vec![
            optional(float_input("crf", json!({"min": 0.0, "max": most}))),
            optional(colors),
        ];
        let modes = vec![("auto", vec![]), ("re-encode", again)];
        let encoding = dynamic_combo("encoding", modes, json!({}));
        (*encoder, vec![optional(encoding)])
    };
    let known = ["h264", "av1"];
    let known = known.iter().filter(|encoder| encoders.contains(encoder));
    let choices = [("auto", vec![])].into_iter().chain(known.map(choice));
    optional(dynamic_combo("codec", choices.collect(), json!({})))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoder {
    H264,
    Av1,
}

/// What is asked for; `None` is what suits.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    container: Option<Container>,
    encoder: Option<Encoder>,
    quality: Option<f64>,
    colors: Option<Colors>,
}

impl Wanted {
    fn of(inputs: &Inputs) -> Result<Self, NodeError> {
        let container = match inputs.text("format")? {
            "mp4" => Some(Container::Mp4),
            "mkv" => Some(Container::Mkv),
            "webm" => Some(Container::WebM),
            _ => None,
        };
        // Newer graphs name the encoder within the container, older ones beside it.
        let codec = ["format.codec", "codec"];
        let codec = codec.into_iter().find(|name| inputs.has(name));
        let word = |name: &str| match inputs.has(name) {
            true => inputs.text(name),
            false => Ok("auto"),
        };
        let within = |name: &str| format!("{}.{name}", codec.unwrap_or("codec"));
        let encoder = match word(codec.unwrap_or("codec"))? {
            "h264" => Some(Encoder::H264),
            "av1" => Some(Encoder::Av1),
            _ => None,
        };
        if container == Some(Container::WebM) && encoder == Some(Encoder::H264) {
            return Err(NodeError::value(
                "WebM takes no H.264; choose AV1 for it, or the format mp4 or mkv",
            ));
        }
        let quality = within("encoding.crf");
        Ok(Self {
            container,
            encoder,
            quality: inputs
                .has(&quality)
                .then(|| inputs.float(&quality))
                .transpose()?,
            colors: match word(&within("encoding.color_space"))? {
                "sRGB" => Some(Colors::Srgb),
                "HDR" => Some(Colors::Hlg),
                "HDR PQ" => Some(Colors::Pq),
                _ => None,
            },
        })
    }

    /// Whether the tracks of a file may stay as they are.
    fn keeps(&self, video: &Video) -> bool {
        let is_whole = matches!(
            video,
            Video::File { start, duration: None, crop: None, .. } if *start == 0.0
        );
        is_whole && self.quality.is_none() && self.colors.is_none()
    }

    /// The file of a video, if nothing is wanted that it may lack.
    fn untouched(&self, video: &Video) -> Option<Media> {
        let Video::File { bytes, .. } = video else {
            return None;
        };
        let media = Media::video(bytes.clone()).ok()?;
        let suits = match self.container {
            None => !media.is_matroska(),
            Some(Container::Mp4) => media.is_mp4(),
            Some(Container::Mkv | Container::WebM) => false,
        };
        (suits && self.encoder.is_none() && self.keeps(video)).then_some(media)
    }

    fn made(
        &self,
        video: Video,
        prefix: &Prefix,
        context: &NodeContext,
    ) -> Result<OutputFile, NodeError> {
        let container = self.container.unwrap_or(Container::Mp4);
        let mut copy = None;
        if let Video::File { bytes, .. } = &video {
            let opened = Opened::of(bytes, context)?;
            self.agrees(&opened)?;
            if self.keeps(&video) && self.suits(&opened)? {
                copy = Some(copied(&opened, container, context)?);
            }
        }
        let bytes = match copy {
            Some(bytes) => bytes,
            None => encoded(video, &self.how(container), context)?,
        };
        let (extension, content_type) = container.names();
        Ok(OutputFile {
            kind: OutputKind::Video,
            temp: false,
            name: prefix.whole_batch(extension),
            content_type,
            bytes: bytes.into(),
            shown_under: Some("images"),
        })
    }

    /// That a file whose colours are known has those that are asked for: levels would mean something else in others.
    fn agrees(&self, opened: &Opened) -> Result<(), NodeError> {
        let told = match opened.pictures()?["color_transfer"].as_str() {
            Some("bt709" | "iec61966-2-1") => (Colors::Srgb, "sRGB"),
            Some("arib-std-b67") => (Colors::Hlg, "HDR"),
            Some("smpte2084") => (Colors::Pq, "HDR PQ"),
            Some(_) | None => return Ok(()),
        };
        match self.colors {
            Some(colors) if colors != told.0 => Err(NodeError::value(format!(
                "the colours of this video are {}, and they are not converted; choose auto or {}",
                told.1, told.1
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the tracks of a file may lie in the container that is asked for.
    fn suits(&self, opened: &Opened) -> Result<bool, NodeError> {
        let codec = opened.pictures()?["codec_name"].as_str();
        let is_wanted = match self.encoder {
            Some(Encoder::H264) => codec == Some("h264"),
            Some(Encoder::Av1) => codec == Some("av1"),
            None => true,
        };
        let sound = opened.sound().map(|sound| sound["codec_name"].as_str());
        let format = opened.told["format"]["format_name"].as_str();
        let is_of =
            |name: &str| format.is_some_and(|format| format.split(',').any(|of| of == name));
        Ok(is_wanted
            && match self.container {
                // What every FFmpeg copies into an MP4. Older ones do so with Opus and FLAC only where they may try it.
                None if is_of("matroska") => {
                    matches!(codec, Some("h264" | "hevc" | "av1" | "vp9"))
                        && matches!(sound, None | Some(Some("aac" | "mp3")))
                }
                None | Some(Container::Mp4) => is_of("mp4"),
                Some(Container::Mkv) => is_of("matroska"),
                Some(Container::WebM) => {
                    is_of("webm")
                        && matches!(codec, Some("av1" | "vp8" | "vp9"))
                        && matches!(sound, None | Some(Some("opus" | "vorbis")))
                }
            })
    }

    fn how(&self, container: Container) -> How {
        let encoder = self.encoder.unwrap_or(match container {
            Container::WebM => Encoder::Av1,
            Container::Mp4 | Container::Mkv => Encoder::H264,
        });
        let quality = self.quality.map(|quality| quality.to_string());
        let quality = quality.as_deref();
        let codec: &[&str] = match (encoder, quality) {
            (Encoder::H264, None) => &["-c:v", "libx264"],
            (Encoder::H264, Some(quality)) => &["-c:v", "libx264", "-crf", quality],
            (Encoder::Av1, None) => &["-c:v", "libsvtav1"],
            (Encoder::Av1, Some("0")) => &["-c:v", "libsvtav1", "-svtav1-params", "lossless=1"],
            (Encoder::Av1, Some(quality)) => &["-c:v", "libsvtav1", "-crf", quality],
        };
        How {
            container,
            codec: codec.iter().map(|option| (*option).to_owned()).collect(),
            pixels: OPAQUE,
            colors: self.colors,
        }
    }
}

/// Pictures into a WebM file.
#[derive(Clone, Copy, Debug)]
pub struct SaveWEBM;

impl Node for SaveWEBM {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save WEBM"),
            inputs: vec![
                link("images", "IMAGE"),
                string_input(
                    "filename_prefix",
                    json!({"default": "ComfyUI", "multiline": false}),
                ),
                modern_combo("codec", &["vp9", "av1"], json!({})),
                float_input(
                    "fps",
                    json!({"default": 24.0, "min": 0.01, "max": 1000.0, "step": 0.01}),
                ),
                float_input(
                    "crf",
                    json!({"default": 32.0, "min": 0, "max": 63.0, "step": 1}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("IMAGE", "images")],
            output_node: true,
            ..latest(
                "SaveWEBM",
                "comfy_extras.nodes_video",
                "video",
                json!({"search_aliases": ["export webm"], "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let quality = inputs.float("crf")?.to_string();
        let codec: &[&str] = inputs.choice("codec", |word| match word {
            "vp9" => Some(&["-c:v", "libvpx-vp9"][..]),
            "av1" => Some(&["-c:v", "libsvtav1", "-preset", "6"]),
            _ => None,
        })?;
        let is_vp9 = inputs.text("codec")? == "vp9";
        let images = inputs.image("images")?;
        let pixels = match (is_vp9, images.first().channels()) {
            (true, 4) => "yuva420p",
            (true, _) => "yuv420p",
            (false, _) => "yuv420p10le",
        };
        let options = ["-crf", &quality, "-b:v", "0"];
        let options = codec.iter().chain(&options);
        let how = How {
            container: Container::WebM,
            codec: options.map(|option| (*option).to_owned()).collect(),
            pixels: (pixels, pixels),
            colors: Some(Colors::Untold),
        };
        let video = Video::Parts {
            images: images.clone(),
            sound: None,
            rate: inputs.float("fps")?,
            is_deep: false,
        };
        context.emit(OutputFile {
            kind: OutputKind::Video,
            temp: false,
            name: prefix.whole_batch("webm"),
            content_type: "video/webm",
            bytes: encoded(video, &how, context)?.into(),
            shown_under: Some("images"),
        })?;
        Ok(animated(NodeOutput::from(images)))
    }
}

/// Tells the page that what it is shown moves.
pub(super) fn animated(mut output: NodeOutput) -> NodeOutput {
    output.ui.insert("animated".to_owned(), json!([true]));
    output
}
