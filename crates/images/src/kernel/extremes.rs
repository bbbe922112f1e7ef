//! The greatest or least sample of a window around each sample, at a cost that does not depend on the window.
//!
//! A window of `2n` is the extreme of two windows of `n`, so a few shifted comparisons, each a plain vector loop, make any
//! width. Beyond the border there is nothing: windows are cut there.

use super::KernelError;
use super::frames::unwritten;
use crate::parallel::fill_bands;
use crate::pixels::Frame;

/// Which of two samples wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extreme {
    Greatest,
    Least,
}

/// How far a window reaches before and after its sample, in both directions of the plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) before: usize,
    pub(super) after: usize,
}

/// The extreme over a square window, channel by channel.
///
/// # Errors
/// If the frame is empty.
pub(super) fn square(frame: &Frame, reach: Reach, extreme: Extreme) -> Result<Frame, KernelError> {
    match extreme {
        Extreme::Greatest => separable(frame, reach, f32::NEG_INFINITY, greatest),
        Extreme::Least => separable(frame, reach, f32::INFINITY, least),
    }
}

#[inline(always)]
pub(super) fn greatest(a: f32, b: f32) -> f32 {
    // Unlike `f32::max` this is one instruction; which of two the result is matters for numbers only.
    if a > b { a } else { b }
}

#[inline(always)]
pub(super) fn least(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Samples of a row that go down the columns together: as many as keep two padded strips in a cache.
fn strip_width(length: usize) -> usize {
    (32_768 / length).clamp(16, 256)
}

/// Down the columns in strips, each of which lies in one piece in between, then along the rows.
fn separable(
    frame: &Frame,
    reach: Reach,
    none: f32,
    pick: impl Fn(f32, f32) -> f32 + Sync,
) -> Result<Frame, KernelError> {
    let (height, width, channels) = frame.shape();
    let stride = width * channels;
    let columns = Window::new(reach, height);
    let strip = strip_width(height + columns.length);
    let mut between = unwritten(height, stride.div_ceil(strip), strip)?;
    fill_bands(&mut between, height * strip, |first, band| {
        let mut line = Line::new(&columns, height, strip, none);
        for (i, out) in band.chunks_exact_mut(height * strip).enumerate() {
            let start = (first + i) * strip;
            let end = (start + strip).min(stride);
            for (y, cells) in line.cells(&columns).chunks_exact_mut(strip).enumerate() {
                cells[..end - start].copy_from_slice(&frame.row(y)[start..end]);
            }
            line.slide(&columns, out, &pick);
        }
    });
    let rows = Window::new(reach, width);
    let mut out = unwritten(height, width, channels)?;
    fill_bands(&mut out, stride, |first, band| {
        let mut line = Line::new(&rows, width, channels, none);
        for (i, out) in band.chunks_exact_mut(stride).enumerate() {
            let from = (first + i) * strip;
            let strips = between
                .chunks_exact(height * strip)
                .map(|cells| &cells[from..from + strip]);
            line.cells(&rows)
                .chunks_mut(strip)
                .zip(strips)
                .for_each(|(cells, strip)| cells.copy_from_slice(&strip[..cells.len()]));
            line.slide(&rows, out, &pick);
        }
    });
    Ok(Frame::new(height, width, channels, out))
}

/// A window along one axis, in cells; never longer than can matter.
struct Window {
    before: usize,
    after: usize,
    length: usize,
}

impl Window {
    fn new(reach: Reach, cells: usize) -> Self {
        let (before, after) = (reach.before.min(cells - 1), reach.after.min(cells - 1));
        Self {
            before,
            after,
            length: before + 1 + after,
        }
    }
}

/// Cells of `unit` samples in a row, with room for windows that reach beyond the ends.
struct Line {
    padded: Vec<f32>,
    shorter: Vec<f32>,
    longer: Vec<f32>,
    cells: usize,
    unit: usize,
}

impl Line {
    fn new(window: &Window, cells: usize, unit: usize, none: f32) -> Self {
        let padded = vec![none; (window.before + cells + window.after) * unit];
        Self {
            shorter: padded.clone(),
            longer: padded.clone(),
            padded,
            cells,
            unit,
        }
    }

    /// Where the samples go before [`Line::slide`].
    fn cells(&mut self, window: &Window) -> &mut [f32] {
        let start = window.before * self.unit;
        &mut self.padded[start..start + self.cells * self.unit]
    }

    /// Writes the extreme of every cell's window.
    fn slide(&mut self, window: &Window, out: &mut [f32], pick: impl Fn(f32, f32) -> f32) {
        self.shorter.copy_from_slice(&self.padded);
        let mut length = 1;
        while 2 * length <= window.length {
            join(&self.shorter, length * self.unit, &mut self.longer, &pick);
            std::mem::swap(&mut self.shorter, &mut self.longer);
            length *= 2;
        }
        join(
            &self.shorter,
            (window.length - length) * self.unit,
            out,
            &pick,
        );
    }
}

/// `out[i]` is the one of `windows[i]` and `windows[i + shift]` that wins, as far as both are there.
fn join(windows: &[f32], shift: usize, out: &mut [f32], pick: impl Fn(f32, f32) -> f32) {
    let shifted = &windows[shift..];
    out.iter_mut()
        .zip(windows)
        .zip(shifted)
        .for_each(|((out, &a), &b)| *out = pick(a, b));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_hand(frame: &Frame, reach: Reach) -> Vec<f32> {
        let (height, width, channels) = frame.shape();
        let cut = |at: usize, length: usize| {
            at.saturating_sub(reach.before)..(at + reach.after + 1).min(length)
        };
        let mut out = Vec::new();
        for (y, x, c) in (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| (0..channels).map(move |c| (y, x, c))))
        {
            let window = cut(y, height).flat_map(|y| cut(x, width).map(move |x| (y, x)));
            out.push(
                window
                    .map(|(y, x)| frame.row(y)[x * channels + c])
                    .fold(f32::NEG_INFINITY, f32::max),
            );
        }
        out
    }

    #[test]
    fn equals_looking_at_every_window() {
        for (height, width, channels) in [(1, 1, 1), (9, 14, 3), (3, 300, 1), (40, 2, 4)] {
            let samples = (0..(height * width * channels) as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32)
                .collect();
            let frame = Frame::new(height, width, channels, samples);
            for (before, after) in [
                (0, 0),
                (1, 1),
                (2, 1),
                (3, 3),
                (0, 5),
                (499, 499),
                (usize::MAX, 7),
            ] {
                let reach = Reach { before, after };
                let wide = Reach {
                    before: before.min(1000),
                    after,
                };
                let out = square(&frame, reach, Extreme::Greatest).expect("not empty");
                assert_eq!(
                    out.data(),
                    by_hand(&frame, wide),
                    "{height}x{width}x{channels} {before} {after}"
                );
                let negated = Frame::new(
                    height,
                    width,
                    channels,
                    frame.data().iter().map(|v| -v).collect(),
                );
                let least = square(&negated, reach, Extreme::Least).expect("not empty");
                assert!(least.data().iter().zip(out.data()).all(|(a, b)| *a == -b));
            }
        }
    }
}
