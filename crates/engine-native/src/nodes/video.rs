//! Videos: made of pictures, taken apart, cut and saved. What is in a file is left to FFmpeg, where it is installed.

mod compress;
mod edit;
mod frames;
mod read;
mod save;
mod write;

use bytes::Bytes;
use images::Image;
use serde_json::json;
use workflow_core::{FileSource, NodeDefinition, Socket};

use super::class::Class;
use super::media::Media;
use super::save::Prefix;
use crate::define::{
    boolean_input, file_input, float_input, input, int_input, latest, link, modern, named,
    named_output, newer, optional, output,
};
use crate::sound::Sound;
use crate::value::Opaque;
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput, Value};
use read::parts;
pub use save::{SaveVideo, SaveWEBM};

/// The classes that are a definition and a function.
pub(super) const CLASSES: [&[Class]; 3] = [frames::CLASSES, edit::CLASSES, compress::CLASSES];

/// A video on its way between nodes.
#[derive(Clone, Debug)]
pub(super) enum Video {
    /// A file, and which part of it: the first second, how many there are (`None` is all that follow), and the rectangle of its
    /// pictures (`None` is the whole).
    File {
        bytes: Bytes,
        start: f64,
        duration: Option<f64>,
        crop: Option<Crop>,
    },
    /// Pictures that were never in a file, with what is heard.
    Parts {
        images: Image,
        sound: Option<Sound>,
        rate: f64,
        /// Whether they are saved with 10 bits a sample.
        is_deep: bool,
    },
}

/// A rectangle of pictures, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crop {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl From<Video> for Value {
    fn from(video: Video) -> Self {
        let size = match &video {
            Video::File { bytes, .. } => bytes.len() as u64,
            Video::Parts { images, sound, .. } => {
                images.size_bytes() + sound.as_ref().map_or(0, Sound::size_bytes)
            }
        };
        Opaque::new("VIDEO", video, size).into()
    }
}

