//! Where the samples of a result lie in their source.

/// Where the centre of sample `i` of the result lies in the source, counted from the centre of its first sample; rounded once.
pub(super) fn position(scale: f32, i: usize) -> f32 {
    scale.mul_add(i as f32 + 0.5, -0.5)
}

/// The same, rounded after each step: some of the recorded paths were compiled this way.
pub(super) fn position_in_steps(scale: f32, i: usize) -> f32 {
    scale * (i as f32 + 0.5) - 0.5
}
