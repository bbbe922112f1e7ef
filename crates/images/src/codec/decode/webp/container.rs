//! The RIFF container of WebP: canvas, frames and metadata, all sizes checked against each other.

use super::NAME;
use crate::codec::CodecError;

/// A parsed file.
pub(super) struct Container<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Whether the file says that it has alpha; pixels of one that does not are opaque.
    pub(super) has_alpha: bool,
    pub(super) frames: Vec<FrameChunk<'a>>,
    pub(super) exif: Option<&'a [u8]>,
    pub(super) xmp: Option<&'a [u8]>,
}

/// One frame and how it joins the canvas.
pub(super) struct FrameChunk<'a> {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) has_alpha: bool,
    /// Whether it is drawn over what is there instead of replacing it.
    pub(super) blend: bool,
    /// Whether its rectangle is cleared before the next frame.
    pub(super) clear_after: bool,
    bitstream: Chunk<'a>,
    alpha: Option<&'a [u8]>,
}

#[derive(Clone, Copy)]
struct Chunk<'a> {
    name: [u8; 4],
    data: &'a [u8],
}

impl<'a> Container<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        const ANIMATED: u8 = 0x02;
        const ALPHA: u8 = 0x10;
        let size = bytes.get(4..8).map_or(0, little);
        let body = bytes
            .get(12..8 + size)
            .ok_or_else(|| malformed("it is cut off"))?;
        let chunks = chunks(body)?;
        let first = chunks.first().ok_or_else(|| malformed("it is empty"))?;
        if first.name != *b"VP8X" {
            let frame = FrameChunk::still(std::slice::from_ref(first), None)?;
            let (width, height, has_alpha) = (frame.width, frame.height, frame.has_alpha);
            return Ok(Self {
                width,
                height,
                has_alpha,
                frames: vec![frame],
                exif: None,
                xmp: None,
            });
        }
        let [flags, _, _, _, canvas @ ..] = first.data else {
            return Err(malformed("its header is cut off"));
        };
        let canvas = canvas
            .get(..6)
            .ok_or_else(|| malformed("its header is cut off"))?;
        let (width, height) = (little(&canvas[..3]) + 1, little(&canvas[3..]) + 1);
        let frames = if flags & ANIMATED == 0 {
            vec![FrameChunk::still(&chunks[1..], Some((width, height)))?]
        } else {
            let frames = chunks.iter().filter(|chunk| chunk.name == *b"ANMF");
            frames
                .map(|chunk| FrameChunk::animated(chunk.data, width, height))
                .collect::<Result<_, _>>()?
        };
        let find = |name: &[u8; 4]| {
            chunks
                .iter()
                .find(|chunk| chunk.name == *name)
                .map(|chunk| chunk.data)
        };
        Ok(Self {
            width,
            height,
            has_alpha: flags & ALPHA != 0,
            frames,
            exif: find(b"EXIF"),
            xmp: find(b"XMP "),
        })
    }
}