/// Takes a video, whoever made it.
fn video(inputs: &mut Inputs) -> Result<Video, NodeError> {
    let value = inputs.value("video")?;
    let opaque = match &value {
        Value::Opaque(opaque) => Some(opaque),
        Value::Image(_)
        | Value::Mask(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Boolean(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Blocker(_) => None,
    };
    if let Some(video) = opaque.and_then(|opaque| opaque.get::<Video>()) {
        return Ok(video.clone());
    }
    let media = opaque.and_then(|opaque| opaque.get::<Media>());
    let media = media.ok_or_else(|| {
        NodeError::new(
            "TypeError",
            format!(
                "input \"video\" must be VIDEO, and {} came",
                value.io_type()
            ),
        )
    })?;
    Ok(Video::File {
        bytes: media.bytes(),
        start: 0.0,
        duration: None,
        crop: None,
    })
}

/// A file's video.
#[derive(Clone, Copy, Debug)]
pub struct LoadVideo;

impl Node for LoadVideo {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Load Video"),
            inputs: vec![file_input(
                "file",
                FileSource::Input,
                false,
                json!({"video_upload": true}),
            )],
            outputs: vec![output("VIDEO")],
            ..modern("LoadVideo", "comfy_extras.nodes_video", "image/video")
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let file = inputs.file("file")?;
        context.reserve(file.size_bytes())?;
        let video = Video::File {
            bytes: file.read()?,
            start: 0.0,
            duration: None,
            crop: None,
        };
        Ok(Value::from(video).into())
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        Ok(Changed::Key(constants.file("file")?.sha256()?.into()))
    }
}

/// A video of pictures.
#[derive(Clone, Copy, Debug)]
pub struct CreateVideo;

impl Node for CreateVideo {
    fn definition(&self) -> NodeDefinition {
        let shown = NodeDefinition {
            description: "Create a video from images.".to_owned(),
            display_name: named("Create Video"),
            inputs: vec![
                input(
                    "images",
                    Socket::Link("IMAGE".to_owned()),
                    json!({"tooltip": "The images to create a video from."}),
                ),
                float_input(
                    "fps",
                    json!({"default": 30.0, "min": 1.0, "max": 120.0, "step": 1.0}),
                ),
                optional(input(
                    "audio",
                    Socket::Link("AUDIO".to_owned()),
                    json!({"tooltip": "The audio to add to the video."}),
                )),
            ],
            outputs: vec![output("VIDEO")],
            ..modern("CreateVideo", "comfy_extras.nodes_video", "image/video")
        };
        newer(shown, |definition| {
            let depth = json!({"default": 8, "min": 8, "max": 10});
            definition
                .inputs
                .push(optional(int_input("bit_depth", depth)));
        })
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let images = inputs.image("images")?;
        let audio = inputs.maybe("audio");
        let sound = audio.map(|audio| super::audio::sound_of(&audio, "audio", context));
        let video = Video::Parts {
            images,
            sound: sound.transpose()?,
            rate: inputs.float("fps")?,
            is_deep: inputs.has("bit_depth") && inputs.int::<u32>("bit_depth")? > 8,
        };
        Ok(Value::from(video).into())
    }
}

/// The pictures, the sound and the rate of a video.
#[derive(Clone, Copy, Debug)]
pub struct GetVideoComponents;

impl Node for GetVideoComponents {
    fn definition(&self) -> NodeDefinition {
        let shown = NodeDefinition {
            description: "Extracts all components from a video: frames, audio, and framerate."
                .to_owned(),
            display_name: named("Get Video Components"),
            inputs: vec![input(
                "video",
                Socket::Link("VIDEO".to_owned()),
                json!({"tooltip": "The video to extract components from."}),
            )],
            outputs: vec![
                named_output("IMAGE", "images"),
                named_output("AUDIO", "audio"),
                named_output("FLOAT", "fps"),
            ],
            ..modern(
                "GetVideoComponents",
                "comfy_extras.nodes_video",
                "image/video",
            )
        };
        newer(shown, |definition| {
            let more = [
                named_output("INT", "bit_depth"),
                named_output("COMBO", "color_space"),
            ];
            definition.outputs.extend(more);
        })
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let video = video(&mut inputs)?;
        let (depth, colors) = read::samples(&video, context)?;
        let (images, sound, rate) = parts(video, context)?;
        let sound = sound.map_or_else(Value::none, Value::from);
        Ok(NodeOutput::of([
            images.into(),
            sound,
            Value::Float(rate),
            Value::Int(depth),
            Value::string(colors),
        ]))
    }
}

/// Part of a video.
#[derive(Clone, Copy, Debug)]
pub struct VideoSlice;

impl Node for VideoSlice {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Trim Video"),
            inputs: vec![
                link("video", "VIDEO"),
                float_input(
                    "start_time",
                    json!({"default": 0.0, "min": -100000.0, "max": 100000.0, "step": 0.001}),
                ),
                float_input(
                    "duration",
                    json!({"default": 0.0, "min": 0.0, "step": 0.001}),
                ),
                boolean_input("strict_duration", json!({"default": false})),
            ],
            outputs: vec![output("VIDEO")],
            ..latest(
                "Video Slice",
                "comfy_extras.nodes_video",
                "video",
                json!({"search_aliases": ["trim video duration", "skip first frames", "frame load cap", "start time"], "essentials_category": "Video Tools"}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let video = video(&mut inputs)?;
        let (start, duration) = (inputs.float("start_time")?, inputs.float("duration")?);
        let strict = inputs.boolean("strict_duration")?;
        Ok(Value::from(edit::trimmed(video, (start, duration), strict, context)?).into())
    }
}

/// The options that read only a part of a file.
fn part(start: f64, duration: Option<f64>) -> Vec<String> {
    let mut part = Vec::new();
    if start > 0.0 {
        part.extend(["-ss".to_owned(), start.to_string()]);
    }
    if let Some(duration) = duration {
        part.extend(["-t".to_owned(), duration.to_string()]);
    }
    part
}
