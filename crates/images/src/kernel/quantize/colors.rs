//! The distinct colours of a picture, few enough to work on: where there are too many, their lowest bits are dropped.

use super::Rgb;

/// More distinct colours than this are merged by dropping a bit of each channel.
const MOST_COLORS: usize = 65_536;

/// A colour, shortened to the bits that are kept, and the pixels that have it.
#[derive(Clone, Copy, Default)]
pub(super) struct Color {
    pub(super) rgb: Rgb,
    pub(super) count: u64,
    /// Of the pixels' whole channels.
    pub(super) sums: [u64; 3],
}

/// Counts the colours of a picture.
pub(super) fn count(pixels: &[Rgb]) -> Vec<Color> {
    let set = (0..8)
        .map(|dropped| ColorSet::new(pixels, dropped))
        .find(|set| set.len <= MOST_COLORS);
    let set = set.expect("with one bit a channel there are at most eight colours");
    let mut colors = vec![Color::default(); set.len];
    for pixel in pixels {
        let rgb = pixel.map(|level| level >> set.dropped);
        let color = &mut colors[set.position(rgb)];
        color.rgb = rgb;
        color.count += 1;
        color
            .sums
            .iter_mut()
            .zip(pixel)
            .for_each(|(sum, &level)| *sum += u64::from(level));
    }
    colors
}

/// One bit for every possible colour, and how many bits are set before each word: a colour's position in order.
struct ColorSet {
    dropped: u32,
    words: Vec<u64>,
    before: Vec<u32>,
    len: usize,
}

impl ColorSet {
    fn new(pixels: &[Rgb], dropped: u32) -> Self {
        let mut words = vec![0u64; 1 << (24 - 6)];
        for pixel in pixels {
            let index = index(pixel.map(|level| level >> dropped));
            words[index / 64] |= 1 << (index % 64);
        }
        let mut len = 0;
        let mut before = Vec::with_capacity(words.len());
        for word in &words {
            before.push(len);
            len += word.count_ones();
        }
        Self {
            dropped,
            words,
            before,
            len: len as usize,
        }
    }

    fn position(&self, rgb: Rgb) -> usize {
        let index = index(rgb);
        let lower = self.words[index / 64] & ((1 << (index % 64)) - 1);
        self.before[index / 64] as usize + lower.count_ones() as usize
    }
}

fn index([red, green, blue]: Rgb) -> usize {
    usize::from(red) << 16 | usize::from(green) << 8 | usize::from(blue)
}
