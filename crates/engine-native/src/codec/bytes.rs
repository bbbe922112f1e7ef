//! Floats to 8-bit samples as every writer needs them: `trunc(clip(255 v, 0, 255))`, so 0.5 becomes 127.

use crate::value::Frame;

/// Every sample of a frame as a byte, in the same order; NaN becomes 0.
#[must_use]
pub fn to_bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = vec![0; frame.data().len()];
    samples_to_bytes(frame.data(), &mut bytes);
    bytes
}

/// As [`to_bytes`], into a slice of the same length.
pub(crate) fn samples_to_bytes(samples: &[f32], bytes: &mut [u8]) {
    for (byte, &sample) in bytes.iter_mut().zip(samples) {
        *byte = to_byte(sample);
    }
}

/// The truncation avoids float-to-integer casts, whose saturation keeps the loop from being vectorised: adding 2^23 leaves the
/// value rounded to the nearest integer in the low bits, and where that was upwards, one is taken away.
#[inline]
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
            to_bytes(&frame),
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
        assert_eq!(to_bytes(&Frame::new(1, samples.len(), 1, samples)), plain);
    }

    #[test]
    fn bytes_survive_the_way_to_floats_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        let floats = all.iter().map(|&v| f32::from(v) / 255.0).collect();
        assert_eq!(to_bytes(&Frame::new(16, 16, 1, floats)), all);
    }
}
