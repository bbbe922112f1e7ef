//! Pictures side by side in cells of one size, and what they have in common with 8-bit pictures: levels instead of samples.

use std::sync::Arc;

use super::KernelError;
use super::frames::{each, map_distinct, samples};
use super::scale::{Crop, Method, resize};
use crate::pixels::{Frame, Image};

/// How a grid is laid out, in pixels but for the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cells in a row.
    pub columns: usize,
    /// Columns of a cell.
    pub cell_width: usize,
    /// Rows of a cell.
    pub cell_height: usize,
    /// What is left black between two cells; below 0 they overlap, and the later one is on top.
    pub padding: i64,
}

impl Grid {
    /// Columns and rows of a grid of so many pictures.
    #[must_use]
    pub fn size(&self, pictures: usize) -> (usize, usize) {
        let side = |cells: usize, cell: usize| {
            let gaps = (cells as i128 - 1).max(0) * i128::from(self.padding);
            let all = cells as i128 * cell as i128 + gaps;
            usize::try_from(all.max(0)).unwrap_or(usize::MAX)
        };
        let rows = pictures.div_ceil(self.columns.max(1));
        (
            side(self.columns, self.cell_width),
            side(rows, self.cell_height),
        )
    }
}

/// ImageGrid: the pictures stretched into the cells, row by row. Alpha is left out.
///
/// # Errors
/// If a picture has neither 3 nor 4 channels, or the grid is beyond one frame.
pub fn grid(pictures: Vec<Arc<Frame>>, layout: Grid) -> Result<Image, KernelError> {
    const CHANNELS: usize = 3;
    let (width, height) = layout.size(pictures.len());
    let mut data = vec![0.0; samples(height, width, CHANNELS)?];
    let cells = map_distinct(pictures, |picture| {
        let (width, height) = (layout.cell_width, layout.cell_height);
        resize(picture, width, height, Method::Lanczos, Crop::Disabled)
    })?;
    for (at, cell) in cells.iter().enumerate() {
        let (column, row) = (at % layout.columns, at / layout.columns);
        let place =
            |at: usize, cell: usize| at as i128 * (cell as i128 + i128::from(layout.padding));
        let left = place(column, layout.cell_width);
        let top = place(row, layout.cell_height);
        for y in 0..layout.cell_height {
            let line = usize::try_from(top + y as i128)
                .ok()
                .filter(|line| *line < height);
            let Some(line) = line else {
                continue;
            };
            let line = &mut data[line * width * CHANNELS..][..width * CHANNELS];
            // What a padding below 0 brings beyond a side is cut off.
            let beyond = usize::try_from(-left).unwrap_or(0);
            let inside = usize::try_from(left).unwrap_or(0).min(width);
            let pixels = cell.row(y).chunks_exact(cell.channels()).skip(beyond);
            for (to, pixel) in line[inside * CHANNELS..]
                .chunks_exact_mut(CHANNELS)
                .zip(pixels)
            {
                to.copy_from_slice(&pixel[..CHANNELS]);
            }
        }
    }
    Ok(Image::single(Frame::new(height, width, CHANNELS, data)))
}

/// The levels that an 8-bit picture would have: cut off, not rounded.
///
/// # Errors
/// None in practice: the number of pixels stays.
pub fn leveled(image: Image) -> Result<Image, KernelError> {
    each(image, |mut frame| {
        for sample in Arc::make_mut(&mut frame).data_mut() {
            *sample = f32::from((*sample * 255.0).clamp(0.0, 255.0) as u8) / 255.0;
        }
        Ok(frame)
    })
}

/// What a picture is like: 64 places, each with whether it is brighter than the average. Pictures that differ in few places
/// look alike.
///
/// # Errors
/// If it has neither 3 nor 4 channels.
pub fn likeness(picture: Arc<Frame>) -> Result<u64, KernelError> {
    const SIDE: usize = 8;
    let small = resize(picture, SIDE, SIDE, Method::Lanczos, Crop::Disabled)?;
    let level = |sample: &f32| (sample * 255.0).round() as u32;
    // The weights of red, green and blue in brightness, as 65536th parts.
    let brightness: Vec<u32> = small
        .data()
        .chunks_exact(small.channels())
        .map(|pixel| {
            let weighted = pixel.iter().zip([19595, 38470, 7471]);
            let sum: u32 = weighted
                .map(|(sample, weight)| level(sample) * weight)
                .sum();
            (sum + 0x8000) >> 16
        })
        .collect();
    let sum: u32 = brightness.iter().sum();
    let places = brightness.iter().enumerate();
    let brighter = places.filter(|(_, place)| **place * (SIDE * SIDE) as u32 > sum);
    Ok(brighter.fold(0, |bits, (at, _)| bits | 1 << at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(height: usize, width: usize, level: f32) -> Arc<Frame> {
        Arc::new(Frame::filled(height, width, 3, level))
    }

    #[test]
    fn cells_lie_row_by_row_with_black_between_them() {
        let layout = Grid {
            columns: 2,
            cell_width: 3,
            cell_height: 2,
            padding: 1,
        };
        let pictures = [0.2, 0.4, 0.6].map(|level| picture(5, 4, level)).to_vec();
        let made = grid(pictures, layout).expect("a grid");
        assert_eq!(made.first().shape(), (5, 7, 3));
        let at = |x: usize, y: usize| made.first().row(y)[x * 3];
        assert_eq!((at(0, 0), at(4, 1), at(2, 4)), (0.2, 0.4, 0.6));
        let black = [at(3, 0), at(0, 2), at(4, 3), at(6, 4)];
        assert_eq!(black, [0.0; 4], "what no picture covers");
    }

    #[test]
    fn a_grid_beyond_one_frame_is_refused() {
        let layout = Grid {
            columns: 20,
            cell_width: 2048,
            cell_height: 2048,
            padding: 50,
        };
        let pictures = vec![picture(1, 1, 0.0); 400];
        let error = grid(pictures, layout).expect_err("it is too large");
        assert!(matches!(error, KernelError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn levels_are_cut_off() {
        let image = Image::single(Frame::new(1, 4, 1, vec![-1.0, 0.999, 0.5, 2.0]));
        let image = leveled(image).expect("levels");
        let expected = [0.0, 254.0 / 255.0, 127.0 / 255.0, 1.0];
        assert_eq!(image.first().data(), expected);
    }

    #[test]
    fn like_pictures_differ_in_few_places() {
        let half = |from: usize| {
            let sample = |at: usize| if (at / 3) % 16 >= from { 0.9 } else { 0.1 };
            let data = (0..16 * 16 * 3).map(sample).collect();
            likeness(Arc::new(Frame::new(16, 16, 3, data))).expect("a likeness")
        };
        assert_eq!(half(8) ^ half(8), 0);
        assert!((half(8) ^ half(9)).count_ones() <= 8);
        assert!((half(2) ^ half(14)).count_ones() > 16);
    }
}
