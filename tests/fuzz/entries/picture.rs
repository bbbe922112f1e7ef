//! Pictures that are fuzzed: any bytes at all are answered, within bounds. The fuzzer calls these, and so do the tests of
//! images, with bytes that they change themselves.

use images::codec::{self, Channel, Limits};

/// Small enough that whatever gets past them shows.
pub(crate) const LIMITS: Limits = Limits {
    max_width: 512,
    max_height: 512,
    max_pixels: 1 << 18,
    max_frames: 16,
    max_bytes: 8 << 20,
};

/// A picture: read in every way there is, and what comes out is written again.
pub(crate) fn picture(bytes: &[u8]) {
    let header = codec::probe(bytes, &LIMITS);
    let channel = codec::decode_channel(bytes, Channel::Alpha, &LIMITS);
    let Ok(decoded) = codec::decode(bytes, &LIMITS) else {
        return;
    };
    assert!(header.is_ok(), "what can be decoded has a header");
    assert!(
        channel.is_ok(),
        "what can be decoded has an alpha channel, if an opaque one"
    );
    let frames = decoded.image.frames().iter().chain(decoded.mask.frames());
    let taken: usize = frames.map(|frame| frame.size_bytes()).sum();
    assert!(
        taken as u64 <= LIMITS.max_bytes + 16 * 64 * 64 * 4,
        "{taken} bytes"
    );
    let first = decoded.image.first();
    let written = codec::encode_png(first, &[]).expect("what was decoded has a size that PNG has");
    let again = codec::decode(&written, &LIMITS).expect("what was written can be read");
    assert_eq!(again.image.first(), first, "PNG loses nothing of 8 bits");
}

/// The texts in a PNG file, within a bound.
pub(crate) fn png_text(bytes: &[u8]) {
    const MAX_BYTES: usize = 1 << 16;
    // The fuzzer need not find the signature.
    let file = [b"\x89PNG\r\n\x1a\n", bytes].concat();
    for png in [bytes, &file] {
        if let Ok(texts) = codec::png_text(png, MAX_BYTES) {
            let total: usize = texts
                .iter()
                .map(|text| text.keyword.len() + text.text.len())
                .sum();
            assert!(total <= MAX_BYTES, "{total} bytes of text");
        }
    }
}
