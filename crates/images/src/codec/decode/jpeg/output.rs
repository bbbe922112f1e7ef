//! From component planes to pixels.

use super::frame::Frame;
use super::malformed;
use super::reader::Jpeg;
use super::upsample::Upsampling;
use crate::codec::CodecError;
use crate::codec::decode::color::{cmyk_to_rgb, ycbcr_row_to_rgb, ycbcr_to_rgb};
use crate::codec::decode::raster::Raster;

/// What three or four components stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::codec::decode) enum Colors {
    /// What the file's markers and component names say, as libjpeg guesses.
    Guess,
    /// YCbCr; becomes RGB.
    YCbCr,
    /// As they are: RGB, or CMYK that is not inverted.
    Plain,
}

impl Jpeg<'_> {
    /// The picture: grey, or RGB.
    pub(in crate::codec::decode) fn raster(&self, colors: Colors) -> Result<Raster, CodecError> {
        let frame = self
            .frame
            .as_ref()
            .ok_or_else(|| malformed("it has no frame header"))?;
        let mut rows = Rows::of(frame)?;
        let channels = if frame.components.len() == 1 { 1 } else { 3 };
        let mut data = vec![0; frame.width * frame.height * channels];
        let is_ycbcr = self.is_ycbcr(frame, colors);
        for (y, out) in data.chunks_exact_mut(frame.width * channels).enumerate() {
            match (rows.read(y), is_ycbcr) {
                ([grey], _) => out.copy_from_slice(&grey[..frame.width]),
                ([y, cb, cr], true) => ycbcr_row_to_rgb(y, cb, cr, out),
                ([first, second, third], false) => {
                    let pixels = first.iter().zip(second).zip(third);
                    for (out, ((&a, &b), &c)) in out.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
                        *out = [a, b, c];
                    }
                }
                ([first, second, third, fourth], ycbcr) => {
                    let pixels = first.iter().zip(second).zip(third).zip(fourth);
                    for (out, (((&a, &b), &c), &d)) in
                        out.as_chunks_mut::<3>().0.iter_mut().zip(pixels)
                    {
                        *out = four_to_rgb([a, b, c, d], ycbcr, colors == Colors::Guess);
                    }
                }
                _ => return Err(malformed("it has too many components")),
            }
        }
        Ok(Raster::new(frame.width, frame.height, channels, data))
    }

    fn is_ycbcr(&self, frame: &Frame, colors: Colors) -> bool {
        match (colors, frame.components.as_slice()) {
            (Colors::YCbCr, _) => true,
            (Colors::Plain, _) => false,
            (Colors::Guess, [a, b, c]) => match self.adobe {
                _ if self.is_jfif => true,
                Some(transform) => transform != 0,
                None => [a.id, b.id, c.id] != *b"RGB",
            },
            (Colors::Guess, _) => self.adobe.is_some_and(|transform| transform != 0),
        }
    }
}

/// CMYK or YCCK to RGB. Standalone files are taken to be inverted, as Adobe writes them.
fn four_to_rgb([a, b, c, k]: [u8; 4], ycck: bool, inverted: bool) -> [u8; 3] {
    let [c, m, y] = if ycck {
        ycbcr_to_rgb([a, b, c]).map(|v| 255 - v)
    } else {
        [a, b, c]
    };
    cmyk_to_rgb(if inverted {
        [255 - c, 255 - m, 255 - y, 255 - k]
    } else {
        [c, m, y, k]
    })
}

/// One row of every component at the picture's size.
struct Rows<'f> {
    frame: &'f Frame,
    upsampling: Vec<Upsampling>,
    rows: Vec<Vec<u8>>,
    sums: Vec<u16>,
}

impl<'f> Rows<'f> {
    fn of(frame: &'f Frame) -> Result<Self, CodecError> {
        let upsampling = frame.components.iter().map(|component| {
            if !frame.h_max.is_multiple_of(component.h) || !frame.v_max.is_multiple_of(component.v)
            {
                return Err(CodecError::Unsupported(
                    "JPEG with fractional subsampling".to_owned(),
                ));
            }
            Ok(Upsampling::of(
                frame.h_max / component.h,
                frame.v_max / component.v,
                component,
            ))
        });
        let upsampling = upsampling.collect::<Result<_, _>>()?;
        // A component may be a little wider than the picture once it is doubled.
        let rows = vec![vec![0; frame.width + 4]; frame.components.len()];
        Ok(Self {
            frame,
            upsampling,
            rows,
            sums: Vec::new(),
        })
    }

    fn read(&mut self, y: usize) -> &[Vec<u8>] {
        for ((component, upsampling), row) in self
            .frame
            .components
            .iter()
            .zip(&self.upsampling)
            .zip(&mut self.rows)
        {
            upsampling.row(component, y, &mut self.sums, row);
        }
        &self.rows
    }
}
