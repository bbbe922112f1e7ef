//! Walks the chunks of a PNG file without trusting a length and without copying.
//!
//! Checksums are not looked at: a reader that shows what can be shown gains nothing from refusing a file for them.

/// The eight bytes that every PNG file begins with.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// One chunk, borrowed from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk<'a> {
    pub(super) name: [u8; 4],
    pub(super) data: &'a [u8],
}

/// The chunks of a PNG file, in order, up to `IEND` or to the first one that the file ends within.
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    /// Chunks of `png`; none if it is not PNG.
    pub(super) fn new(png: &'a [u8]) -> Self {
        Self {
            rest: png.strip_prefix(&SIGNATURE).unwrap_or_default(),
        }
    }
}

/// The image data of the first picture in a PNG file, chunk by chunk; the last one cut short where the file is.
pub(super) fn image_data(png: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut chunks = Chunks::new(png);
    let mut cut_short = false;
    std::iter::from_fn(move || {
        if let Some(chunk) = chunks.next() {
            return Some(chunk);
        }
        let rest = chunks.rest.split_first_chunk::<4>()?.1;
        let (name, data) = rest.split_first_chunk::<4>()?;
        (!std::mem::replace(&mut cut_short, true)).then_some(Chunk { name: *name, data })
    })
    .skip_while(|chunk| chunk.name != *b"IDAT")
    .take_while(|chunk| chunk.name == *b"IDAT")
    .map(|chunk| chunk.data)
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_first_chunk::<4>()?;
        let data = rest.get(..u32::from_be_bytes(*length) as usize)?;
        self.rest = rest.get(data.len() + 4..).unwrap_or_default();
        (*name != *b"IEND").then_some(Chunk { name: *name, data })
    }
}
