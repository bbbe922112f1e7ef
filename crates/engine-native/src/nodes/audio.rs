//! Sounds: made, cut, joined and changed.

use serde_json::json;
use workflow_core::{FileSource, NodeDefinition};

use super::media::Media;
use crate::define::{
    file_input, float_input, int_input, latest, link, named, named_output, output,
};
use crate::sound::{self, Band, Sound};
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// A file's sound.
#[derive(Clone, Copy, Debug)]
pub struct LoadAudio;

impl Node for LoadAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Load Audio"),
            inputs: vec![file_input(
                "audio",
                FileSource::Input,
                false,
                json!({"audio_upload": true}),
            )],
            outputs: vec![output("AUDIO")],
            ..latest(
                "LoadAudio",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["import audio", "open audio", "audio file"], "essentials_category": "Audio"}),
            )
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        load(&inputs, context)
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

/// A sound that the page records.
#[derive(Clone, Copy, Debug)]
pub struct RecordAudio;

impl Node for RecordAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Record Audio"),
            inputs: vec![file_input("audio", FileSource::Recording, false, json!({}))],
            outputs: vec![output("AUDIO")],
            ..latest(
                "RecordAudio",
                "comfy_extras.nodes_audio",
                "audio",
                json!({}),
            )
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        load(&inputs, context)
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        changed_with_file(constants)
    }
}

fn load(inputs: &Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let file = inputs.file("audio")?;
    context.reserve(file.size_bytes())?;
    let sound = sound::decoded(file.read()?, context)?;
    Ok(Value::from(sound).into())
}

fn changed_with_file(constants: &Inputs) -> Result<Changed, NodeError> {
    Ok(Changed::Key(constants.file("audio")?.sha256()?.into()))
}

/// Silence.
#[derive(Clone, Copy, Debug)]
pub struct EmptyAudio;

impl Node for EmptyAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Empty Audio"),
            inputs: vec![
                float_input(
                    "duration",
                    json!({"default": 60.0, "min": 0.0, "max": u64::MAX, "step": 0.01}),
                ),
                int_input(
                    "sample_rate",
                    json!({"advanced": true, "default": 44100, "min": 1, "max": 192000}),
                ),
                int_input(
                    "channels",
                    json!({"advanced": true, "default": 2, "min": 1, "max": 2}),
                ),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "EmptyAudio",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["blank audio"]}),
            )
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (rate, channels) = (inputs.int("sample_rate")?, inputs.int::<usize>("channels")?);
        let length = frames(inputs.float("duration")?, rate).max(0);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // A channel without samples takes room, too, and a link may ask for any number of them.
        const CHANNEL: usize = size_of::<Vec<f32>>() / size_of::<f32>();
        context.reserve(sound::bytes(channels, length.saturating_add(CHANNEL)))?;
        let items = vec![vec![vec![0.0; length]; channels]];
        Ok(Value::from(Sound { rate, items }).into())
    }
}

/// Part of a sound.
#[derive(Clone, Copy, Debug)]
pub struct TrimAudioDuration;

