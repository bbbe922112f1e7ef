//! What the samples of a PNG file mean: unpacking rows to bytes, and bytes to a raster.
//!
//! Sixteen-bit colour keeps its high byte, but 16-bit grey without alpha clips: everything above 255 is white. That is what
//! the original does and what its users' workflows were made with.

use ::png::{ColorType, Info};

use super::malformed;
use crate::codec::CodecError;
use crate::codec::chunks::Chunks;
use crate::codec::decode::raster::{Alpha, Raster};

/// Colour type, depth, palette and transparency of a file.
pub(super) struct Layout {
    color: ColorType,
    depth: usize,
    /// Bytes a pixel on the canvas.
    pub(super) bands: usize,
    palette: Vec<[u8; 4]>,
    has_transparency: bool,
    /// The transparent colour, cut to the bytes that Pillow compares.
    key: Option<Vec<u8>>,
}

impl Layout {
    pub(super) fn read(bytes: &[u8], info: &Info<'_>) -> Result<Self, CodecError> {
        let (mut plte, mut trns) = (None, None);
        for chunk in Chunks::new(bytes).take_while(|chunk| chunk.name != *b"IDAT") {
            match &chunk.name {
                b"PLTE" => plte = Some(chunk.data),
                b"tRNS" => trns = Some(chunk.data),
                _ => {}
            }
        }
        // An index that the palette lacks is black, as in Pillow.
        let mut palette = Vec::new();
        if info.color_type == ColorType::Indexed {
            palette = vec![[0, 0, 0, 255]; 256];
            let colors = plte
                .ok_or_else(|| malformed("it has no palette"))?
                .chunks_exact(3);
            for (entry, color) in palette.iter_mut().zip(colors) {
                entry[..3].copy_from_slice(color);
            }
            for (entry, &alpha) in palette.iter_mut().zip(trns.unwrap_or_default()) {
                entry[3] = alpha;
            }
        }
        let has_key = matches!(info.color_type, ColorType::Grayscale | ColorType::Rgb);
        let key = trns.filter(|trns| has_key && trns.len() == info.color_type.samples() * 2);
        Ok(Self {
            color: info.color_type,
            depth: info.bit_depth as usize,
            bands: info.color_type.samples(),
            palette,
            has_transparency: trns.is_some(),
            key: key.map(|key| key.iter().skip(1).step_by(2).copied().collect()),
        })
    }

    pub(super) fn bits_per_pixel(&self) -> u8 {
        (self.bands * self.depth) as u8
    }

    /// Bytes of a row of `width` pixels as the file packs it.
    pub(super) fn packed_stride(&self, width: usize) -> usize {
        (width * self.bands * self.depth).div_ceil(8)
    }

    /// Whether LoadImage takes a mask from it.
    pub(super) fn has_alpha(&self) -> bool {
        match self.color {
            ColorType::GrayscaleAlpha | ColorType::Rgba => true,
            ColorType::Indexed => self.has_transparency,
            ColorType::Grayscale | ColorType::Rgb => false,
        }
    }

    /// Alpha of a canvas pixel.
    pub(super) fn alpha(&self, pixel: &[u8]) -> u8 {
        match self.color {
            ColorType::GrayscaleAlpha | ColorType::Rgba => pixel[self.bands - 1],
            ColorType::Indexed => self.palette[usize::from(pixel[0])][3],
            ColorType::Rgb if self.key.as_deref() == Some(pixel) => 0,
            ColorType::Grayscale | ColorType::Rgb => 255,
        }
    }

    /// One packed row to canvas bytes: grey scaled to 0..=255, indices as they are.
    pub(super) fn unpack(&self, row: &[u8], out: &mut [u8]) {
        match self.depth {
            8 => out.copy_from_slice(&row[..out.len()]),
            16 if self.color == ColorType::Grayscale => {
                for (out, sample) in out.iter_mut().zip(row.chunks_exact(2)) {
                    *out = if sample[0] == 0 { sample[1] } else { 255 };
                }
            }
            16 => out
                .iter_mut()
                .zip(row.chunks_exact(2))
                .for_each(|(out, sample)| *out = sample[0]),
            depth => {
                let (per_byte, top) = (8 / depth, (1_u16 << depth) - 1);
                let scale = if self.color == ColorType::Indexed {
                    1
                } else {
                    (255 / top) as u8
                };
                for (out, &byte) in out.chunks_mut(per_byte).zip(row) {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = (byte >> (8 - depth * (at + 1)) & top as u8) * scale;
                    }
                }
            }
        }
    }

    /// The canvas as a raster; `canvas` itself where nothing has to be expanded.
    pub(super) fn raster(&self, width: usize, height: usize, canvas: Vec<u8>) -> Raster {
        if self.color == ColorType::Indexed {
            let channels = if self.has_transparency { 4 } else { 3 };
            let mut data = Vec::with_capacity(canvas.len() * channels);
            canvas.iter().for_each(|&index| {
                data.extend_from_slice(&self.palette[usize::from(index)][..channels])
            });
            return Raster {
                alpha: Alpha::Palette,
                ..Raster::new(width, height, channels, data)
            };
        }
        let Some(key) = &self.key else {
            return Raster::new(width, height, self.bands, canvas);
        };
        let mut data = Vec::with_capacity(width * height * (self.bands + 1));
        for pixel in canvas.chunks_exact(self.bands) {
            data.extend_from_slice(pixel);
            data.push(if pixel == key { 0 } else { 255 });
        }
        Raster {
            alpha: Alpha::Key,
            ..Raster::new(width, height, self.bands + 1, data)
        }
    }
}
