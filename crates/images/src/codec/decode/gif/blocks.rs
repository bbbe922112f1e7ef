//! Walks the blocks of a GIF file; nothing is decoded until a frame's indices are asked for.

use weezl::{BitOrder, LzwStatus, decode::Decoder};

use super::NAME;
use crate::codec::CodecError;

/// The colours of a frame.
#[derive(Clone, Copy)]
pub(super) enum Colors<'a> {
    /// No palette, or one where every index is its own grey.
    Grey,
    /// Three bytes a colour.
    Palette(&'a [u8]),
}

impl<'a> Colors<'a> {
    fn of(palette: &'a [u8]) -> Self {
        let is_ramp = palette
            .chunks_exact(3)
            .enumerate()
            .all(|(grey, color)| color.iter().all(|&v| usize::from(v) == grey));
        if is_ramp {
            Self::Grey
        } else {
            Self::Palette(palette)
        }
    }

    /// The colour of an index; black beyond the palette.
    pub(super) fn color(self, index: u8) -> [u8; 3] {
        match self {
            Self::Grey => [index; 3],
            Self::Palette(palette) => palette
                .get(usize::from(index) * 3..)
                .and_then(<[u8]>::first_chunk)
                .copied()
                .unwrap_or_default(),
        }
    }

    /// The colour of an index; the first colour beyond the palette.
    pub(super) fn clamped(self, index: u8) -> [u8; 3] {
        match self {
            Self::Palette(palette) if usize::from(index) * 3 + 3 > palette.len() => self.color(0),
            Self::Grey | Self::Palette(_) => self.color(index),
        }
    }
}

/// One image block with the control block before it.
pub(super) struct FrameBlock<'a> {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) colors: Colors<'a>,
    pub(super) transparent: Option<u8>,
    pub(super) disposal: u8,
    interlaced: bool,
    code_size: u8,
    /// The sub-blocks, lengths included.
    data: &'a [u8],
}

impl FrameBlock<'_> {
    /// The palette indices, row-major; what the data lacks is the transparent index or 0.
    pub(super) fn indices(&self) -> Vec<u8> {
        let mut indices = vec![self.transparent.unwrap_or(0); self.width * self.height];
        if indices.is_empty() || !(1..=11).contains(&self.code_size) {
            return indices;
        }
        let mut lzw = Vec::new();
        let mut rest = self.data;
        while let Some(block) = sub_block(&mut rest) {
            lzw.extend_from_slice(block);
        }
        let mut decoder = Decoder::new(BitOrder::Lsb, self.code_size);
        let (mut read, mut written) = (0, 0);
        while written < indices.len() {
            let step = decoder.decode_bytes(&lzw[read..], &mut indices[written..]);
            read += step.consumed_in;
            written += step.consumed_out;
            if !matches!(step.status, Ok(LzwStatus::Ok)) {
                break;
            }
        }
        if self.interlaced {
            self.deinterlaced(&indices)
        } else {
            indices
        }
    }

    fn deinterlaced(&self, indices: &[u8]) -> Vec<u8> {
        let mut rows = vec![0; indices.len()];
        let order = [(0, 8), (4, 8), (2, 4), (1, 2)]
            .into_iter()
            .flat_map(|(from, step)| (from..self.height).step_by(step));
        for (y, row) in order.zip(indices.chunks_exact(self.width)) {
            rows[y * self.width..][..self.width].copy_from_slice(row);
        }
        rows
    }
}

/// A GIF file being read.
pub(super) struct Blocks<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The background index, if there is a global palette.
    pub(super) background: Option<u8>,
    global: Colors<'a>,
    disposal: u8,
    rest: &'a [u8],
}

impl<'a> Blocks<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let (screen, mut rest) = bytes
            .split_at_checked(13)
            .ok_or_else(|| CodecError::malformed(NAME, "its header is cut off"))?;
        let has_palette = screen[10] & 0x80 != 0;
        let global = if has_palette {
            palette(&mut rest, screen[10])
        } else {
            &[]
        };
        Ok(Self {
            width: short(screen, 6),
            height: short(screen, 8),
            background: has_palette.then_some(screen[11]),
            global: Colors::of(global),
            disposal: 0,
            rest,
        })
    }

    /// The next frame; none at the trailer or where the file ends.
    pub(super) fn next_frame(&mut self) -> Option<FrameBlock<'a>> {
        let mut transparent = None;
        loop {
            match self.take(1)?[0] {
                b';' => return None,
                b'!' => {
                    let label = self.take(1)?[0];
                    let block = sub_block(&mut self.rest);
                    if let (0xf9, Some([flags, _, _, index, ..])) = (label, block) {
                        if flags & 1 != 0 {
                            transparent = Some(*index);
                        }
                        if flags & 0x1c != 0 {
                            self.disposal = (flags & 0x1c) >> 2;
                        }
                    }
                    if block.is_some() {
                        while sub_block(&mut self.rest).is_some() {}
                    }
                }
                b',' => return self.frame(transparent),
                _ => {}
            }
        }
    }

    fn frame(&mut self, transparent: Option<u8>) -> Option<FrameBlock<'a>> {
        let descriptor = self.take(9)?;
        let flags = descriptor[8];
        let colors = if flags & 0x80 != 0 {
            Colors::of(palette(&mut self.rest, flags))
        } else {
            self.global
        };
        let code_size = self.take(1)?[0];
        let data = self.rest;
        while sub_block(&mut self.rest).is_some() {}
        Some(FrameBlock {
            x: short(descriptor, 0),
            y: short(descriptor, 2),
            width: short(descriptor, 4),
            height: short(descriptor, 6),
            colors,
            transparent,
            disposal: self.disposal,
            interlaced: flags & 0x40 != 0,
            code_size,
            data,
        })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }
}

fn palette<'a>(rest: &mut &'a [u8], flags: u8) -> &'a [u8] {
    let (palette, after) = rest.split_at((3 << ((flags & 7) + 1)).min(rest.len()));
    *rest = after;
    palette
}

/// The next sub-block; none at the terminator, which is passed over, nor where the file ends within it.
fn sub_block<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&length, after) = rest.split_first()?;
    let (block, after) = after.split_at_checked(length.into()).unwrap_or_default();
    *rest = after;
    (!block.is_empty()).then_some(block)
}

fn short(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) | usize::from(bytes[at + 1]) << 8
}
