//! Samples into files: FLAC, and WAV for programs that read every bit of them.

use flacenc::bitsink::ByteSink;
use flacenc::component::{BitRepr, MetadataBlockData};
use flacenc::error::Verify;
use flacenc::source::MemSource;

use crate::NodeError;

/// The type of a block of comments.
const COMMENTS: u8 = 4;

/// Encodes channels as FLAC of 16 bits, with texts that carry what made it.
///
/// # Errors
/// If FLAC cannot hold the sound.
pub(crate) fn flac(
    channels: &[Vec<f32>],
    rate: u32,
    texts: &[(String, String)],
) -> Result<Vec<u8>, NodeError> {
    let wrong = || {
        NodeError::value(format!(
            "FLAC cannot hold a sound of {} channels at {rate} Hz; use 1 to 8 channels and at most 96000 Hz",
            channels.len()
        ))
    };
    let length = channels.first().map_or(0, Vec::len);
    let mut interleaved = Vec::with_capacity(length * channels.len());
    for at in 0..length {
        let samples = channels.iter().map(|channel| channel[at]);
        interleaved.extend(samples.map(|sample| i32::from(level(sample))));
    }
    let config = flacenc::config::Encoder::default();
    let config = config.into_verified().map_err(|_| wrong())?;
    let source = MemSource::from_samples(&interleaved, channels.len(), 16, rate as usize);
    let block = config.block_size;
    let mut stream =
        flacenc::encode_with_fixed_block_size(&config, source, block).map_err(|_| wrong())?;
    // The format leaves the last block out of the bounds, and decoders take two bounds for blocks of many lengths.
    let info = stream.stream_info_mut();
    info.set_block_sizes(block, block).map_err(|_| wrong())?;
    if let Some(comments) = comments(texts) {
        let block = MetadataBlockData::new_unknown(COMMENTS, &comments).map_err(|_| wrong())?;
        stream.add_metadata_block(block);
    }
    let mut sink = ByteSink::new();
    stream.write(&mut sink).map_err(|_| wrong())?;
    Ok(sink.as_slice().to_vec())
}

/// Channels as WAV of floats, which loses nothing. If the length is too large for WAV, the header has the largest one, and FFmpeg
/// reads up to the end of the file.
pub(crate) fn wave(channels: &[Vec<f32>], rate: u32) -> Vec<u8> {
    const FLOAT: u16 = 3;
    const HEADER: usize = 36;
    let size = size_of::<f32>();
    let (count, length) = (channels.len(), channels.first().map_or(0, Vec::len));
    let frame = count * size;
    let told = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut wave = Vec::with_capacity(HEADER + 8 + length * frame);
    wave.extend(b"RIFF");
    wave.extend(told(HEADER + length * frame));
    wave.extend(b"WAVEfmt \x10\0\0\0");
    wave.extend(FLOAT.to_le_bytes());
    wave.extend((count as u16).to_le_bytes());
    wave.extend(rate.to_le_bytes());
    wave.extend(told(rate as usize * frame));
    wave.extend((frame as u16).to_le_bytes());
    wave.extend((8 * size as u16).to_le_bytes());
    wave.extend(b"data");
    wave.extend(told(length * frame));
    for at in 0..length {
        wave.extend(
            channels
                .iter()
                .flat_map(|channel| channel[at].to_le_bytes()),
        );
    }
    wave
}

/// The nearest of 65536 levels.
pub(super) fn level(sample: f32) -> i16 {
    (sample * 32768.0)
        .round_ties_even()
        .clamp(-32768.0, 32767.0) as i16
}

/// `KEY=text` for every text, as Vorbis comments; `None` if a block cannot hold them.
fn comments(texts: &[(String, String)]) -> Option<Vec<u8>> {
    const MOST_BYTES: usize = (1 << 24) - 1;
    let mut block = Vec::new();
    let mut put = |text: &str| {
        block.extend((text.len() as u32).to_le_bytes());
        block.extend(text.as_bytes());
    };
    put("easel");
    let count = texts.len() as u32;
    block.extend(count.to_le_bytes());
    for (key, text) in texts {
        let comment = format!("{key}={text}");
        block.extend((comment.len() as u32).to_le_bytes());
        block.extend(comment.as_bytes());
    }
    (!texts.is_empty() && block.len() <= MOST_BYTES).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeContext;
    use crate::sound::decoded;

    #[test]
    fn wave_keeps_every_bit() {
        let channels = vec![vec![0.1, -0.7, 1.5e-9], vec![0.0, 1.0, -1.0]];
        let wave = wave(&channels, 44100);
        let sound = decoded(wave.into(), &NodeContext::detached()).expect("a sound");
        assert_eq!((sound.rate, sound.items), (44100, vec![channels]));
    }
}
