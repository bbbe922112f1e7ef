//! ImageAddNoise: normal noise that is the same for a seed on every machine and with every number of threads.
//!
//! Each pair of samples has a number, and its noise follows from that and the seed alone. Only sums, products, quotients and
//! square roots are used, which are rounded alike everywhere: a logarithm or cosine of the platform is not.

use std::sync::Arc;

use rayon::prelude::*;

use super::KernelError;
use super::rows::change_chunks;
use crate::parallel::spread;
use crate::pixels::{Frame, Image};
use crate::vector::widest;

/// Pairs that are made together, so that the arithmetic runs in vectors.
const BLOCK: usize = 64;

/// Adds `strength` times normal noise to every sample and clips to 0..1; every frame of a batch gets noise of its own.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn add_noise(image: Image, seed: u64, strength: f64) -> Result<Image, KernelError> {
    let strength = strength as f32;
    let change = |(number, frame): (usize, Arc<Frame>)| {
        let blocks_before = number * frame.data().len().div_ceil(2 * BLOCK);
        change_chunks(frame, 2 * BLOCK, |block, samples| {
            let number = (blocks_before + block) as u64;
            widest(
                samples,
                #[inline(always)]
                |samples| add_block(samples, seed, number, strength),
                #[inline(always)]
                |samples| add_block(samples, seed, number, strength),
            );
        })
    };
    let frames = image.into_frames();
    let changed = spread(|| frames.into_par_iter().enumerate().map(change).collect());
    Ok(Image::new(changed)?)
}

#[inline(always)]
fn add_block(samples: &mut [f32], seed: u64, block: u64, strength: f32) {
    let noise = normals(seed, block);
    for (sample, noise) in samples.iter_mut().zip(noise.as_flattened()) {
        *sample = (*sample + strength * noise).clamp(0.0, 1.0);
    }
}

/// Normal numbers of one block, after Box and Muller: a radius and an angle make two.
#[inline(always)]
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
#[inline(always)]
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
mod tests;
