//! The device-independent bitmap inside BMP files and icons.

use super::NAME;
use crate::codec::CodecError;
use crate::codec::decode::raster::Raster;

/// A parsed bitmap header with the bytes that its pixels are read from.
pub(in crate::codec::decode) struct Dib<'a> {
    pub(in crate::codec::decode) width: usize,
    pub(in crate::codec::decode) height: usize,
    bottom_up: bool,
    bits: usize,
    kind: Kind<'a>,
    bytes: &'a [u8],
    /// Where the pixels begin in `bytes`.
    pub(in crate::codec::decode) pixels: usize,
}

enum Kind<'a> {
    /// Indices into `stride` bytes a colour, blue first.
    Palette {
        colors: &'a [u8],
        stride: usize,
        run_length: bool,
    },
    /// Five bits a channel, or six for green.
    Packed { green_bits: u32 },
    /// Bytes: where red, green, blue and alpha stand in a pixel.
    Bytes {
        order: [usize; 3],
        alpha: Option<usize>,
    },
}

impl<'a> Dib<'a> {
    /// Parses the bitmap header at `start`; `pixels` is where a file header says that the pixels begin.
    pub(in crate::codec::decode) fn parse(
        format: &'static str,
        bytes: &'a [u8],
        start: usize,
        pixels: Option<usize>,
    ) -> Result<Self, CodecError> {
        let cut_off = || CodecError::malformed(format, "its header is cut off");
        let long = |at: usize| {
            let field = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
            field
                .map(|field| u32::from_le_bytes(*field))
                .ok_or_else(cut_off)
        };
        let short = |at: usize| {
            let field = bytes.get(at..).and_then(<[u8]>::first_chunk::<2>);
            field
                .map(|field| usize::from(u16::from_le_bytes(*field)))
                .ok_or_else(cut_off)
        };
        let size = long(start)? as usize;
        let mut after = start + size;
        let (width, height, bits, compression, named_colors, stride, bottom_up);
        match size {
            12 => {
                (width, height, bits) = (short(start + 4)?, short(start + 6)?, short(start + 10)?);
                (compression, named_colors, stride, bottom_up) = (0, 0, 3, true);
            }
            40 | 52 | 56 | 64 | 108 | 124 => {
                let rows = long(start + 8)?;
                bottom_up = rows >> 24 != 0xff;
                (width, height) = (
                    long(start + 4)? as usize,
                    if bottom_up { rows } else { rows.wrapping_neg() } as usize,
                );
                (bits, compression, named_colors, stride) =
                    (short(start + 14)?, long(start + 16)?, long(start + 32)?, 4);
            }
            _ => {
                return Err(CodecError::Unsupported(format!(
                    "a {NAME} header of {size} bytes"
                )));
            }
        }
        let kind = match (bits, compression) {
            (1 | 4 | 8, 0) | (8, 1) | (4, 2) => {
                let count = if named_colors == 0 {
                    1 << bits
                } else {
                    named_colors.min(1 << 16) as usize
                };
                let colors = bytes.get(after..).unwrap_or_default();
                let colors = &colors[..(count * stride).min(colors.len())];
                after += count * stride;
                Kind::Palette {
                    colors,
                    stride,
                    run_length: compression != 0,
                }
            }
            (16, 0) => Kind::Packed { green_bits: 5 },
            (24 | 32, 0) => Kind::Bytes {
                order: [2, 1, 0],
                alpha: None,
            },
            (16 | 24 | 32, 3) => {
                // Masks stand behind a 40-byte header and inside the larger ones, at the same place.
                let at = start + 40;
                let masks = [
                    long(at)?,
                    long(at + 4)?,
                    long(at + 8)?,
                    if size >= 56 { long(at + 12)? } else { 0 },
                ];
                after = after.max(at + 12);
                Kind::of_masks(bits, masks).ok_or_else(|| {
                    CodecError::Unsupported(format!("this {NAME} bit field layout"))
                })?
            }
            _ => {
                return Err(CodecError::Unsupported(format!(
                    "{NAME} compression {compression} at {bits} bits"
                )));
            }
        };
        // Some writers forget the palette when they say where the pixels begin.
        let pixels = pixels
            .filter(|&at| bits > 8 || at != start + size)
            .unwrap_or(after);
        Ok(Self {
            width,
            height,
            bottom_up,
            bits,
            kind,
            bytes,
            pixels,
        })
    }

    pub(in crate::codec::decode) fn has_alpha(&self) -> bool {
        matches!(self.kind, Kind::Bytes { alpha: Some(_), .. })
    }

    /// Decodes all rows that are there.
    pub(in crate::codec::decode) fn raster(&self) -> Raster {
        let data = self.bytes.get(self.pixels..).unwrap_or_default();
        match &self.kind {
            Kind::Palette {
                colors,
                stride,
                run_length,
            } => {
                let indices = if *run_length {
                    self.run_lengths(data)
                } else {
                    self.indices(data)
                };
                let color = |index: u8| match colors.get(usize::from(index) * stride..) {
                    Some(&[blue, green, red, ..]) => [red, green, blue],
                    _ => [0; 3],
                };
                Raster::new(
                    self.width,
                    self.height,
                    3,
                    indices.into_iter().flat_map(color).collect(),
                )
            }
            Kind::Packed { green_bits } => self.rows(data, 3, |row, out| {
                let (red_at, green_top) = (5 + green_bits, (1_u32 << green_bits) - 1);
                for (pixel, out) in row.chunks_exact(2).zip(out.chunks_exact_mut(3)) {
                    let pixel = u32::from(u16::from_le_bytes([pixel[0], pixel[1]]));
                    out[0] = ((pixel >> red_at & 31) * 255 / 31) as u8;
                    out[1] = ((pixel >> 5 & green_top) * 255 / green_top) as u8;
                    out[2] = ((pixel & 31) * 255 / 31) as u8;
                }
            }),
            Kind::Bytes { order, alpha } => {
                let channels = if alpha.is_some() { 4 } else { 3 };
                self.rows(data, channels, |row, out| {
                    for (pixel, out) in row
                        .chunks_exact(self.bits / 8)
                        .zip(out.chunks_exact_mut(channels))
                    {
                        order
                            .iter()
                            .chain(alpha)
                            .zip(out)
                            .for_each(|(&at, out)| *out = pixel[at]);
                    }
                })
            }
        }
    }

