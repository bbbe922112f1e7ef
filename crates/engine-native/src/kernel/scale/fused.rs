//! Multiply-add with one rounding, without the instruction.
//!
//! The recorded server was compiled with fused multiply-adds. A float product is exact in double precision, so adding there
//! and rounding once to single precision gives the same result (but for a double rounding once in half a billion), on every
//! processor and in vectors, where `f32::mul_add` would call a library function per sample.

/// `a * b + c`.
#[inline(always)]
pub(super) fn fused(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// Where the centre of sample `i` of the result lies in the source, counted from the centre of its first sample; rounded once.
#[inline(always)]
pub(super) fn position(scale: f32, i: usize) -> f32 {
    fused(scale, i as f32 + 0.5, -0.5)
}

/// The same, rounded after each step: some of the recorded paths were compiled this way.
#[inline(always)]
pub(super) fn position_in_steps(scale: f32, i: usize) -> f32 {
    scale * (i as f32 + 0.5) - 0.5
}
