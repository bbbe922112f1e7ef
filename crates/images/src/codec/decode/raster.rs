//! One decoded frame in bytes, before it becomes floats.
//!
//! Palettes are expanded and 16-bit samples reduced by the format that knows how; alpha that a colour key gives is marked,
//! because LoadImage takes its mask from a real alpha band or a palette only, while LoadImageMask converts to RGBA first.

use super::exif::Orientation;
use crate::pixels::{Frame, unwritten};

/// One decoded picture as 8-bit samples, row-major, `channels` per pixel: grey, grey + alpha, RGB or RGBA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    pub(in crate::codec) width: usize,
    pub(in crate::codec) height: usize,
    pub(in crate::codec) channels: usize,
    pub(in crate::codec) data: Vec<u8>,
    /// Where the alpha channel comes from, if there is one.
    pub(super) alpha: Alpha,
}

/// What makes pixels transparent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alpha {
    /// Samples of their own.
    Band,
    /// Entries of the palette.
    Palette,
    /// One colour.
    Key,
}

impl Raster {
    /// Wraps row-major samples.
    ///
    /// # Panics
    /// If `data` does not hold `width * height * channels` samples: that is a bug of the caller, never of its input.
    #[must_use]
    pub fn new(width: usize, height: usize, channels: usize, data: Vec<u8>) -> Self {
        assert_eq!(
            data.len(),
            width * height * channels,
            "samples must fill the raster"
        );
        Self {
            width,
            height,
            channels,
            data,
            alpha: Alpha::Band,
        }
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Samples per pixel, 1 to 4.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All samples, row-major.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// All samples, to be changed in place.
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// Whether the last sample of each pixel is its alpha.
    #[must_use]
    pub fn has_alpha(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    /// The colours as floats; alpha is dropped and nothing is premultiplied.
    pub(super) fn rgb(&self) -> Frame {
        if self.channels == 3 {
            return Frame::from_bytes(self.height, self.width, 3, &self.data);
        }
        let mut floats = unwritten(self.width * self.height * 3);
        let colours = floats.as_chunks_mut::<3>().0.iter_mut();
        match self.channels {
            4 => colours
                .zip(self.data.as_chunks::<4>().0)
                .for_each(|(rgb, &[r, g, b, _])| *rgb = [r, g, b].map(unit)),
            _ => colours
                .zip(self.data.chunks_exact(self.channels))
                .for_each(|(rgb, pixel)| *rgb = [unit(pixel[0]); 3]),
        }
        Frame::new(self.height, self.width, 3, floats)
    }

    /// `1 - alpha`, 1 = transparent; nothing without an alpha band.
    pub(super) fn mask(&self) -> Option<Frame> {
        (self.has_alpha() && self.alpha != Alpha::Key).then(|| self.inverted_alpha())
    }

    /// What RGBA conversion gives for one channel, 3 being alpha; alpha comes inverted.
    pub(super) fn channel(&self, channel: usize) -> Frame {
        if channel == 3 {
            return if self.has_alpha() {
                self.inverted_alpha()
            } else {
                Frame::filled(self.height, self.width, 1, 0.0)
            };
        }
        let offset = if self.channels < 3 { 0 } else { channel };
        self.band(offset, unit)
    }

    fn inverted_alpha(&self) -> Frame {
        self.band(self.channels - 1, |v| 1.0 - unit(v))
    }

    fn band(&self, offset: usize, value: impl Fn(u8) -> f32) -> Frame {
        let mut floats = unwritten(self.width * self.height);
        let samples = self.data[offset..].iter().step_by(self.channels);
        floats
            .iter_mut()
            .zip(samples)
            .for_each(|(float, &sample)| *float = value(sample));
        Frame::new(self.height, self.width, 1, floats)
    }

    /// The raster without what makes it transparent.
    pub(super) fn opaque(self) -> Self {
        if !self.has_alpha() {
            return self;
        }
        let channels = self.channels - 1;
        let pixels = self.data.chunks_exact(self.channels);
        let data = pixels
            .flat_map(|pixel| &pixel[..channels])
            .copied()
            .collect();
        Self {
            channels,
            data,
            ..self
        }
    }

    /// The raster with three or four channels: grey spread over the colours, alpha dropped, or 255 where there is none.
    #[must_use]
    pub fn colored(self, with_alpha: bool) -> Self {
        let channels = if with_alpha { 4 } else { 3 };
        if self.channels == channels {
            return self;
        }
        let mut data = Vec::with_capacity(self.width * self.height * channels);
        for pixel in self.data.chunks_exact(self.channels) {
            let (rgb, alpha) = match *pixel {
                [r, g, b, a] => ([r, g, b], a),
                [r, g, b] => ([r, g, b], 255),
                [v, a] => ([v; 3], a),
                _ => ([pixel[0]; 3], 255),
            };
            data.extend_from_slice(&rgb);
            if with_alpha {
                data.push(alpha);
            }
        }
        Self {
            channels,
            data,
            ..self
        }
    }

    /// The raster as the EXIF orientation says it is to be seen.
    pub(super) fn oriented(self, orientation: Orientation) -> Self {
        let (swap, flip_x, flip_y) = orientation.steps();
        if (swap, flip_x, flip_y) == (false, false, false) {
            return self;
        }
        let (width, height) = if swap {
            (self.height, self.width)
        } else {
            (self.width, self.height)
        };
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..height {
            for x in 0..width {
                let (x, y) = (
                    if flip_x { width - 1 - x } else { x },
                    if flip_y { height - 1 - y } else { y },
                );
                let (x, y) = if swap { (y, x) } else { (x, y) };
                let at = (y * self.width + x) * self.channels;
                data.extend_from_slice(&self.data[at..at + self.channels]);
            }
        }
        Self {
            width,
            height,
            data,
            ..self
        }
    }
}

fn unit(v: u8) -> f32 {
    f32::from(v) / 255.0
}
