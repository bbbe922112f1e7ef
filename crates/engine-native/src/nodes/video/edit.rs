//! Videos cut in time and in space.

use images::Image;
use images::kernel::transform;
use serde_json::{Value as Json, json};
use workflow_core::{NodeDefinition, OutputKind};

use super::read::size;
use super::save::animated;
use super::write::{How, encoded};
use super::{Crop, Prefix, Video, video};
use crate::define::{boolean_input, latest, link, modern_metadata, named, output, widget};
use crate::nodes::class::Class;
use crate::program::{Ffmpeg, folder, written};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, OutputFile, Value};

/// The classes of this family.
pub(in crate::nodes) const CLASSES: &[Class] = &[(trim, run_trim), (crop, run_crop)];

fn edited(class: &str, display: &str, feature: &str, aliases: &[&str]) -> NodeDefinition {
    NodeDefinition {
        display_name: named(display),
        inputs: vec![
            link("video", "VIDEO"),
            widget(
                feature,
                "VIDEO_EDIT",
                json!({"socketless": true, "features": [feature]}),
            ),
        ],
        hidden: modern_metadata(),
        outputs: vec![output("VIDEO")],
        output_node: true,
        ..latest(
            class,
            "comfy_extras.nodes_video",
            "video",
            json!({
                "experimental": true,
                "search_aliases": aliases,
                "essentials_category": "Video Tools",
                "has_intermediate_output": true,
            }),
        )
    }
}

fn trim() -> NodeDefinition {
    let aliases = [
        "trim video duration",
        "skip first frames",
        "cut video",
        "start time",
    ];
    let mut definition = edited("VideoTrim", "Trim Video (Advanced)", "trim", &aliases);
    let strict = json!({"default": false, "advanced": true});
    definition
        .inputs
        .push(boolean_input("strict_duration", strict));
    definition
}

fn crop() -> NodeDefinition {
    let aliases = ["crop video", "cut region", "spatial crop"];
    edited("VideoCrop", "Crop Video", "crop", &aliases)
}

/// What the page's editor says of one of its features.
fn told(inputs: &mut Inputs, feature: &str) -> Json {
    match inputs.maybe(feature) {
        Some(Value::Json(json)) => json[feature].clone(),
        _ => Json::Null,
    }
}

fn number(of: &Json, name: &str) -> Result<f64, NodeError> {
    let value = &of[name];
    match value.as_f64() {
        Some(number) => Ok(number),
        None if value.is_null() => Ok(0.0),
        None => Err(NodeError::value(format!(
            "{name} must be a number, and is {value}"
        ))),
    }
}

fn run_trim(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let told = told(inputs, "trim");
    let (start, duration) = (number(&told, "start_time")?, number(&told, "duration")?);
    if duration < 0.0 {
        return Err(NodeError::value(format!(
            "the duration must be 0 (up to the end) or more, and is {duration}"
        )));
    }
    let strict = inputs.boolean("strict_duration")?;
    let video = video(inputs)?;
    match (start, duration) {
        (0.0, 0.0) => shown(video, context),
        part => shown(trimmed(video, part, strict, context)?, context),
    }
}

fn run_crop(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let told = told(inputs, "crop");
    let (width, height) = (number(&told, "width")?, number(&told, "height")?);
    let (x, y) = (number(&told, "x")?, number(&told, "y")?);
    let video = video(inputs)?;
    if width < 1.0 || height < 1.0 {
        return shown(video, context);
    }
    let of = size(&video, context)?;
    match Crop::within((x, y, width, height), of) {
        Some(crop) => shown(cropped(video, crop)?, context),
        None => shown(video, context),
    }
}

/// The video, which the page is shown as MP4.
fn shown(video: Video, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let how = How::h264(&["-preset", "ultrafast"]);
    context.emit(OutputFile {
        kind: OutputKind::Video,
        temp: true,
        name: Prefix::temp(context).whole_batch("mp4"),
        content_type: "video/mp4",
        bytes: encoded(video.clone(), &how, context)?.into(),
        shown_under: Some("images"),
    })?;
    Ok(animated(Value::from(video).into()))
}

impl Crop {
    /// The part of a rectangle that lies in a picture, with even sides and places, as encoders need them; `None` if that is
    /// nothing or everything.
    fn within(
        (x, y, width, height): (f64, f64, f64, f64),
        (own_width, own_height): (usize, usize),
    ) -> Option<Self> {
        let at = |at: f64, side: usize| (at.max(0.0) as usize).min(side - 1) & !1;
        let (x, y) = (at(x, own_width), at(y, own_height));
        let width = (width as usize).min(own_width - x);
        let height = (height as usize).min(own_height - y);
        let is_whole = (width, height) == (own_width, own_height);
        let crop = Self {
            x,
            y,
            width: width & !1,
            height: height & !1,
        };
        (!is_whole && crop.width > 0 && crop.height > 0).then_some(crop)
    }
}

