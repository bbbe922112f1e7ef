//! The size that a scaling node asks for.
//!
//! All of it is double arithmetic with rounding half to even, in this order of operations: a different order moves a side by one.

use crate::kernel::KernelError;

/// ImageScale: one of the sides may be 0 and follows the other; both 0 leave the picture alone (`None`).
#[must_use]
pub fn scaled_to(
    width: usize,
    height: usize,
    to_width: usize,
    to_height: usize,
) -> Option<(usize, usize)> {
    let follow = |side: usize, to: usize, from: usize| {
        (((side * to) as f64 / from as f64).round_ties_even() as usize).max(1)
    };
    match (to_width, to_height) {
        (0, 0) => None,
        (0, _) => Some((follow(width, to_height, height), to_height)),
        (_, 0) => Some((to_width, follow(height, to_width, width))),
        both => Some(both),
    }
}

/// ImageScaleBy: both sides times `factor`.
///
/// # Errors
/// If a side rounds to 0.
pub fn scaled_by(width: usize, height: usize, factor: f64) -> Result<(usize, usize), KernelError> {
    let side = |side: usize| (side as f64 * factor).round_ties_even() as usize;
    not_empty(side(width), side(height))
}

/// ImageScaleToTotalPixels: the aspect ratio stays, the area becomes `megapixels` times 1024 x 1024.
///
/// # Errors
/// If a side rounds to 0.
pub fn total_pixels(
    width: usize,
    height: usize,
    megapixels: f64,
) -> Result<(usize, usize), KernelError> {
    let total = (megapixels * 1024.0 * 1024.0).trunc();
    scaled_by(
        width,
        height,
        (total / (width as f64 * height as f64)).sqrt(),
    )
}

/// ImageScaleToMaxDimension: the longer side becomes `largest`.
///
/// # Errors
/// If a side rounds to 0.
pub fn max_dimension(
    width: usize,
    height: usize,
    largest: usize,
) -> Result<(usize, usize), KernelError> {
    let other = |short: usize, long: usize| {
        (short as f64 / long as f64 * largest as f64).round_ties_even() as usize
    };
    if height > width {
        not_empty(other(width, height), largest)
    } else if width > height {
        not_empty(largest, other(height, width))
    } else {
        not_empty(largest, largest)
    }
}

/// The shorter side becomes `shortest`.
///
/// # Errors
/// If a side rounds to 0.
pub fn min_dimension(
    width: usize,
    height: usize,
    shortest: usize,
) -> Result<(usize, usize), KernelError> {
    let other = |long: usize, short: usize| {
        (long as f64 / short as f64 * shortest as f64).round_ties_even() as usize
    };
    if height < width {
        not_empty(other(width, height), shortest)
    } else if width < height {
        not_empty(shortest, other(height, width))
    } else {
        not_empty(shortest, shortest)
    }
}

/// The columns to cut at the left and the right, and the rows to cut at the top and the bottom, so that what stays has the aspect
/// ratio of `to_width` x `to_height`.
#[must_use]
pub fn center_crop(
    width: usize,
    height: usize,
    to_width: usize,
    to_height: usize,
) -> (usize, usize) {
    let old = width as f64 / height as f64;
    let new = to_width as f64 / to_height as f64;
    let cut = |side: f64, keep: f64| ((side - side * keep) / 2.0).round_ties_even() as usize;
    if old > new {
        (cut(width as f64, new / old), 0)
    } else if old < new {
        (0, cut(height as f64, old / new))
    } else {
        (0, 0)
    }
}

fn not_empty(width: usize, height: usize) -> Result<(usize, usize), KernelError> {
    if width == 0 || height == 0 {
        return Err(KernelError::EmptyResult { width, height });
    }
    Ok((width, height))
}
