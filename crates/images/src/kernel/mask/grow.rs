//! Growing and shrinking a mask by many pixels at once.
//!
//! The node repeats a 3x3 step; here `n` steps are one window: a square, or with tapered corners a diamond. Mirroring at the
//! border, as the step does, only repeats pixels that such a window holds already, so it is simply cut there.

use std::sync::Arc;

use super::Mask;
use crate::kernel::KernelError;
use crate::kernel::extremes::{Extreme, Reach, greatest, least, square};
use crate::kernel::frames::{each_mask, unwritten};
use crate::kernel::rows::fill_rows;
use crate::pixels::Frame;

/// GrowMask: grows by `expand` pixels, or shrinks where it is negative; tapered corners make the growth a diamond.
///
/// # Errors
/// None in practice: the shapes stay.
pub fn grow(mask: Mask, expand: i64, tapered_corners: bool) -> Result<Mask, KernelError> {
    let steps = usize::try_from(expand.unsigned_abs()).unwrap_or(usize::MAX);
    let extreme = if expand < 0 {
        Extreme::Least
    } else {
        Extreme::Greatest
    };
    each_mask(mask, |frame| match (steps, tapered_corners) {
        (0, _) => Ok(frame),
        (_, false) => Ok(Arc::new(square(
            &frame,
            Reach {
                before: steps,
                after: steps,
            },
            extreme,
        )?)),
        (_, true) => diamond(frame, steps, extreme),
    })
}

/// The extreme over all pixels at most `radius` horizontal and vertical steps away.
fn diamond(
    mut frame: Arc<Frame>,
    radius: usize,
    extreme: Extreme,
) -> Result<Arc<Frame>, KernelError> {
    let radius = radius.min(frame.width() - 1 + frame.height() - 1);
    let mut done = 0;
    while done < radius {
        // Diamonds of radius r shifted by at most r (at first by 1) four ways make a larger one without a gap.
        let shift = done.max(1).min(radius - done);
        frame = Arc::new(match extreme {
            Extreme::Greatest => cross(&frame, shift, greatest)?,
            Extreme::Least => cross(&frame, shift, least)?,
        });
        done += shift;
    }
    Ok(frame)
}

/// The extreme of each pixel and those `shift` away four ways. A pixel beyond the border is replaced by the nearest one inside,
/// whose diamond holds what the other's would have held of the picture, and nothing too far away.
fn cross(
    frame: &Frame,
    shift: usize,
    pick: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, _) = frame.shape();
    let mut out = unwritten(height, width, 1)?;
    let inner = shift.min(width);
    fill_rows(&mut out, width, |y, out| {
        let row = frame.row(y);
        let above = frame.row(y.saturating_sub(shift));
        let below = frame.row((y + shift).min(height - 1));
        for (((out, &here), &above), &below) in out.iter_mut().zip(row).zip(above).zip(below) {
            *out = pick(here, pick(above, below));
        }
        out[..inner]
            .iter_mut()
            .for_each(|out| *out = pick(*out, row[0]));
        out[inner..]
            .iter_mut()
            .zip(row)
            .for_each(|(out, &left)| *out = pick(*out, left));
        out[width - inner..]
            .iter_mut()
            .for_each(|out| *out = pick(*out, row[width - 1]));
        out.iter_mut()
            .zip(&row[inner..])
            .for_each(|(out, &right)| *out = pick(*out, right));
    });
    Ok(Frame::new(height, width, 1, out))
}

#[cfg(test)]
mod tests;
