//! The palette's nearest colour, looked up in a table of every fourth level.
//!
//! A pixel takes what is nearest to its levels with their two lowest bits cleared: that is how Pillow's table is made.

use std::sync::OnceLock;

use super::Rgb;

/// Entries of the table along a channel in one block: 32 levels.
const SIDE: usize = 8;

/// Levels between two entries.
const STEP: i32 = 4;

/// Palette positions of the entries of one block, blue fastest.
type Block = Box<[u8; SIDE * SIDE * SIDE]>;

/// A palette with its table, which is filled block by block as colours are asked for.
pub(super) struct Nearest<'a> {
    palette: &'a [Rgb],
    blocks: [OnceLock<Block>; 512],
}

impl<'a> Nearest<'a> {
    /// The palette has 1 to 256 colours.
    pub(super) fn new(palette: &'a [Rgb]) -> Self {
        Self {
            palette,
            blocks: [const { OnceLock::new() }; 512],
        }
    }

    pub(super) fn color(&self, pixel: Rgb) -> Rgb {
        let [red, green, blue] = pixel.map(usize::from);
        let block = self.blocks[(red >> 5) << 6 | (green >> 5) << 3 | blue >> 5]
            .get_or_init(|| self.block(pixel));
        let entry = |level: usize| level >> 2 & 7;
        self.palette[usize::from(block[entry(red) << 6 | entry(green) << 3 | entry(blue)])]
    }

    fn block(&self, pixel: Rgb) -> Block {
        let start = pixel.map(|level| i32::from(level & 0xE0));
        let candidates = self.candidates(start);
        let mut block = [0; SIDE * SIDE * SIDE];
        for (i, entry) in block.iter_mut().enumerate() {
            let offset = [i >> 6, i >> 3 & 7, i & 7].map(|i| i as i32 * STEP);
            let at = [
                start[0] + offset[0],
                start[1] + offset[1],
                start[2] + offset[2],
            ];
            // Of equally near colours the first counts, and `min_by_key` gives the first.
            *entry = candidates
                .iter()
                .min_by_key(|(_, color)| distance(at, *color))
                .map_or(0, |(position, _)| *position);
        }
        Box::new(block)
    }

    /// The colours that can be nearest to anything in a block: those whose nearest point of it is not farther than the farthest
    /// point of another.
    fn candidates(&self, start: [i32; 3]) -> Vec<(u8, [i32; 3])> {
        let last = (SIDE as i32 - 1) * STEP;
        let color = |rgb: &Rgb| rgb.map(i32::from);
        let nearest =
            |color: [i32; 3]| std::array::from_fn(|c| color[c].clamp(start[c], start[c] + last));
        let farthest = |color: [i32; 3]| {
            std::array::from_fn(|c| {
                if color[c] <= start[c] + last / 2 {
                    start[c] + last
                } else {
                    start[c]
                }
            })
        };
        let reach = self
            .palette
            .iter()
            .map(color)
            .map(|color| distance(farthest(color), color))
            .min()
            .unwrap_or(0);
        let all = (0u8..=255).zip(self.palette.iter().map(color));
        all.filter(|(_, color)| distance(nearest(*color), *color) <= reach)
            .collect()
    }
}

fn distance(a: [i32; 3], b: [i32; 3]) -> i32 {
    (a[0] - b[0]).pow(2) + (a[1] - b[1]).pow(2) + (a[2] - b[2]).pow(2)
}
