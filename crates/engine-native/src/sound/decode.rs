//! Files into samples.

use std::io::Cursor;

use bytes::Bytes;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

use super::{Sound, foreign};
use crate::program::Ffmpeg;
use crate::{NodeContext, NodeError};

/// Most channels of a sound.
const MOST_CHANNELS: usize = 64;

/// Samples that are reserved at a time.
const STEP: usize = 1 << 20;

/// Decodes the first sound of a file. WAV, FLAC and MP3 are decoded here; what else there is by FFmpeg, which knows where the sound
/// of such a file begins and ends. Where that is not installed: Ogg Vorbis, AAC and ALAC in MP4, and what Matroska holds of these.
///
/// # Errors
/// If it holds no sound that can be decoded, or there is no room for it.
pub(crate) fn decoded(file: Bytes, context: &NodeContext) -> Result<Sound, NodeError> {
    if !foreign::is_plain(&file)
        && let Ok(program) = Ffmpeg::installed()
    {
        return foreign::decoded(program, &file, context)?.ok_or_else(unknown);
    }
    let source = MediaSourceStream::new(Box::new(Cursor::new(file)), Default::default());
    let probed = symphonia::default::get_probe().probe(
        &Hint::new(),
        source,
        FormatOptions::default(),
        MetadataOptions::default(),
    );
    let mut format = probed.map_err(|_| unknown())?;
    let track = format.default_track(TrackType::Audio).ok_or_else(|| {
        NodeError::value("the file has no sound; choose a file with an audio track")
    })?;
    let parameters = track.codec_params.as_ref();
    let parameters = parameters.and_then(|parameters| parameters.audio());
    let parameters = parameters.ok_or_else(unknown)?;
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(parameters, &AudioDecoderOptions::default())
        .map_err(|_| unknown())?;
    let id = track.id;
    let mut rate = parameters.sample_rate;
    let mut channels: Vec<Vec<f32>> = Vec::new();
    let mut reserved = 0;
    let mut samples: Vec<f32> = Vec::new();
    // A file that ends early is played as far as it goes.
    while let Ok(Some(packet)) = format.next_packet() {
        context.check()?;
        if packet.track_id != id {
            continue;
        }
        let buffer = match decoder.decode(&packet) {
            Ok(buffer) => buffer,
            Err(Error::DecodeError(_)) => continue,
            Err(_) => break,
        };
        let count = buffer.spec().channels().count();
        if count == 0 || count > MOST_CHANNELS {
            return Err(NodeError::value(format!(
                "the sound has {count} channels; 1 to {MOST_CHANNELS} can be used"
            )));
        }
        if channels.is_empty() {
            rate.get_or_insert(buffer.spec().rate());
            channels.resize(count, Vec::new());
        }
        // What changes its channels in between goes on in those it began with.
        if count != channels.len() {
            continue;
        }
        samples.resize(buffer.samples_interleaved(), 0.0);
        buffer.copy_to_slice_interleaved(&mut samples);
        let length = channels[0].len() + samples.len() / count;
        while reserved < length {
            context.reserve(super::bytes(count, STEP))?;
            reserved += STEP;
        }
        for (at, channel) in channels.iter_mut().enumerate() {
            channel.extend(samples.iter().skip(at).step_by(count));
        }
    }
    match (
        rate,
        channels.first().is_some_and(|channel| !channel.is_empty()),
    ) {
        (Some(rate), true) => Ok(Sound {
            rate,
            items: vec![channels],
        }),
        _ => Err(NodeError::value(
            "the file has no sound that can be decoded",
        )),
    }
}

fn unknown() -> NodeError {
    NodeError::value(
        "this is no sound in a format that is known here; use WAV, FLAC, MP3, Ogg Vorbis or AAC, or one that FFmpeg \
         knows where that is installed",
    )
}
