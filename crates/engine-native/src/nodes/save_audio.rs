//! Sounds into files: FLAC here, other formats by FFmpeg where it is installed.

use serde_json::json;
use workflow_core::{NodeDefinition, OutputKind};

use super::audio::sound_of;
use super::media::Media;
use super::save::Prefix;
use crate::define::{
    dynamic_combo, latest, link, modern_combo, modern_metadata, named, named_output, string_input,
};
use crate::program::{Ffmpeg, tags};
use crate::sound::{self, Sound};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile, Value};

/// A sound into a FLAC file; a file that was handed on as it came stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct SaveAudio;

impl Node for SaveAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Audio (FLAC) (DEPRECATED)"),
            inputs: vec![
                link("audio", "AUDIO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "audio/ComfyUI", "multiline": false}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("AUDIO", "audio")],
            output_node: true,
            ..latest(
                "SaveAudio",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["export flac"], "essentials_category": "Audio", "deprecated": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let audio = present(&mut inputs)?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        if let Value::Opaque(opaque) = &audio
            && let Some(media) = opaque.get::<Media>()
        {
            context.emit(media.output(&prefix, "audio"))?;
            return Ok(audio.into());
        }
        save(audio, &prefix, false, &Format::Flac, context)
    }
}

/// A sound into an MP3 file.
#[derive(Clone, Copy, Debug)]
pub struct SaveAudioMP3;

impl Node for SaveAudioMP3 {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Audio (MP3) (DEPRECATED)"),
            inputs: vec![
                link("audio", "AUDIO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "audio/ComfyUI", "multiline": false}),
                ),
                modern_combo("quality", &["V0", "128k", "320k"], json!({"default": "V0"})),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("AUDIO", "audio")],
            output_node: true,
            ..latest(
                "SaveAudioMP3",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["export mp3"], "essentials_category": "Audio", "deprecated": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let audio = present(&mut inputs)?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let format = Format::Mp3(inputs.text("quality")?.to_owned());
        save(audio, &prefix, false, &format, context)
    }
}

/// A sound into an Opus file.
#[derive(Clone, Copy, Debug)]
pub struct SaveAudioOpus;

impl Node for SaveAudioOpus {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Audio (Opus) (DEPRECATED)"),
            inputs: vec![
                link("audio", "AUDIO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "audio/ComfyUI", "multiline": false}),
                ),
                modern_combo(
                    "quality",
                    &["64k", "96k", "128k", "192k", "320k"],
                    json!({"default": "128k"}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("AUDIO", "audio")],
            output_node: true,
            ..latest(
                "SaveAudioOpus",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["export opus"], "deprecated": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let audio = present(&mut inputs)?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let format = Format::Opus(inputs.text("quality")?.to_owned());
        save(audio, &prefix, false, &format, context)
    }
}

/// A sound into a file of a format.
#[derive(Clone, Copy, Debug)]
pub struct SaveAudioAdvanced;

impl Node for SaveAudioAdvanced {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Save Audio (Advanced)"),
            inputs: vec![
                link("audio", "AUDIO"),
                string_input(
                    "filename_prefix",
                    json!({"default": "audio/ComfyUI", "multiline": false}),
                ),
                dynamic_combo(
                    "format",
                    vec![
                        ("flac", vec![]),
                        (
                            "mp3",
                            vec![modern_combo(
                                "quality",
                                &["V0", "128k", "320k"],
                                json!({"default": "V0"}),
                            )],
                        ),
                        (
                            "opus",
                            vec![modern_combo(
                                "quality",
                                &["64k", "96k", "128k", "192k", "320k"],
                                json!({"default": "128k"}),
                            )],
                        ),
                    ],
                    json!({}),
                ),
            ],
            hidden: modern_metadata(),
            outputs: vec![named_output("AUDIO", "audio")],
            output_node: true,
            ..latest(
                "SaveAudioAdvanced",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["save audio", "export audio", "output audio", "write audio", "flac", "mp3", "opus"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let audio = present(&mut inputs)?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let quality = || inputs.text("format.quality").map(str::to_owned);
        let format = match inputs.text("format")? {
            "mp3" => Format::Mp3(quality()?),
            "opus" => Format::Opus(quality()?),
            _ => Format::Flac,
        };
        save(audio, &prefix, false, &format, context)
    }
}

/// A sound to listen to.
#[derive(Clone, Copy, Debug)]
pub struct PreviewAudio;

impl Node for PreviewAudio {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Preview Audio"),
            inputs: vec![link("audio", "AUDIO")],
            hidden: modern_metadata(),
            outputs: vec![named_output("AUDIO", "audio")],
            output_node: true,
            ..latest(
                "PreviewAudio",
                "comfy_extras.nodes_audio",
                "audio",
                json!({"search_aliases": ["play audio"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let audio = present(&mut inputs)?;
        save(audio, &Prefix::temp(context), true, &Format::Flac, context)
    }
}

enum Format {
    Flac,
    Mp3(String),
    Opus(String),
}

fn present(inputs: &mut Inputs) -> Result<Value, NodeError> {
    inputs.maybe("audio").ok_or_else(|| {
        NodeError::value("there is no sound to save; the video may have no audio track")
    })
}

fn save(
    audio: Value,
    prefix: &Prefix,
    temp: bool,
    format: &Format,
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let sound = sound_of(&audio, "audio", context)?;
    let metadata = context.metadata();
    for (at, channels) in sound.items.iter().enumerate() {
        // What goes to a program, and what comes of it: as many bytes as the samples is more than any of the formats takes.
        context.reserve(sound::bytes(2 * channels.len(), sound.length()))?;
        let (bytes, extension, content_type) = match format {
            Format::Flac => (
                sound::flac(channels, sound.rate, &metadata)?,
                "flac",
                "audio/flac",
            ),
            // The encoders get samples in the form in which ComfyUI hands them over.
            Format::Mp3(quality) => {
                let quality = match quality.as_str() {
                    "V0" => ["-q:a", "0"],
                    rate => ["-b:a", rate],
                };
                let codec = ["-c:a", "libmp3lame", "-sample_fmt", "s32p", "-f", "mp3"];
                let options = [quality.as_slice(), &codec].concat();
                (
                    converted(channels, sound.rate, &options, context)?,
                    "mp3",
                    "audio/mpeg",
                )
            }
            Format::Opus(bits) => {
                let options = [
                    "-c:a",
                    "libopus",
                    "-sample_fmt",
                    "s16",
                    "-b:a",
                    bits,
                    "-f",
                    "opus",
                ];
                let rate = rate_of_opus(sound.rate);
                let item = vec![channels.clone()];
                let sound = Sound {
                    rate: sound.rate,
                    items: item,
                };
                let sound = sound::resampled(&sound, rate, context)?;
                (
                    converted(sound.channels(), rate, &options, context)?,
                    "opus",
                    "audio/ogg",
                )
            }
        };
        context.emit(OutputFile {
            kind: OutputKind::Audio,
            temp,
            name: prefix.name(at, extension),
            content_type,
            bytes: bytes.into(),
            shown_under: Some("audio"),
        })?;
    }
    Ok(audio.into())
}

/// The rate at which Opus keeps a sound: its own, if Opus has it, else the next one that Opus has.
fn rate_of_opus(rate: u32) -> u32 {
    const RATES: [u32; 5] = [8000, 12000, 16000, 24000, 48000];
    let enough = RATES.into_iter().find(|known| *known >= rate);
    enough.unwrap_or(RATES[RATES.len() - 1])
}

/// The sound as FFmpeg encodes it with these options, with what made it.
fn converted(
    channels: &[Vec<f32>],
    rate: u32,
    options: &[&str],
    context: &NodeContext,
) -> Result<Vec<u8>, NodeError> {
    let program = Ffmpeg::installed()?;
    let tags = tags(context);
    let tags = tags.iter().map(String::as_str);
    let options: Vec<&str> = tags.chain(options.iter().copied()).collect();
    program.convert(&sound::wave(channels, rate), &options, context)
}

#[cfg(test)]
mod tests {
    use super::rate_of_opus;

    #[test]
    fn opus_keeps_a_sound_at_a_rate_that_it_has() {
        for (rate, kept) in [
            (8000, 8000),
            (8001, 12000),
            (11025, 12000),
            (22050, 24000),
            (24000, 24000),
            (44100, 48000),
            (48000, 48000),
            (96000, 48000),
        ] {
            assert_eq!(rate_of_opus(rate), kept, "{rate}");
        }
    }
}
