//! ImageAddNoise: normal noise that is the same for a seed on every machine and with every number of threads.
//!
//! Each pair of samples has a number, and its noise follows from that and the seed alone. Only sums, products, quotients and
//! square roots are used, which are rounded alike everywhere: a logarithm or cosine of the platform is not.

use std::sync::Arc;

use rayon::prelude::*;

use super::KernelError;
use super::rows::fill_bands;
use crate::value::Image;

/// Pairs that are made together, so that the arithmetic runs in vectors.
const BLOCK: usize = 64;

/// Adds `strength` times normal noise to every sample and clips to 0..1; every frame of a batch gets noise of its own.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn add_noise(image: Image, seed: u64, strength: f64) -> Result<Image, KernelError> {
    let strength = strength as f32;
    let frames = image
        .into_frames()
        .into_par_iter()
        .enumerate()
        .map(|(number, mut frame)| {
            let blocks_before = number * frame.data().len().div_ceil(2 * BLOCK);
            fill_bands(
                Arc::make_mut(&mut frame).data_mut(),
                2 * BLOCK,
                |first, band| {
                    for (block, samples) in band.chunks_mut(2 * BLOCK).enumerate() {
                        let noise = normals(seed, (blocks_before + first + block) as u64);
                        for (sample, noise) in samples.iter_mut().zip(noise.as_flattened()) {
                            *sample = (*sample + strength * noise).clamp(0.0, 1.0);
                        }
                    }
                },
            );
            frame
        });
    Ok(Image::new(frames.collect())?)
}

/// Normal numbers of one block, after Box and Muller: a radius and an angle make two.
fn normals(seed: u64, block: u64) -> [[f32; BLOCK]; 2] {
    let (mut radius, mut turn) = ([0.0; BLOCK], [0.0; BLOCK]);
    for i in 0..BLOCK {
        let bits = scrambled(
            seed,
            block.wrapping_mul(BLOCK as u64).wrapping_add(i as u64),
        );
        // From 2^-24 to 1: zero has no logarithm. The angle is from -1/2 to 1/2 of a turn.
        radius[i] = ((bits >> 40) + 1) as f32 / 16_777_216.0;
        turn[i] = ((bits >> 8) & 0xFF_FFFF) as f32 / 16_777_216.0 - 0.5;
    }
    let mut out = [[0.0; BLOCK]; 2];
    for i in 0..BLOCK {
        let length = (-2.0 * logarithm(radius[i])).sqrt();
        let (sine, cosine) = sine_cosine(turn[i]);
        out[0][i] = length * cosine;
        out[1][i] = length * sine;
    }
    out
}

/// The finaliser of SplitMix64 over a counter that starts at the scrambled seed.
fn scrambled(seed: u64, counter: u64) -> u64 {
    const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |mut bits: u64| {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    };
    mix(mix(seed ^ GOLDEN_RATIO).wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN_RATIO)))
}

/// The natural logarithm of a positive normal number, within a few units in the last place.
#[inline(always)]
fn logarithm(x: f32) -> f32 {
    // x = 2^exponent * mantissa with a mantissa around 1, whose logarithm is 2 atanh((m - 1) / (m + 1)).
    const HALF_SQRT: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let shifted = x.to_bits().wrapping_sub(HALF_SQRT);
    let exponent = (shifted as i32) >> 23;
    let mantissa = f32::from_bits((shifted & 0x7F_FFFF) + HALF_SQRT);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let series = 2.0 + z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * (2.0 / 9.0))));
    exponent as f32 * std::f32::consts::LN_2 + s * series
}

/// Sine and cosine of a part of a turn from -1/2 to 1/2.
#[inline(always)]
fn sine_cosine(turn: f32) -> (f32, f32) {
    // Half the angle is at most a quarter turn, where the series is short; doubling it needs no case distinction.
    let half = turn * std::f32::consts::PI;
    let z = half * half;
    let sine = half
        * (1.0
            - z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0)))));
    let cosine = 1.0
        - z / 2.0
            * (1.0
                - z / 12.0
                    * (1.0 - z / 30.0 * (1.0 - z / 56.0 * (1.0 - z / 90.0 * (1.0 - z / 132.0)))));
    (2.0 * sine * cosine, cosine * cosine - sine * sine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Frame;

    fn grey(frames: usize) -> Image {
        let frame = Arc::new(Frame::filled(200, 301, 3, 0.5));
        Image::new(vec![frame; frames]).expect("a batch")
    }

    #[test]
    fn the_noise_is_normal() {
        let out = add_noise(grey(1), 42, 0.05).expect("same shape");
        let noise: Vec<f64> = out
            .first()
            .data()
            .iter()
            .map(|v| (f64::from(*v) - 0.5) / 0.05)
            .collect();
        let moment =
            |power: i32| noise.iter().map(|v| v.powi(power)).sum::<f64>() / noise.len() as f64;
        let found = [moment(1), moment(2), moment(3), moment(4)];
        for (found, (expected, tolerance)) in
            found
                .iter()
                .zip([(0.0, 0.01), (1.0, 0.02), (0.0, 0.03), (3.0, 0.1)])
        {
            assert!(
                (found - expected).abs() < tolerance,
                "{found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_seed_gives_the_same_noise_on_every_machine() {
        let noise = normals(0, 0);
        let bits = [noise[0][0], noise[1][0], noise[0][63]].map(f32::to_bits);
        assert_eq!(bits, [1_049_986_347, 3_210_769_772, 1_067_907_005]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a small pool starts");
            pool.install(|| add_noise(grey(2), 7, 0.3))
        };
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn seeds_and_frames_differ_even_if_the_frame_is_repeated() {
        let out = add_noise(grey(2), 0, 0.2).expect("same shape");
        assert_ne!(out.frames()[0], out.frames()[1]);
        assert_ne!(
            out.first(),
            add_noise(grey(1), 1 << 53, 0.2)
                .expect("same shape")
                .first()
        );
    }

    #[test]
    fn no_strength_only_clips() {
        let image = Image::single(Frame::new(1, 3, 1, vec![-1.0, 0.5, 2.0]));
        assert_eq!(
            add_noise(image, u64::MAX, 0.0)
                .expect("same shape")
                .first()
                .data(),
            [0.0, 0.5, 1.0]
        );
    }

    #[test]
    fn the_functions_are_those_of_the_platform_but_for_the_last_bits() {
        for i in 1..=1000 {
            let x = i as f32 / 1000.0;
            assert!(
                (logarithm(x) - x.ln()).abs() <= 1e-6 * (1.0 + x.ln().abs()),
                "ln {x}"
            );
            let (sine, cosine) = sine_cosine(x - 0.5);
            let angle = f64::from(x - 0.5) * std::f64::consts::TAU;
            assert!((f64::from(sine) - angle.sin()).abs() < 1e-6, "sin {angle}");
            assert!(
                (f64::from(cosine) - angle.cos()).abs() < 1e-6,
                "cos {angle}"
            );
        }
        assert_eq!(logarithm(1.0), 0.0);
        assert!((logarithm(f32::powi(2.0, -24)) + 24.0 * std::f32::consts::LN_2).abs() < 1e-5);
    }
}
