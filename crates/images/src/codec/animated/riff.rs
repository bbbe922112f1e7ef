//! Adds metadata to a WebP file that an encoder made.

use crate::codec::CodecError;

const EXIF: u8 = 0x08;
const ALPHA: u8 = 0x10;

/// The file with an `EXIF` chunk at its end, extended to the format's form with flags where it was simple.
pub(super) fn with_exif(
    file: &[u8],
    exif: &[u8],
    (width, height): (u32, u32),
) -> Result<Vec<u8>, CodecError> {
    let broken = || CodecError::malformed("WebP", "the encoder wrote no picture");
    let body = file.get(12..).ok_or_else(broken)?;
    let mut extended = b"WEBP".to_vec();
    match body.split_first_chunk::<4>().ok_or_else(broken)?.0 {
        b"VP8X" => {
            let at = extended.len() + 8;
            extended.extend_from_slice(body);
            *extended.get_mut(at).ok_or_else(broken)? |= EXIF;
        }
        name => {
            // The bit of a lossless picture that says whether its alpha is used stands in the fifth byte of its header.
            let has_alpha =
                name == b"VP8L" && body.get(8 + 4).is_some_and(|header| header & 0x10 != 0);
            let flags = if has_alpha { EXIF | ALPHA } else { EXIF };
            let (width, height) = ((width - 1).to_le_bytes(), (height - 1).to_le_bytes());
            put(
                &mut extended,
                *b"VP8X",
                &[&[flags, 0, 0, 0], &width[..3], &height[..3]].concat(),
            );
            extended.extend_from_slice(body);
        }
    }
    put(&mut extended, *b"EXIF", exif);
    Ok([
        b"RIFF".as_slice(),
        &(extended.len() as u32).to_le_bytes(),
        &extended,
    ]
    .concat())
}

/// One chunk, padded to an even length.
fn put(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend_from_slice(&name);
    file.extend_from_slice(&(data.len() as u32).to_le_bytes());
    file.extend_from_slice(data);
    file.resize(file.len().next_multiple_of(2), 0);
}
