//! Growing and shrinking a mask by many pixels at once.
//!
//! The node repeats a 3x3 step; here `n` steps are one window: a square, or with tapered corners a diamond. Mirroring at the
//! border, as the step does, only repeats pixels that such a window holds already, so it is simply cut there.

use std::sync::Arc;

use super::Mask;
use crate::kernel::KernelError;
use crate::kernel::extremes::{Extreme, Reach, greatest, least, square};
use crate::kernel::frames::{blank, each_mask};
use crate::kernel::rows::fill_rows;
use crate::value::Frame;

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
    let mut out = blank(height, width, 1)?;
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
mod tests {
    use super::*;

    /// One recorded step: 3x3, or the four neighbours, mirrored at the border.
    fn step(frame: &Frame, tapered: bool, pick: fn(f32, f32) -> f32) -> Frame {
        let (height, width, _) = frame.shape();
        let at = |y: isize, x: isize| {
            frame.row(y.clamp(0, height as isize - 1) as usize)
                [x.clamp(0, width as isize - 1) as usize]
        };
        let mut out = Vec::new();
        for (y, x) in (0..height as isize).flat_map(|y| (0..width as isize).map(move |x| (y, x))) {
            let around = (-1..=1).flat_map(|dy: isize| (-1..=1).map(move |dx: isize| (dy, dx)));
            let window = around.filter(|(dy, dx)| !tapered || dy.abs() + dx.abs() < 2);
            out.push(
                window
                    .map(|(dy, dx)| at(y + dy, x + dx))
                    .reduce(pick)
                    .expect("nine or five pixels"),
            );
        }
        Frame::new(height, width, 1, out)
    }

    #[test]
    fn one_window_equals_many_steps() {
        for (height, width) in [(1, 1), (1, 9), (7, 1), (13, 17)] {
            let samples = (0..(height * width) as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0)
                .collect();
            let start = Arc::new(Frame::new(height, width, 1, samples));
            for tapered in [false, true] {
                for (sign, pick) in [(1, greatest as fn(f32, f32) -> f32), (-1, least)] {
                    let mut expected = (*start).clone();
                    for steps in 0..20 {
                        let grown = grow(
                            Mask::new(vec![Arc::clone(&start)]).expect("a mask"),
                            sign * steps,
                            tapered,
                        );
                        assert_eq!(
                            *grown.expect("same shape").first(),
                            expected,
                            "{height}x{width} {tapered} {sign}*{steps}"
                        );
                        expected = step(&expected, tapered, pick);
                    }
                }
            }
        }
    }

    #[test]
    fn far_more_steps_than_pixels_are_no_more_work() {
        let mut frame = Frame::filled(40, 30, 1, 0.0);
        frame.data_mut()[0] = 1.0;
        for tapered in [false, true] {
            for expand in [16384, i64::MAX] {
                let mask = Mask::new(vec![Arc::new(frame.clone())]).expect("a mask");
                assert!(
                    grow(mask, expand, tapered)
                        .expect("same shape")
                        .first()
                        .data()
                        .iter()
                        .all(|&v| v == 1.0)
                );
            }
        }
        let mask = Mask::new(vec![Arc::new(frame)]).expect("a mask");
        assert!(
            grow(mask, i64::MIN, true)
                .expect("same shape")
                .first()
                .data()
                .iter()
                .all(|&v| v == 0.0)
        );
    }
}