/// A part of the pictures of a video.
fn cropped(video: Video, inner: Crop) -> Result<Video, NodeError> {
    Ok(match video {
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => {
            let (x, y) = crop.map_or((0, 0), |outer| (outer.x, outer.y));
            Video::File {
                bytes,
                start,
                duration,
                crop: Some(Crop {
                    x: inner.x + x,
                    y: inner.y + y,
                    ..inner
                }),
            }
        }
        Video::Parts {
            images,
            sound,
            rate,
            is_deep,
        } => Video::Parts {
            images: transform::crop(images, inner.width, inner.height, inner.x, inner.y)?,
            sound,
            rate,
            is_deep,
        },
    })
}

/// The part of a video from a second on, counted from the end if it is negative, as long as it says; 0 is up to the end.
pub(super) fn trimmed(
    video: Video,
    (start, duration): (f64, f64),
    strict: bool,
    context: &NodeContext,
) -> Result<Video, NodeError> {
    let all = length(&video, context)?;
    let start = if start < 0.0 {
        (all + start).max(0.0)
    } else {
        start
    };
    let short = strict && duration > 0.0 && start + duration > all;
    if start >= all || short {
        return Err(NodeError::value(format!(
            "the video is {all:.3} seconds long; there are no {duration} seconds from second {start} on"
        )));
    }
    cut(video, start, (duration > 0.0).then_some(duration))
}

/// The part of a video from a second on.
pub(super) fn cut(video: Video, from: f64, seconds: Option<f64>) -> Result<Video, NodeError> {
    Ok(match video {
        Video::File {
            bytes,
            start,
            duration,
            crop,
        } => {
            let rest = duration.map(|duration| (duration - from).max(0.0));
            let duration = match (rest, seconds) {
                (Some(rest), Some(seconds)) => Some(rest.min(seconds)),
                (rest, seconds) => rest.or(seconds),
            };
            Video::File {
                bytes,
                start: start + from,
                duration,
                crop,
            }
        }
        Video::Parts {
            images,
            sound,
            rate,
            is_deep,
        } => {
            let range = |rate: f64, length: usize| {
                let first = ((from * rate).round_ties_even() as usize).min(length);
                let count = seconds.map(|seconds| (seconds * rate).round_ties_even() as usize);
                let count = count.unwrap_or(length).max(1);
                first..(first + count).min(length)
            };
            let frames = &images.frames()[range(rate, images.frames().len())];
            let sound = sound.map(|mut sound| {
                let range = range(f64::from(sound.rate), sound.length());
                for channel in sound.items.iter_mut().flatten() {
                    *channel = channel[range.clone()].to_vec();
                }
                sound
            });
            Video::Parts {
                images: Image::new(frames.to_vec())?,
                sound,
                rate,
                is_deep,
            }
        }
    })
}

/// How many seconds a video lasts.
fn length(video: &Video, context: &NodeContext) -> Result<f64, NodeError> {
    match video {
        Video::Parts { images, rate, .. } => Ok(images.frames().len() as f64 / rate),
        Video::File {
            bytes,
            start,
            duration,
            crop: _,
        } => {
            let program = Ffmpeg::installed()?;
            let folder = folder()?;
            let file = folder.path().join("video");
            written(&file, bytes)?;
            let told = program.probe(&file, context)?;
            let all = told["format"]["duration"].as_str();
            let all = all.and_then(|all| all.parse::<f64>().ok()).ok_or_else(|| {
                NodeError::value("the video's length is unknown; convert it to MP4 first")
            })?;
            let rest = (all - start).max(0.0);
            Ok(duration.map_or(rest, |duration| duration.min(rest)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_is_brought_into_the_picture_and_made_even() {
        let within = |rectangle| Crop::within(rectangle, (11, 8));
        let crop = |x, y, width, height| {
            Some(Crop {
                x,
                y,
                width,
                height,
            })
        };
        assert_eq!(within((3.0, 1.0, 5.0, 4.0)), crop(2, 0, 4, 4));
        assert_eq!(within((-7.0, 6.0, 99.0, 99.0)), crop(0, 6, 10, 2));
        assert_eq!(within((99.0, 99.0, 4.0, 4.0)), None, "one column is left");
        assert_eq!(within((0.0, 0.0, 11.0, 8.0)), None, "the whole");
        assert_eq!(within((0.0, 0.0, 1.0, 4.0)), None, "no even side");
    }
}