impl<'a> FrameChunk<'a> {
    /// The one picture of a still file: the first bitstream among `chunks`, with the alpha before it.
    fn still(chunks: &[Chunk<'a>], size: Option<(usize, usize)>) -> Result<Self, CodecError> {
        let at = chunks
            .iter()
            .position(|chunk| matches!(&chunk.name, b"VP8 " | b"VP8L"));
        let at = at.ok_or_else(|| malformed("it has no picture"))?;
        let bitstream = chunks[at];
        let alpha = chunks[..at]
            .iter()
            .find(|chunk| chunk.name == *b"ALPH" && bitstream.name == *b"VP8 ");
        let (width, height, lossless_alpha) = bitstream_size(bitstream)?;
        if size.is_some_and(|size| size != (width, height)) {
            return Err(malformed("canvas and picture differ in size"));
        }
        Ok(Self {
            x: 0,
            y: 0,
            width,
            height,
            has_alpha: lossless_alpha || alpha.is_some(),
            blend: false,
            clear_after: false,
            bitstream,
            alpha: alpha.map(|chunk| chunk.data),
        })
    }

    fn animated(
        data: &'a [u8],
        canvas_width: usize,
        canvas_height: usize,
    ) -> Result<Self, CodecError> {
        let (head, body) = data
            .split_at_checked(16)
            .ok_or_else(|| malformed("a frame is cut off"))?;
        let size = (little(&head[6..9]) + 1, little(&head[9..12]) + 1);
        let mut frame = Self::still(&chunks(body)?, Some(size))?;
        (frame.x, frame.y) = (little(&head[..3]) * 2, little(&head[3..6]) * 2);
        frame.blend = head[15] & 2 == 0;
        frame.clear_after = head[15] & 1 != 0;
        if frame.x + frame.width > canvas_width || frame.y + frame.height > canvas_height {
            return Err(malformed("a frame leaves the canvas"));
        }
        Ok(frame)
    }

    pub(super) fn covers(&self, x: usize, y: usize) -> bool {
        (self.x..self.x + self.width).contains(&x) && (self.y..self.y + self.height).contains(&y)
    }

    /// The frame as a file of its own.
    pub(super) fn still_file(&self) -> Vec<u8> {
        const ALPHA: u8 = 0x10;
        let mut body = b"WEBP".to_vec();
        let mut put = |name: [u8; 4], data: &[u8]| {
            body.extend_from_slice(&name);
            body.extend_from_slice(&(data.len() as u32).to_le_bytes());
            body.extend_from_slice(data);
            body.resize(body.len().next_multiple_of(2), 0);
        };
        if let Some(alpha) = self.alpha {
            let (width, height) = (
                (self.width as u32 - 1).to_le_bytes(),
                (self.height as u32 - 1).to_le_bytes(),
            );
            put(
                *b"VP8X",
                &[&[ALPHA, 0, 0, 0], &width[..3], &height[..3]].concat(),
            );
            put(*b"ALPH", alpha);
        }
        put(self.bitstream.name, self.bitstream.data);
        [
            b"RIFF".as_slice(),
            &(body.len() as u32).to_le_bytes(),
            &body,
        ]
        .concat()
    }
}

/// Width, height, and whether a lossless bitstream has alpha.
fn bitstream_size(chunk: Chunk<'_>) -> Result<(usize, usize, bool), CodecError> {
    let size = match (&chunk.name, chunk.data) {
        (b"VP8 ", [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..]) => Some((
            little(&[*w0, *w1]) & 0x3fff,
            little(&[*h0, *h1]) & 0x3fff,
            false,
        )),
        (b"VP8L", [0x2f, a, b, c, d, ..]) => {
            let bits = little(&[*a, *b, *c, *d]);
            Some((
                (bits & 0x3fff) + 1,
                (bits >> 14 & 0x3fff) + 1,
                bits >> 28 & 1 != 0,
            ))
        }
        _ => None,
    };
    size.filter(|&(width, height, _)| width > 0 && height > 0)
        .ok_or_else(|| malformed("a picture's header is broken"))
}

fn chunks(mut body: &[u8]) -> Result<Vec<Chunk<'_>>, CodecError> {
    let mut chunks = Vec::new();
    while let Some((head, rest)) = body.split_first_chunk::<8>() {
        let [a, b, c, d, size @ ..] = *head;
        let data = rest
            .get(..little(&size))
            .ok_or_else(|| malformed("it is cut off"))?;
        chunks.push(Chunk {
            name: [a, b, c, d],
            data,
        });
        body = rest
            .get(data.len().next_multiple_of(2)..)
            .unwrap_or_default();
    }
    Ok(chunks)
}

/// A little-endian number of at most four bytes.
fn little(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn malformed(reason: &str) -> CodecError {
    CodecError::malformed(NAME, reason)
}
