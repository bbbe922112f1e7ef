//! Between floats and 8-bit levels: `trunc(clip(255 v, 0, 255))` as every writer needs it, so 0.5 becomes 127, and `level / 255`
//! as every reader does.

use super::{Frame, unwritten};
use crate::parallel::fill_pass;
use crate::vector::widest;

impl Frame {
    /// Reads 8-bit samples: `level / 255`.
    ///
    /// # Panics
    /// If `bytes` does not hold `height * width * channels` samples: that is a bug of the caller, never of its input.
    #[must_use]
    pub fn from_bytes(height: usize, width: usize, channels: usize, bytes: &[u8]) -> Self {
        let mut data = unwritten(bytes.len());
        fill_pass(&mut data, |first, band| {
            bytes_to_samples(&bytes[first..], band)
        });
        Self::new(height, width, channels, data)
    }

    /// Writes 8-bit samples: `trunc(clip(255 * v, 0, 255))`; not a number becomes 0.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.data().len()];
        fill_pass(&mut bytes, |first, band| {
            samples_to_bytes(&self.data()[first..], band)
        });
        bytes
    }
}

/// [`Frame::to_bytes`] of a slice of the same length.
pub(crate) fn samples_to_bytes(samples: &[f32], bytes: &mut [u8]) {
    widest(
        bytes,
        #[inline(always)]
        |bytes| each_to_byte(samples, bytes),
        #[inline(always)]
        |bytes| each_to_byte(samples, bytes),
    );
}

/// Samples that are 8-bit levels, `level / 255`.
fn bytes_to_samples(bytes: &[u8], samples: &mut [f32]) {
    widest(
        samples,
        #[inline(always)]
        |samples| each_to_sample(bytes, samples),
        #[inline(always)]
        |samples| each_to_sample(bytes, samples),
    );
}

#[inline(always)]
fn each_to_byte(samples: &[f32], bytes: &mut [u8]) {
    let length = bytes.len().min(samples.len());
    let (samples, bytes) = (&samples[..length], &mut bytes[..length]);
    for i in 0..length {
        bytes[i] = to_byte(samples[i]);
    }
}

#[inline(always)]
fn each_to_sample(bytes: &[u8], samples: &mut [f32]) {
    let length = samples.len().min(bytes.len());
    let (bytes, samples) = (&bytes[..length], &mut samples[..length]);
    for i in 0..length {
        samples[i] = f32::from(bytes[i]) / 255.0;
    }
}

/// The truncation avoids float-to-integer casts, whose saturation keeps the loop from being vectorised: adding 2^23 leaves the
/// value rounded to the nearest integer in the low bits, and where that was upwards, one is taken away.
#[inline(always)]
fn to_byte(sample: f32) -> u8 {
    const TWO_TO_23: f32 = 8_388_608.0;
    let scaled = sample * 255.0;
    // Written as comparisons, because these turn NaN into 0 and compile to single instructions.
    let scaled = if scaled > 0.0 { scaled } else { 0.0 };
    let scaled = if scaled < 255.0 { scaled } else { 255.0 };
    let rounded = scaled + TWO_TO_23;
    let up = u32::from(rounded - TWO_TO_23 > scaled);
    rounded.to_bits().wrapping_sub(up) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_clipped_and_truncated() {
        let samples = [
            -1.0,
            -0.0,
            0.0,
            0.5,
            0.999,
            1.0,
            7.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            1.0 / 255.0,
        ];
        let frame = Frame::new(1, samples.len(), 1, samples.to_vec());
        assert_eq!(
            frame.to_bytes(),
            [0, 0, 0, 127, 254, 255, 255, 0, 255, 0, 1]
        );
    }

    #[test]
    fn every_value_equals_the_plain_cast() {
        let samples: Vec<f32> = (0..200_000)
            .map(|step| step as f32 / 190_000.0 - 0.02)
            .collect();
        let plain: Vec<u8> = samples
            .iter()
            .map(|v| (v * 255.0).clamp(0.0, 255.0) as u8)
            .collect();
        assert_eq!(Frame::new(1, samples.len(), 1, samples).to_bytes(), plain);
    }

    #[test]
    fn bytes_survive_the_way_to_floats_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        let frame = Frame::from_bytes(16, 16, 1, &all);
        assert!(
            frame
                .data()
                .iter()
                .zip(&all)
                .all(|(&v, &level)| v == f32::from(level) / 255.0)
        );
        assert_eq!(frame.to_bytes(), all);
    }
}