impl Node for TrimAudioDuration {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Trim Audio Duration"),
            inputs: vec![
                link("audio", "AUDIO"),
                float_input(
                    "start_index",
                    json!({"default": 0.0, "min": -18_446_744_073_709_551_615.0, "max": u64::MAX, "step": 0.01}),
                ),
                float_input(
                    "duration",
                    json!({"default": 60.0, "min": 0.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "TrimAudioDuration",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["cut audio", "audio clip", "shorten audio"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(sound) = taken(&mut inputs, "audio", context)? else {
            return Ok(Value::none().into());
        };
        let length = sound.length() as i128;
        if length == 0 {
            return Ok(Value::from(sound).into());
        }
        let start = frames(inputs.float("start_index")?, sound.rate);
        let start = if start < 0 { length + start } else { start };
        let start = start.clamp(0, length);
        let end = start.saturating_add(frames(inputs.float("duration")?, sound.rate));
        let end = end.clamp(0, length);
        if start >= end {
            return Err(NodeError::value(
                "nothing is left of the sound; begin before its end and take more than no time",
            ));
        }
        let range = start as usize..end as usize;
        let cut = sound.map(range.len(), context, |samples| {
            samples[range.clone()].to_vec()
        })?;
        Ok(Value::from(cut).into())
    }
}

/// Left and right of a sound.
#[derive(Clone, Copy, Debug)]
pub struct SplitAudioChannels;

impl Node for SplitAudioChannels {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Split Audio Channels"),
            inputs: vec![link("audio", "AUDIO")],
            outputs: vec![
                named_output("AUDIO", "left"),
                named_output("AUDIO", "right"),
            ],
            ..latest(
                "SplitAudioChannels",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["stereo to mono"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(sound) = taken(&mut inputs, "audio", context)? else {
            return Ok(NodeOutput::of([Value::none(), Value::none()]));
        };
        let found = sound.channels().len();
        if found != 2 {
            return Err(NodeError::value(format!(
                "the sound has {found} channels, and only two can be split"
            )));
        }
        context.reserve(sound.size_bytes())?;
        let side = |side: usize| {
            let items = sound
                .items
                .iter()
                .map(|channels| vec![channels[side].clone()]);
            Value::from(Sound {
                rate: sound.rate,
                items: items.collect(),
            })
        };
        Ok(NodeOutput::of([side(0), side(1)]))
    }
}

/// A sound louder or softer.
#[derive(Clone, Copy, Debug)]
pub struct AudioAdjustVolume;

impl Node for AudioAdjustVolume {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Adjust Audio Volume"),
            inputs: vec![
                link("audio", "AUDIO"),
                int_input("volume", json!({"default": 1, "min": -100, "max": 100})),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "AudioAdjustVolume",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["audio gain", "loudness", "audio level"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(sound) = taken(&mut inputs, "audio", context)? else {
            return Ok(Value::none().into());
        };
        let decibels: i32 = inputs.int("volume")?;
        if decibels == 0 {
            return Ok(Value::from(sound).into());
        }
        let gain = 10f64.powf(f64::from(decibels) / 20.0) as f32;
        let louder = |samples: &[f32]| samples.iter().map(|sample| sample * gain).collect();
        let changed = sound.map(sound.length(), context, louder)?;
        Ok(Value::from(changed).into())
    }
}

/// A sound with its low, middle and high parts louder or softer.
#[derive(Clone, Copy, Debug)]
pub struct AudioEqualizer3Band;

impl Node for AudioEqualizer3Band {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Audio Equalizer (3-Band)"),
            inputs: vec![
                link("audio", "AUDIO"),
                float_input(
                    "low_gain_dB",
                    json!({"default": 0.0, "min": -24.0, "max": 24.0, "step": 0.1}),
                ),
                int_input("low_freq", json!({"default": 100, "min": 20, "max": 500})),
                float_input(
                    "mid_gain_dB",
                    json!({"default": 0.0, "min": -24.0, "max": 24.0, "step": 0.1}),
                ),
                int_input(
                    "mid_freq",
                    json!({"default": 1000, "min": 200, "max": 4000}),
                ),
                float_input(
                    "mid_q",
                    json!({"default": 0.707, "min": 0.1, "max": 10.0, "step": 0.1}),
                ),
                float_input(
                    "high_gain_dB",
                    json!({"default": 0.0, "min": -24.0, "max": 24.0, "step": 0.1}),
                ),
                int_input(
                    "high_freq",
                    json!({"default": 5000, "min": 1000, "max": 15000}),
                ),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "AudioEqualizer3Band",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["eq", "bass boost", "treble boost", "equalizer"], "experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let Some(mut sound) = taken(&mut inputs, "audio", context)? else {
            return Ok(Value::none().into());
        };
        let shelf = 0.707;
        let bands = [
            (Band::Low, "low_gain_dB", "low_freq", shelf),
            (
                Band::Middle,
                "mid_gain_dB",
                "mid_freq",
                inputs.float("mid_q")?,
            ),
            (Band::High, "high_gain_dB", "high_freq", shelf),
        ];
        for (band, gain, frequency, quality) in bands {
            let (gain, frequency) = (inputs.float(gain)?, inputs.float(frequency)?);
            if gain != 0.0 && sound.length() > 0 {
                let filter = sound::Filter::new(band, sound.rate, frequency, gain, quality);
                let fused = sound.items.iter().flatten().nth(1).is_some();
                sound = sound.map(sound.length(), context, |samples| {
                    filter.apply(samples, fused)
                })?;
            }
        }
        Ok(Value::from(sound).into())
    }
}

/// Samples in so many seconds, half to even; negative ones count from an end.
fn frames(seconds: f64, rate: u32) -> i128 {
    (seconds * f64::from(rate)).round_ties_even() as i128
}

/// Takes a sound; `None` where there is none, as of a video without one.
pub(super) fn taken(
    inputs: &mut Inputs,
    name: &str,
    context: &NodeContext,
) -> Result<Option<Sound>, NodeError> {
    let value = inputs.maybe(name);
    value
        .map(|value| sound_of(&value, name, context))
        .transpose()
}

/// The sound of a value, decoded if it came as a file.
pub(super) fn sound_of(
    value: &Value,
    name: &str,
    context: &NodeContext,
) -> Result<Sound, NodeError> {
    let opaque = match value {
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
    let sound = opaque.and_then(|opaque| opaque.get::<Sound>());
    let media = opaque.and_then(|opaque| opaque.get::<Media>());
    match (sound, media) {
        (Some(sound), _) => {
            context.reserve(sound.size_bytes())?;
            Ok(sound.clone())
        }
        (None, Some(media)) => sound::decoded(media.bytes(), context),
        (None, None) => Err(NodeError::new(
            "TypeError",
            format!("input {name:?} must be AUDIO, and {} came", value.io_type()),
        )),
    }
}
