//! Two sounds made one.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::audio::taken;
use crate::define::{latest, link, modern_combo, named, named_output, output};
use crate::sound::{self, Sound};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// Two sounds as left and right of one.
#[derive(Clone, Copy, Debug)]
pub struct JoinAudioChannels;

impl Node for JoinAudioChannels {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Join Audio Channels"),
            inputs: vec![link("audio_left", "AUDIO"), link("audio_right", "AUDIO")],
            outputs: vec![named_output("AUDIO", "audio")],
            ..latest(
                "JoinAudioChannels",
                "comfy_extras.nodes_audio",
                "audio",
                json!({}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        both(
            &mut inputs,
            ["audio_left", "audio_right"],
            context,
            |left, right, context| {
                if left.channels().len() != 1 || right.channels().len() != 1 {
                    return Err(NodeError::value(
                        "both sounds must have one channel; split them before",
                    ));
                }
                let length = left.length().min(right.length());
                context.reserve(sound::bytes(2 * left.items.len(), length))?;
                let pairs = left.items.iter().zip(&right.items);
                let items = pairs.map(|(left, right)| {
                    vec![left[0][..length].to_vec(), right[0][..length].to_vec()]
                });
                Ok(Sound {
                    rate: left.rate,
                    items: items.collect(),
                })
            },
        )
    }
}

/// Two sounds one after the other.
#[derive(Clone, Copy, Debug)]
pub struct AudioConcat;

impl Node for AudioConcat {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Concatenate Audio"),
            inputs: vec![
                link("audio1", "AUDIO"),
                link("audio2", "AUDIO"),
                modern_combo(
                    "direction",
                    &["after", "before"],
                    json!({"default": "after"}),
                ),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "AudioConcat",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["join audio", "combine audio", "append audio"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let before = inputs.text("direction")? == "before";
        both(
            &mut inputs,
            ["audio1", "audio2"],
            context,
            |first, second, context| {
                let (first, second) = if before {
                    (second, first)
                } else {
                    (first, second)
                };
                let (first, second) = (stereo(first, context)?, stereo(second, context)?);
                let channels = |sound: &Sound| sound.channels().len();
                if channels(&first) != channels(&second) || first.items.len() != second.items.len()
                {
                    return Err(NodeError::new(
                        "RuntimeError",
                        "the two sounds have different numbers of channels or items; bring them to the same",
                    ));
                }
                context.reserve(first.size_bytes() + second.size_bytes())?;
                let join =
                    |(first, second): (&Vec<f32>, &Vec<f32>)| [&first[..], &second[..]].concat();
                let pairs = first.items.iter().zip(&second.items);
                let items =
                    pairs.map(|(first, second)| first.iter().zip(second).map(join).collect());
                Ok(Sound {
                    rate: first.rate,
                    items: items.collect(),
                })
            },
        )
    }
}

/// Two sounds at once.
#[derive(Clone, Copy, Debug)]
pub struct AudioMerge;

impl Node for AudioMerge {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Merge Audio"),
            inputs: vec![
                link("audio1", "AUDIO"),
                link("audio2", "AUDIO"),
                modern_combo(
                    "merge_method",
                    &["add", "mean", "subtract", "multiply"],
                    json!({}),
                ),
            ],
            outputs: vec![output("AUDIO")],
            ..latest(
                "AudioMerge",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["mix audio", "overlay audio", "layer audio"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mix: fn(f32, f32) -> f32 = inputs.choice("merge_method", |word| match word {
            "add" => Some((|a, b| a + b) as fn(f32, f32) -> f32),
            "mean" => Some(|a, b| (a + b) / 2.0),
            "subtract" => Some(|a, b| a - b),
            "multiply" => Some(|a, b| a * b),
            _ => None,
        })?;
        both(
            &mut inputs,
            ["audio1", "audio2"],
            context,
            |first, second, context| {
                if first.length() == 0 || second.length() == 0 {
                    return Ok(first);
                }
                // A sound of one channel, or a batch of one, is mixed into all of the other.
                let wide = |a: usize, b: usize| (a == b || a == 1 || b == 1).then(|| a.max(b));
                let channels = wide(first.channels().len(), second.channels().len());
                let items = wide(first.items.len(), second.items.len());
                let (Some(channels), Some(items)) = (channels, items) else {
                    return Err(NodeError::new(
                        "RuntimeError",
                        "the two sounds have different numbers of channels or items; bring them to the same",
                    ));
                };
                context.reserve(sound::bytes(channels * items, first.length()))?;
                let silence = std::iter::repeat(&0.0f32);
                let channel = |item: usize, channel: usize| -> Vec<f32> {
                    let a = &first.items[item % first.items.len()];
                    let b = &second.items[item % second.items.len()];
                    let b = b[channel % b.len()].iter().chain(silence.clone());
                    a[channel % a.len()]
                        .iter()
                        .zip(b)
                        .map(|(a, b)| mix(*a, *b))
                        .collect()
                };
                let mut merged = Sound {
                    rate: first.rate,
                    items: (0..items)
                        .map(|item| (0..channels).map(|at| channel(item, at)).collect())
                        .collect(),
                };
                let samples = merged.items.iter().flatten().flatten();
                let loudest = samples.fold(0.0f32, |most, sample| most.max(sample.abs()));
                if loudest > 1.0 {
                    let samples = merged.items.iter_mut().flatten().flatten();
                    samples.for_each(|sample| *sample /= loudest);
                }
                Ok(merged)
            },
        )
    }
}

/// Works on two sounds, brought to the higher of their rates; where one is missing, the other is the result.
fn both(
    inputs: &mut Inputs,
    names: [&str; 2],
    context: &NodeContext,
    work: impl FnOnce(Sound, Sound, &NodeContext) -> Result<Sound, NodeError>,
) -> Result<NodeOutput, NodeError> {
    let [first, second] = names;
    let first = taken(inputs, first, context)?;
    let second = taken(inputs, second, context)?;
    let sound = match (first, second) {
        (Some(first), Some(second)) => {
            let rate = first.rate.max(second.rate);
            let first = sound::resampled(&first, rate, context)?;
            let second = sound::resampled(&second, rate, context)?;
            work(first, second, context)?
        }
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => return Ok(Value::none().into()),
    };
    Ok(Value::from(sound).into())
}

/// A sound of one channel as one of two.
fn stereo(sound: Sound, context: &NodeContext) -> Result<Sound, NodeError> {
    if sound.channels().len() != 1 {
        return Ok(sound);
    }
    context.reserve(2 * sound.size_bytes())?;
    let items = sound
        .items
        .into_iter()
        .map(|channels| [&channels[..], &channels[..]].concat());
    Ok(Sound {
        rate: sound.rate,
        items: items.collect(),
    })
}
