//! Samples into FLAC files.

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
