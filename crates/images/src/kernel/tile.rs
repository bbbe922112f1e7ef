//! Pictures as tiles that overlap: where the tiles lie, and the picture that they make.

use std::sync::Arc;

use super::KernelError;
use super::frames::samples;
use crate::pixels::{Frame, Image};

/// Where a tile lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Its first column.
    pub x: usize,
    /// Its first row.
    pub y: usize,
    /// Its columns.
    pub width: usize,
    /// Its rows.
    pub height: usize,
}

/// The tiles of a picture, row by row: as large as asked for, unless the picture is smaller; those at the right and the bottom
/// end with it.
#[must_use]
pub fn tiles(
    width: usize,
    height: usize,
    tile_width: usize,
    tile_height: usize,
    overlap: usize,
) -> Vec<Tile> {
    grid(width, height, (tile_width, tile_height), overlap).collect()
}

/// The tiles one after the other: a grid of single pixels is not held as a whole.
fn grid(
    width: usize,
    height: usize,
    (tile_width, tile_height): (usize, usize),
    overlap: usize,
) -> impl Iterator<Item = Tile> {
    let columns = spans(width, tile_width, overlap);
    let rows = spans(height, tile_height, overlap).into_iter();
    rows.flat_map(move |(y, height)| {
        let tile = move |(x, width)| Tile {
            x,
            y,
            width,
            height,
        };
        columns.clone().into_iter().map(tile)
    })
}

/// The picture of these tiles, which lie as [`tiles`] tells of tiles of the size of the first: where they overlap, each counts the
/// more the nearer its middle is. Tiles that are too many are left out, and what no tile covers is 0.
///
/// # Errors
/// If there is no tile, their batches or channels differ, or the picture is beyond one frame.
pub fn merged(
    parts: &[Image],
    width: usize,
    height: usize,
    overlap: usize,
) -> Result<Image, KernelError> {
    let Some(first) = parts.first() else {
        return Err(KernelError::EmptyResult { width, height });
    };
    let (tile_height, tile_width, channels) = first.first().shape();
    samples(height, width, channels)?;
    let (across, down) = (bell(tile_width, overlap), bell(tile_height, overlap));
    let count = first.frames().len();
    let mut sums = vec![Frame::filled(height, width, channels, 0.0); count];
    let mut weights = vec![0.0_f32; width * height];
    let places = grid(width, height, (tile_width, tile_height), overlap);
    for (part, place) in parts.iter().zip(places) {
        let (part_height, part_width, found) = part.first().shape();
        if found != channels {
            return Err(KernelError::ChannelMismatch(channels, found));
        }
        if ![1, count].contains(&part.frames().len()) {
            return Err(KernelError::BatchMismatch(count, part.frames().len()));
        }
        let (high, wide) = (place.height.min(part_height), place.width.min(part_width));
        for (number, sum) in sums.iter_mut().enumerate() {
            // A tile that is one picture counts for the whole batch.
            let frame = &part.frames()[number % part.frames().len()];
            for (y, down) in down.iter().enumerate().take(high) {
                let to = ((place.y + y) * width + place.x) * channels;
                let row = &mut sum.data_mut()[to..to + wide * channels];
                let pixels = row.chunks_exact_mut(channels);
                let from = frame.row(y).chunks_exact(channels);
                for ((pixel, from), across) in pixels.zip(from).zip(&across) {
                    let weight = down * across;
                    for (sum, sample) in pixel.iter_mut().zip(from) {
                        *sum += sample * weight;
                    }
                }
            }
        }
        for (y, down) in down.iter().enumerate().take(high) {
            let to = (place.y + y) * width + place.x;
            for (sum, across) in weights[to..to + wide].iter_mut().zip(&across) {
                *sum += down * across;
            }
        }
    }
    for sum in &mut sums {
        let pixels = sum.data_mut().chunks_exact_mut(channels);
        for (pixel, weight) in pixels.zip(&weights) {
            let weight = if *weight == 0.0 { 1.0 } else { *weight };
            pixel.iter_mut().for_each(|sample| *sample /= weight);
        }
    }
    Ok(Image::new(sums.into_iter().map(Arc::new).collect())?)
}

/// How much each place of a side counts: half a wave of a sine, or all alike where nothing overlaps.
fn bell(side: usize, overlap: usize) -> Vec<f32> {
    if overlap == 0 {
        return vec![1.0; side];
    }
    let last = side.saturating_sub(1);
    let step = 1.0 / last.max(1) as f32;
    let weight = |at: usize| {
        // As recorded: steps from the nearer end, those from the far one rounded once.
        let place = match at < side / 2 {
            true => at as f32 * step,
            false if side == 1 => 0.0,
            false => (-step).mul_add((last - at) as f32, 1.0),
        };
        let angle = std::f32::consts::PI * place;
        // Rounded from the double: the recorded server's sine is one bit off in a twentieth of all places.
        (f64::from(angle).sin() as f32).max(1e-5)
    };
    (0..side).map(weight).collect()
}

/// Beginnings and lengths along one side.
fn spans(side: usize, tile: usize, overlap: usize) -> Vec<(usize, usize)> {
    // Tiles overlap by three quarters at most.
    let least = tile as f64 * 0.25;
    let stride = (tile as f64 - overlap as f64).max(least).round_ties_even();
    let stride = (stride as usize).max(1);
    let mut spans = Vec::new();
    let mut at = 0;
    while at < side {
        let end = (at + tile).min(side);
        let start = end.saturating_sub(tile);
        spans.push((start, end - start));
        if end == side {
            break;
        }
        at += stride;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::transform;

    #[test]
    fn tiles_of_a_picture_make_the_picture_again() {
        let samples = (0..90 * 110 * 3).map(|at| (at * 37 % 256) as f32 / 255.0);
        let frame = Frame::new(90, 110, 3, samples.collect());
        let picture = Image::new(vec![Arc::new(frame)]).expect("one frame");
        for (width, height, overlap) in [(64, 64, 16), (32, 90, 0), (110, 90, 8), (16, 16, 15)] {
            let places = tiles(110, 90, width, height, overlap).into_iter();
            let cut = |place: Tile| {
                transform::crop(picture.clone(), place.width, place.height, place.x, place.y)
                    .expect("it lies inside")
            };
            let parts: Vec<Image> = places.map(cut).collect();
            let whole = merged(&parts, 110, 90, overlap).expect("they fit");
            let pairs = whole.first().data().iter().zip(picture.first().data());
            let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-6, "{width} x {height}, {overlap}: {off}");
        }
    }

    #[test]
    fn what_no_tile_covers_is_black_and_tiles_that_do_not_fit_are_refused() {
        let tile = |channels| {
            let frame = Arc::new(Frame::filled(2, 2, channels, 1.0));
            Image::new(vec![frame]).expect("one frame")
        };
        let whole = merged(&[tile(1)], 4, 2, 0).expect("it fits");
        assert_eq!(
            whole.first().data(),
            [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
        );
        let error = merged(&[tile(1), tile(3)], 4, 2, 0);
        assert_eq!(error, Err(KernelError::ChannelMismatch(1, 3)));
        assert!(merged(&[], 4, 2, 0).is_err());
    }
}
