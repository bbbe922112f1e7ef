//! Pictures spread over the frames of a video's segments, each segment with its part of the sound.

use std::sync::Arc;

use serde_json::json;
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::audio::taken;
use super::class::Class;
use crate::define::{int_input, latest, link, named_output};
use crate::sound::Sound;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Slot, Value};
use images::kernel::output_bytes;
use images::{Frame, Image, Mask};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            let index = json!({"default": 0, "min": 0, "max": 100, "tooltip": "Which segment this is (0 for first, 1 for second, etc.)"});
            let of_segment = [
                "Length of this segment (usually 149 frames)",
                "Audio to calculate total output frames from and extract segment audio.",
            ];
            defined(
                "WanDancerPadKeyframes",
                int_input("segment_index", index),
                of_segment,
                [
                    "Padded keyframe sequence",
                    "Mask indicating valid frames",
                    "Audio segment for this video segment",
                ],
            )
        },
        |inputs, context| {
            let index = inputs.int("segment_index")?;
            let segments = Segments::given(inputs, context)?;
            Ok(NodeOutput::of(segments.values(index, context)?))
        },
    ),
    (
        || {
            let count = json!({"default": 1, "min": 1, "max": 100, "tooltip": "How many padded segments to emit as lists."});
            let of_list = [
                "Length of each segment (usually 149 frames)",
                "Audio to slice for each emitted segment.",
            ];
            let definition = defined(
                "WanDancerPadKeyframesList",
                int_input("num_segments", count),
                of_list,
                [
                    "Padded keyframe sequences",
                    "Masks indicating valid frames",
                    "Audio segment for each video segment",
                ],
            );
            let list = |output| OutputDefinition {
                is_list: true,
                ..output
            };
            NodeDefinition {
                outputs: definition.outputs.into_iter().map(list).collect(),
                ..definition
            }
        },
        |inputs, context| {
            let count: usize = inputs.int("num_segments")?;
            let segments = Segments::given(inputs, context)?;
            let mut lists = [const { Vec::new() }; 3];
            for index in 0..count {
                for (list, value) in lists.iter_mut().zip(segments.values(index, context)?) {
                    list.push(value);
                }
            }
            Ok(NodeOutput {
                slots: lists.map(Slot::List).into(),
                ..NodeOutput::none()
            })
        },
    ),
];

fn defined(
    class: &str,
    which: InputDefinition,
    [of_length, of_audio]: [&str; 2],
    tooltips: [&str; 3],
) -> NodeDefinition {
    let length = json!({"default": 149, "min": 1, "max": 10000, "tooltip": of_length});
    let mut audio = link("audio", "AUDIO");
    audio.options.insert("tooltip".to_owned(), of_audio.into());
    let names = [
        ("IMAGE", "keyframes_sequence"),
        ("MASK", "keyframes_mask"),
        ("AUDIO", "audio_segment"),
    ];
    let output = |((io_type, name), tooltip): ((&str, &str), &str)| OutputDefinition {
        tooltip: Some(tooltip.to_owned()),
        ..named_output(io_type, name)
    };
    NodeDefinition {
        inputs: vec![
            link("images", "IMAGE"),
            int_input("segment_length", length),
            which,
            audio,
        ],
        outputs: names.into_iter().zip(tooltips).map(output).collect(),
        ..latest(
            class,
            "comfy_extras.nodes_wandancer",
            "image/video",
            json!({}),
        )
    }
}

/// Frames of a video per second.
const FRAMES_PER_SECOND: f64 = 30.0;

/// Seconds of sound beyond a segment that need no further one.
const BUFFER: f64 = 0.2;

/// A video in segments of one length.
struct Segments {
    images: Image,
    audio: Sound,
    /// Frames of a segment.
    length: usize,
    black: Arc<Frame>,
    unmarked: Arc<Frame>,
    marked: Arc<Frame>,
}

impl Segments {
    fn given(inputs: &mut Inputs, context: &NodeContext) -> Result<Self, NodeError> {
        let images = inputs.image("images")?;
        let length: usize = inputs.int("segment_length")?;
        let audio = taken(inputs, "audio", context)?
            .ok_or_else(|| NodeError::value("there is no sound; link one to the input audio"))?;
        let (height, width, channels) = images.first().shape();
        // One black picture and two masks, however often they are shown.
        context.reserve(output_bytes(1, height, width, channels + 2))?;
        let filled = |channels, value| Arc::new(Frame::filled(height, width, channels, value));
        Ok(Self {
            images,
            audio,
            length,
            black: filled(channels, 0.0),
            unmarked: filled(1, 0.0),
            marked: filled(1, 1.0),
        })
    }

    /// Pictures, masks and sound of a segment.
    fn values(&self, index: usize, context: &NodeContext) -> Result<[Value; 3], NodeError> {
        context.check()?;
        let references = self.length.saturating_mul(2 * size_of::<usize>());
        context.reserve(references as u64)?;
        let mut frames = vec![Arc::clone(&self.black); self.length];
        let mut masks = vec![Arc::clone(&self.unmarked); self.length];
        for (at, picture) in self.placed(index) {
            if let (Some(frame), Some(picture)) =
                (frames.get_mut(at), self.images.frames().get(picture))
            {
                *frame = Arc::clone(picture);
                masks[at] = Arc::clone(&self.marked);
            }
        }
        let sound = self.sound(index, context)?;
        Ok([
            Image::new(frames)?.into(),
            Mask::new(masks)?.into(),
            sound.into(),
        ])
    }

    /// Which picture stands at which frame of a segment: one after every interval, and one at the end.
    fn placed(&self, index: usize) -> Vec<(usize, usize)> {
        let segments = self.count();
        if segments == 0 {
            return Vec::new();
        }
        let total = segments * self.length;
        let interval = total as f64 / self.images.frames().len() as f64;
        let last = self.length - 1;
        let until = last as f64 - interval;
        let inner = (0..).take_while(|&at: &usize| at as f64 * interval < until);
        let mut places: Vec<usize> = inner
            .map(|at| (interval * at as f64).ceil() as usize)
            .collect();
        // Every segment before this one has taken as many.
        let before = index * places.len();
        places.push(last);
        places.into_iter().zip(before..).collect()
    }

    /// As many segments as the sound fills.
    fn count(&self) -> usize {
        let duration = self.duration();
        match duration > BUFFER {
            true => ((duration - BUFFER) / self.seconds()) as usize + 1,
            false => 0,
        }
    }

    fn sound(&self, index: usize, context: &NodeContext) -> Result<Sound, NodeError> {
        let begin = index as f64 * self.seconds();
        let end = (begin + self.seconds()).min(self.duration());
        let rate = f64::from(self.audio.rate);
        let end = ((end * rate) as usize).min(self.audio.length());
        let begin = ((begin * rate) as usize).min(end);
        self.audio
            .map(end - begin, context, |samples| samples[begin..end].to_vec())
    }

    /// Seconds of a segment.
    fn seconds(&self) -> f64 {
        self.length as f64 / FRAMES_PER_SECOND
    }

    /// Seconds of the sound.
    fn duration(&self) -> f64 {
        self.audio.length() as f64 / f64::from(self.audio.rate)
    }
}
