//! What the samples of a TIFF page mean, and their way to a raster.

use ::tiff::ColorType;
use ::tiff::decoder::DecodingResult;
use ::tiff::tags::Tag;

use super::{NAME, Source, refusal};
use crate::codec::CodecError;
use crate::codec::decode::color::{cmyk_to_rgb, unpremultiply, ycbcr_to_rgb};
use crate::codec::decode::raster::Raster;

/// How the samples of a pixel make a colour.
pub(super) struct Layout {
    meaning: Meaning,
    /// Samples a pixel in the file's row.
    samples: usize,
    bits: usize,
}

enum Meaning {
    Grey,
    GreyAlpha,
    /// Sixteen bits a colour channel.
    Palette(Vec<[u8; 3]>),
    Rgb,
    Rgba {
        premultiplied: bool,
    },
    Cmyk,
    YCbCr,
}

impl Layout {
    pub(super) fn of(source: &mut Source<'_>, has_palette: bool) -> Result<Self, CodecError> {
        let extra: Vec<u16> = source
            .find_tag_unsigned_vec(Tag::ExtraSamples)
            .map_err(refusal)?
            .unwrap_or_default();
        let color = source.colortype().map_err(refusal)?;
        let unsupported = || CodecError::Unsupported(format!("{NAME} with {color:?} pixels"));
        let meaning = match (color, extra.first()) {
            (ColorType::Gray(_), _) if has_palette => Meaning::Palette(palette(source)?),
            (ColorType::Gray(_), _) => Meaning::Grey,
            (
                ColorType::Multiband {
                    bit_depth: 8,
                    num_samples: 2,
                },
                Some(2),
            ) => Meaning::GreyAlpha,
            (ColorType::RGB(_), _) => Meaning::Rgb,
            (ColorType::RGBA(_), extra) => Meaning::Rgba {
                premultiplied: extra == Some(&1),
            },
            (ColorType::CMYK(_), _) => Meaning::Cmyk,
            (ColorType::YCbCr(8), _) => Meaning::YCbCr,
            _ => return Err(unsupported()),
        };
        let bits = usize::from(color.bit_depth());
        let supported = match meaning {
            Meaning::Grey => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32),
            Meaning::Palette(_) => matches!(bits, 1 | 2 | 4 | 8),
            Meaning::GreyAlpha
            | Meaning::Rgb
            | Meaning::Rgba { .. }
            | Meaning::Cmyk
            | Meaning::YCbCr => {
                matches!(bits, 8 | 16)
            }
        };
        if supported {
            Ok(Self {
                meaning,
                samples: usize::from(color.num_samples()),
                bits,
            })
        } else {
            Err(unsupported())
        }
    }

    pub(super) fn has_alpha(&self) -> bool {
        matches!(self.meaning, Meaning::GreyAlpha | Meaning::Rgba { .. })
    }

    /// The page as a raster. `planes` says that the samples of each channel stand together.
    pub(super) fn raster(
        &self,
        width: usize,
        height: usize,
        planes: bool,
        samples: &DecodingResult,
    ) -> Result<Raster, CodecError> {
        let bytes = self.bytes(width, height, samples)?;
        let bytes = if planes {
            interleaved(&bytes, self.samples)
        } else {
            bytes
        };
        let raster = |channels, data| Raster::new(width, height, channels, data);
        Ok(match &self.meaning {
            Meaning::Grey => raster(1, bytes),
            Meaning::GreyAlpha => raster(2, bytes),
            Meaning::Rgb => raster(3, bytes),
            Meaning::Rgba {
                premultiplied: false,
            } => raster(4, bytes),
            Meaning::Rgba {
                premultiplied: true,
            } => raster(4, each(&bytes, unpremultiply)),
            Meaning::Cmyk => raster(3, each(&bytes, cmyk_to_rgb)),
            Meaning::YCbCr => raster(3, each(&bytes, ycbcr_to_rgb)),
            Meaning::Palette(colors) => {
                let color =
                    |&index: &u8| colors.get(usize::from(index)).copied().unwrap_or_default();
                raster(3, bytes.iter().flat_map(color).collect())
            }
        })
    }

    /// Every sample as a byte, as LoadImage's conversions reduce it.
    fn bytes(
        &self,
        width: usize,
        height: usize,
        samples: &DecodingResult,
    ) -> Result<Vec<u8>, CodecError> {
        let grey = matches!(self.meaning, Meaning::Grey);
        let bytes: Vec<u8> = match samples {
            DecodingResult::U8(samples) if self.bits < 8 => self.unpacked(width, height, samples),
            DecodingResult::U8(samples) => samples.clone(),
            DecodingResult::I8(samples) => samples.iter().map(|&v| v as u8).collect(),
            DecodingResult::U16(samples) if grey => {
                samples.iter().map(|&v| v.min(255) as u8).collect()
            }
            DecodingResult::U16(samples) => samples.iter().map(|&v| (v >> 8) as u8).collect(),
            DecodingResult::I16(samples) if grey => {
                samples.iter().map(|&v| integer(i32::from(v))).collect()
            }
            // Pillow reads unsigned 32-bit samples into signed ones.
            DecodingResult::U32(samples) if grey => {
                samples.iter().map(|&v| integer(v as i32)).collect()
            }
            DecodingResult::I32(samples) if grey => samples.iter().map(|&v| integer(v)).collect(),
            DecodingResult::F32(samples) if grey => samples.iter().map(|&v| v as u8).collect(),
            DecodingResult::U32(_)
            | DecodingResult::U64(_)
            | DecodingResult::I16(_)
            | DecodingResult::I32(_)
            | DecodingResult::I64(_)
            | DecodingResult::F16(_)
            | DecodingResult::F32(_)
            | DecodingResult::F64(_) => {
                return Err(CodecError::Unsupported(format!(
                    "{NAME} with {}-bit samples of this kind",
                    self.bits
                )));
            }
        };
        if bytes.len() == width * height * self.samples {
            Ok(bytes)
        } else {
            Err(CodecError::malformed(NAME, "its samples do not fill it"))
        }
    }

    /// Samples of less than a byte, rows padded to bytes; grey is scaled to 0..=255.
    fn unpacked(&self, width: usize, height: usize, packed: &[u8]) -> Vec<u8> {
        let (per_byte, top) = (8 / self.bits, (1_u16 << self.bits) - 1);
        let scale = if matches!(self.meaning, Meaning::Grey) {
            (255 / top) as u8
        } else {
            1
        };
        let rows = packed.chunks_exact(width.div_ceil(per_byte)).take(height);
        rows.flat_map(|row| {
            let sample = move |x: usize| {
                row[x / per_byte] >> (8 - self.bits * (x % per_byte + 1)) & top as u8
            };
            (0..width).map(move |x| sample(x) * scale)
        })
        .collect()
    }
}

/// LoadImage's way with 32-bit grey: divided by 255, truncated, clipped.
fn integer(v: i32) -> u8 {
    (f64::from(v) * (1.0 / 255.0)) as u8
}

fn palette(source: &mut Source<'_>) -> Result<Vec<[u8; 3]>, CodecError> {
    let map = source.get_tag_u16_vec(Tag::ColorMap).map_err(refusal)?;
    let count = map.len() / 3;
    let channel = |at: usize| (map[at] / 256) as u8;
    Ok((0..count)
        .map(|at| [channel(at), channel(at + count), channel(at + 2 * count)])
        .collect())
}

fn interleaved(planes: &[u8], channels: usize) -> Vec<u8> {
    let size = planes.len() / channels;
    (0..planes.len())
        .map(|at| planes[at % channels * size + at / channels])
        .collect()
}

fn each<const FROM: usize, const TO: usize>(
    bytes: &[u8],
    convert: impl Fn([u8; FROM]) -> [u8; TO],
) -> Vec<u8> {
    bytes
        .as_chunks::<FROM>()
        .0
        .iter()
        .flat_map(|&pixel| convert(pixel))
        .collect()
}
