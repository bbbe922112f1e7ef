//! Median cut: the box with the most pixels is split at the median of its widest channel, until there are enough boxes.

use super::Rgb;
use super::colors::{self, Color};

/// How much a channel counts when the widest is sought.
const WEIGHTS: [u32; 3] = [77, 150, 29];

/// A box of colours: a range of the list, and its pixels.
#[derive(Clone, Copy)]
struct ColorBox {
    first: usize,
    end: usize,
    pixels: u64,
}

/// At most `most` colours, each the mean of the pixels of its box; the lightest boxes come first.
pub(super) fn palette(pixels: &[Rgb], most: usize) -> Vec<Rgb> {
    let mut colors = colors::count(pixels);
    let mut heap = Heap::default();
    let mut finished = Vec::new();
    heap.push(ColorBox {
        first: 0,
        end: colors.len(),
        pixels: pixels.len() as u64,
    });
    while finished.len() + heap.boxes.len() < most {
        let Some(next) = heap.pop() else { break };
        match split(&mut colors, next) {
            None => finished.push(next),
            Some((upper, lower)) => {
                heap.push(upper);
                heap.push(lower);
            }
        }
    }
    finished.append(&mut heap.boxes);
    finished.sort_unstable_by_key(|part| part.first);
    finished
        .iter()
        .map(|part| mean(&colors[part.first..part.end]))
        .collect()
}

/// Splits a box of more than one colour: the upper part goes up to and with the value that holds the median pixel.
fn split(colors: &mut [Color], part: ColorBox) -> Option<(ColorBox, ColorBox)> {
    let inside = &mut colors[part.first..part.end];
    let channel = widest(inside)?;
    let mut histogram = [0u64; 256];
    inside
        .iter()
        .for_each(|color| histogram[usize::from(color.rgb[channel])] += color.count);
    let (lowest, upper_pixels) = cut(&histogram, part.pixels);
    let upper_length = partition(inside, |color| usize::from(color.rgb[channel]) >= lowest);
    let middle = part.first + upper_length;
    Some((
        ColorBox {
            first: part.first,
            end: middle,
            pixels: upper_pixels,
        },
        ColorBox {
            first: middle,
            end: part.end,
            pixels: part.pixels - upper_pixels,
        },
    ))
}

/// The channel with the widest weighted range; none if there is one colour.
fn widest(colors: &[Color]) -> Option<usize> {
    let range = |channel: usize| {
        let levels = colors.iter().map(|color| u32::from(color.rgb[channel]));
        let (low, high) = levels.fold((u32::MAX, 0), |(low, high), level| {
            (low.min(level), high.max(level))
        });
        high.saturating_sub(low) * WEIGHTS[channel]
    };
    let ranges = [range(0), range(1), range(2)];
    let best = *ranges.iter().max()?;
    ranges
        .iter()
        .position(|&range| range == best)
        .filter(|_| best > 0)
}

/// The lowest value of the upper part, and its pixels. Values are taken from the top until they hold more than half of the
/// pixels; the lowest value of all always stays below.
fn cut(histogram: &[u64; 256], pixels: u64) -> (usize, u64) {
    let (mut lowest, mut upper) = (0, 0);
    let bottom = histogram.iter().position(|&count| count > 0).unwrap_or(0);
    for value in (bottom + 1..256)
        .rev()
        .filter(|&value| histogram[value] > 0)
    {
        lowest = value;
        upper += histogram[value];
        if upper * 2 > pixels {
            break;
        }
    }
    (lowest, upper)
}

/// Brings what fulfils `condition` to the front and gives how much it is.
fn partition(colors: &mut [Color], condition: impl Fn(&Color) -> bool) -> usize {
    let mut front = 0;
    for i in 0..colors.len() {
        if condition(&colors[i]) {
            colors.swap(front, i);
            front += 1;
        }
    }
    front
}

fn mean(colors: &[Color]) -> Rgb {
    let count: u64 = colors.iter().map(|color| color.count).sum();
    std::array::from_fn(|channel| {
        let sum: u64 = colors.iter().map(|color| color.sums[channel]).sum();
        (0.5 + sum as f64 / count as f64) as u8
    })
}

/// The box with the most pixels first. Which of equals comes first decides the palette, so this is not the standard heap: it
/// moves equals as Pillow's does.
#[derive(Default)]
struct Heap {
    boxes: Vec<ColorBox>,
}

impl Heap {
    fn push(&mut self, part: ColorBox) {
        let mut place = self.boxes.len();
        self.boxes.push(part);
        while place > 0 && part.pixels > self.boxes[(place - 1) / 2].pixels {
            self.boxes[place] = self.boxes[(place - 1) / 2];
            place = (place - 1) / 2;
        }
        self.boxes[place] = part;
    }

    fn pop(&mut self) -> Option<ColorBox> {
        let last = self.boxes.pop()?;
        let Some(&top) = self.boxes.first() else {
            return Some(last);
        };
        let mut place = 0;
        while 2 * place + 1 < self.boxes.len() {
            let mut child = 2 * place + 1;
            if child + 1 < self.boxes.len()
                && self.boxes[child].pixels < self.boxes[child + 1].pixels
            {
                child += 1;
            }
            if last.pixels > self.boxes[child].pixels {
                break;
            }
            self.boxes[place] = self.boxes[child];
            place = child;
        }
        self.boxes[place] = last;
        Some(top)
    }
}