    fn row_bytes(&self) -> usize {
        (self.width * self.bits).div_ceil(32) * 4
    }

    fn row_at(&self, index: usize) -> usize {
        if self.bottom_up {
            self.height - 1 - index
        } else {
            index
        }
    }

    fn rows(&self, data: &[u8], channels: usize, unpack: impl Fn(&[u8], &mut [u8])) -> Raster {
        let stride = self.width * channels;
        let mut out = vec![0; stride * self.height];
        for (index, row) in data
            .chunks_exact(self.row_bytes())
            .take(self.height)
            .enumerate()
        {
            unpack(row, &mut out[self.row_at(index) * stride..][..stride]);
        }
        Raster::new(self.width, self.height, channels, out)
    }

    fn indices(&self, data: &[u8]) -> Vec<u8> {
        let per_byte = 8 / self.bits;
        let top = ((1_u16 << self.bits) - 1) as u8;
        let unpack = |row: &[u8], out: &mut [u8]| {
            for (x, out) in out.iter_mut().enumerate() {
                *out = row[x / per_byte] >> (8 - self.bits * (x % per_byte + 1)) & top;
            }
        };
        self.rows(data, 1, unpack).data
    }

    /// Run-length coding: counted pixels, literal pixels, and escapes for line end, picture end and moves.
    fn run_lengths(&self, data: &[u8]) -> Vec<u8> {
        let total = self.width * self.height;
        let mut indices = Vec::with_capacity(total);
        let nibbles = self.bits == 4;
        let mut x = 0;
        let mut at = 0;
        while let (true, Some(&[count, value])) = (
            indices.len() < total,
            data.get(at..).and_then(<[u8]>::first_chunk::<2>),
        ) {
            at += 2;
            match (count, value) {
                (0, 0) => {
                    indices.resize(indices.len().next_multiple_of(self.width).min(total), 0);
                    x = 0;
                }
                (0, 1) => break,
                (0, 2) => {
                    let Some(&[right, up]) = data.get(at..).and_then(<[u8]>::first_chunk::<2>)
                    else {
                        break;
                    };
                    at += 2;
                    let skipped = usize::from(right) + usize::from(up) * self.width;
                    indices.resize((indices.len() + skipped).min(total), 0);
                    x = indices.len() % self.width;
                }
                (0, literal) => {
                    let bytes = if nibbles {
                        usize::from(literal) / 2
                    } else {
                        usize::from(literal)
                    };
                    let there = data.get(at..).unwrap_or_default();
                    let there = &there[..bytes.min(there.len())];
                    if nibbles {
                        indices.extend(there.iter().flat_map(|byte| [byte >> 4, byte & 15]));
                    } else {
                        indices.extend_from_slice(there);
                    }
                    if there.len() < bytes {
                        break;
                    }
                    x += usize::from(literal);
                    at += bytes;
                    // Literal runs end on a 16-bit boundary of the file.
                    at += (self.pixels + at) % 2;
                }
                (count, value) => {
                    let count = usize::from(count).min(self.width.saturating_sub(x));
                    let pair = if nibbles {
                        [value >> 4, value & 15]
                    } else {
                        [value; 2]
                    };
                    indices.extend(pair.into_iter().cycle().take(count));
                    x += count;
                }
            }
        }
        indices.resize(total, 0);
        let rows = indices.chunks_exact(self.width);
        if self.bottom_up {
            rows.rev().flatten().copied().collect()
        } else {
            indices
        }
    }
}

impl Kind<'_> {
    /// The layouts that Pillow knows.
    fn of_masks(bits: usize, [red, green, blue, alpha]: [u32; 4]) -> Option<Self> {
        match (bits, red, green, blue) {
            (16, 0xf800, 0x7e0, 0x1f) => return Some(Self::Packed { green_bits: 6 }),
            (16, 0x7c00, 0x3e0, 0x1f) => return Some(Self::Packed { green_bits: 5 }),
            (24, 0xff_0000, 0xff00, 0xff) => {
                return Some(Self::Bytes {
                    order: [2, 1, 0],
                    alpha: None,
                });
            }
            (32, ..) => {}
            _ => return None,
        }
        let (order, alpha) = match (red, green, blue, alpha) {
            (0xff_0000, 0xff00, 0xff, 0) => ([2, 1, 0], None),
            (0xff00_0000, 0xff_0000, 0xff00, 0) => ([3, 2, 1], None),
            (0xff00_0000, 0xff00, 0xff, 0) => ([3, 1, 0], None),
            (0xff00_0000, 0xff_0000, 0xff00, 0xff) => ([3, 2, 1], Some(0)),
            (0xff, 0xff00, 0xff_0000, 0xff00_0000) => ([0, 1, 2], Some(3)),
            (0xff_0000, 0xff00, 0xff, 0xff00_0000) | (0, 0, 0, 0) => ([2, 1, 0], Some(3)),
            (0xff00_0000, 0xff00, 0xff, 0xff_0000) => ([3, 1, 0], Some(2)),
            _ => return None,
        };
        Some(Self::Bytes { order, alpha })
    }
}
