//! Masks as areas: cutting, softening edges, combining and growing them.

mod grow;

use std::sync::Arc;

pub use grow::grow;

use super::KernelError;
use super::frames::{broadcast, each_mask, map_distinct, unwritten};
use super::rows::{change_chunks, fill_rows, zip_samples};
use crate::pixels::{Frame, Mask};

/// How the pixels of a source mask change those of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskOperation {
    /// `a * b`.
    Multiply,
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// 1 where both round to more than 0.
    And,
    /// 1 where one of them does.
    Or,
    /// 1 where exactly one of them does.
    Xor,
}

/// CropMask: the rectangle at `x`, `y`, as far as it lies inside.
///
/// # Errors
/// If nothing of it lies inside.
pub fn crop(
    mask: Mask,
    x: usize,
    y: usize,
    width: usize,
    height: usize,
) -> Result<Mask, KernelError> {
    each_mask(mask, |frame| {
        let (left, top) = (x.min(frame.width()), y.min(frame.height()));
        let width = width.min(frame.width() - left);
        let height = height.min(frame.height() - top);
        let mut data = unwritten(height, width, 1)?;
        fill_rows(&mut data, width, |row, out| {
            out.copy_from_slice(&frame.row(top + row)[left..left + width])
        });
        Ok(Arc::new(Frame::new(height, width, 1, data)))
    })
}

/// FeatherMask: fades the mask towards its sides over so many pixels, the outermost keeping `1 / n`.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn feather(
    mask: Mask,
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
) -> Result<Mask, KernelError> {
    let columns = (
        ramp(left, mask.first().width()),
        ramp(right, mask.first().width()),
    );
    let rows = (
        ramp(top, mask.first().height()),
        ramp(bottom, mask.first().height()),
    );
    each_mask(mask, |frame| {
        let (height, width, _) = frame.shape();
        Ok(change_chunks(frame, width, |y, row| {
            scale(row, &columns.0);
            scale_reversed(row, &columns.1);
            let factor = |ramp: &[f32], distance: usize| ramp.get(distance).copied().unwrap_or(1.0);
            let (upper, lower) = (factor(&rows.0, y), factor(&rows.1, height - 1 - y));
            row.iter_mut()
                .for_each(|sample| *sample = *sample * upper * lower);
        }))
    })
}

/// `1/n, 2/n .. 1`, of no more steps than there are pixels.
fn ramp(steps: usize, pixels: usize) -> Vec<f32> {
    let steps = steps.min(pixels);
    (1..=steps)
        .map(|step| (step as f64 / steps as f64) as f32)
        .collect()
}

fn scale(row: &mut [f32], ramp: &[f32]) {
    row.iter_mut()
        .zip(ramp)
        .for_each(|(sample, factor)| *sample *= factor);
}

fn scale_reversed(row: &mut [f32], ramp: &[f32]) {
    row.iter_mut()
        .rev()
        .zip(ramp)
        .for_each(|(sample, factor)| *sample *= factor);
}

/// MaskComposite: combines `source` with the part of `destination` under it at `x`, `y`; all of the result is clamped to 0..1.
///
/// # Errors
/// If there is more than one source and not one for each destination.
pub fn composite(
    destination: Mask,
    source: Mask,
    x: usize,
    y: usize,
    operation: MaskOperation,
) -> Result<Mask, KernelError> {
    let (destinations, sources) = (destination.frames().len(), source.frames().len());
    if sources != 1 && sources != destinations {
        return Err(KernelError::BatchMismatch(destinations, sources));
    }
    let on = |v: f32| v.abs() > 0.5;
    let number = |truth: bool| f32::from(u8::from(truth));
    let pairs = broadcast(destination.into_frames(), source.into_frames())?;
    let frames = map_distinct(pairs, |(a, b)| {
        Ok(match operation {
            MaskOperation::Multiply => combine(a, &b, x, y, |a, b| a * b),
            MaskOperation::Add => combine(a, &b, x, y, |a, b| a + b),
            MaskOperation::Subtract => combine(a, &b, x, y, |a, b| a - b),
            MaskOperation::And => combine(a, &b, x, y, |a, b| number(on(a) & on(b))),
            MaskOperation::Or => combine(a, &b, x, y, |a, b| number(on(a) | on(b))),
            MaskOperation::Xor => combine(a, &b, x, y, |a, b| number(on(a) ^ on(b))),
        })
    })?;
    Ok(Mask::new(frames)?)
}

fn combine(
    target: Arc<Frame>,
    source: &Frame,
    x: usize,
    y: usize,
    f: impl Fn(f32, f32) -> f32 + Sync,
) -> Arc<Frame> {
    let width = target.width();
    if (x, y) == (0, 0) && target.shape() == source.shape() {
        return zip_samples(
            target,
            source,
            #[inline(always)]
            |a, b| f(a, b).clamp(0.0, 1.0),
        );
    }
    change_chunks(target, width, |row_y, row| {
        let inside = row_y.checked_sub(y).filter(|&from| from < source.height());
        let above = inside.map(|from| source.row(from)).unwrap_or_default();
        let (left, covered) = row.split_at_mut(x.min(width));
        let (covered, right) = covered.split_at_mut(above.len().min(covered.len()));
        covered
            .iter_mut()
            .zip(above)
            .for_each(|(a, &b)| *a = f(*a, b).clamp(0.0, 1.0));
        left.iter_mut()
            .chain(right)
            .for_each(|sample| *sample = sample.clamp(0.0, 1.0));
    })
}

#[cfg(test)]
mod tests;
