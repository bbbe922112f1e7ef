//! Reads the text chunks of a PNG file, where ComfyUI keeps prompt and workflow, within a bound.
//!
//! A few compressed bytes can claim gigabytes of text, so inflating stops at what is left of the bound. Chunks that do not
//! parse are passed over, as every reader of such files does.

use super::CodecError;
use super::chunks::{Chunk, Chunks};

/// One `tEXt`, `zTXt` or `iTXt` chunk, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PngText {
    /// The keyword, 1 to 79 Latin-1 characters in a correct file.
    pub keyword: String,
    /// The text.
    pub text: String,
}

/// Reads every text chunk of a PNG file in order; none from bytes that are not PNG.
///
/// # Errors
/// [`CodecError::TooLarge`] if keywords and texts together exceed `max_bytes`.
pub fn png_text(png: &[u8], max_bytes: usize) -> Result<Vec<PngText>, CodecError> {
    let mut left = max_bytes;
    let mut texts = Vec::new();
    for chunk in Chunks::new(png) {
        let too_large = || CodecError::TooLarge {
            what: "bytes of PNG text",
            limit: max_bytes as u64,
        };
        match read(chunk, left) {
            Ok(None) => {}
            Ok(Some(text)) => {
                left = left
                    .checked_sub(text.keyword.len() + text.text.len())
                    .ok_or_else(too_large)?;
                texts.push(text);
            }
            Err(TextBomb) => return Err(too_large()),
        }
    }
    Ok(texts)
}

/// The text under one keyword, if it is of a sane size; for the decoder's own look at metadata.
pub(super) fn find(png: &[u8], keyword: &str) -> Option<String> {
    const MAX_BYTES: usize = 1 << 20;
    let is_it = |chunk: &Chunk<'_>| {
        chunk
            .data
            .strip_prefix(keyword.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    };
    Chunks::new(png)
        .filter(is_it)
        .find_map(|chunk| read(chunk, MAX_BYTES).ok().flatten())
        .map(|text| text.text)
}

/// The EXIF block that ImageMagick writes as hexadecimal text: three lines of heading, then digits.
pub(super) fn raw_exif(png: &[u8]) -> Option<Vec<u8>> {
    let text = find(png, "Raw profile type exif")?;
    let digits: Vec<u8> = text.split('\n').skip(3).flat_map(str::bytes).collect();
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|nibble| nibble as u8);
    digits
        .chunks_exact(2)
        .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
        .collect()
}

/// More text than the bound allows.
struct TextBomb;

fn read(chunk: Chunk<'_>, max_bytes: usize) -> Result<Option<PngText>, TextBomb> {
    let Some((keyword, rest)) = split_zero(chunk.data) else {
        return Ok(None);
    };
    let text = match &chunk.name {
        b"tEXt" => Some(latin_1(rest)),
        b"zTXt" => match rest {
            [0, compressed @ ..] => inflate(compressed, max_bytes)?.map(|text| latin_1(&text)),
            _ => None,
        },
        b"iTXt" => international(rest, max_bytes)?,
        _ => None,
    };
    Ok(text.map(|text| PngText {
        keyword: latin_1(keyword),
        text,
    }))
}

/// Compression flag and method, language, translated keyword, UTF-8 text.
fn international(data: &[u8], max_bytes: usize) -> Result<Option<String>, TextBomb> {
    let [flag, method, rest @ ..] = data else {
        return Ok(None);
    };
    let Some((_, (_, text))) =
        split_zero(rest).and_then(|(language, rest)| Some((language, split_zero(rest)?)))
    else {
        return Ok(None);
    };
    let text = match (flag, method) {
        (0, _) => Some(text.to_vec()),
        (_, 0) => inflate(text, max_bytes)?,
        _ => None,
    };
    Ok(text.and_then(|text| String::from_utf8(text).ok()))
}

fn inflate(compressed: &[u8], max_bytes: usize) -> Result<Option<Vec<u8>>, TextBomb> {
    match fdeflate::decompress_to_vec_bounded(compressed, max_bytes) {
        Ok(text) => Ok(Some(text)),
        Err(fdeflate::BoundedDecompressionError::OutputTooLarge { .. }) => Err(TextBomb),
        Err(fdeflate::BoundedDecompressionError::DecompressionError { .. }) => Ok(None),
    }
}

fn split_zero(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let zero = data.iter().position(|&byte| byte == 0)?;
    Some((&data[..zero], &data[zero + 1..]))
}

fn latin_1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}
