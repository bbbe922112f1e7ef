//! The source pixel under the centre of the result's pixel.

use super::position::position_in_steps;
use super::view::View;
use crate::kernel::rows::fill_rows;
use crate::pixels::{Frame, unwritten};

pub(super) fn resize(view: View<'_>, width: usize, height: usize) -> Frame {
    let channels = view.channels();
    let columns = indices(view.width(), width);
    let rows = indices(view.height(), height);
    let mut out = unwritten(height * width * channels);
    fill_rows(&mut out, width * channels, |y, row| {
        let source = view.row(rows[y]);
        match channels {
            1 => row
                .iter_mut()
                .zip(&columns)
                .for_each(|(sample, &x)| *sample = source[x]),
            3 => pick::<3>(source, &columns, row),
            4 => pick::<4>(source, &columns, row),
            _ => row
                .chunks_exact_mut(channels)
                .zip(&columns)
                .for_each(|(pixel, &x)| pixel.copy_from_slice(&source[x * channels..][..channels])),
        }
    });
    Frame::new(height, width, channels, out)
}

/// The same with the pixel's size known to the compiler, which makes it a move instead of a call.
fn pick<const C: usize>(source: &[f32], columns: &[usize], row: &mut [f32]) {
    let (source, _) = source.as_chunks::<C>();
    let (row, _) = row.as_chunks_mut::<C>();
    row.iter_mut()
        .zip(columns)
        .for_each(|(pixel, &x)| *pixel = source[x]);
}

/// Single precision, as recorded: near a boundary between two pixels its rounding decides.
fn indices(input: usize, output: usize) -> Vec<usize> {
    let scale = input as f32 / output as f32;
    let index = |i: usize| {
        let centre = position_in_steps(scale, i).max(0.0);
        ((centre + 0.5).floor() as usize).min(input - 1)
    };
    (0..output).map(index).collect()
}
