//! Tracks drawn over a video: a disc where each is, and a line that fades along where it was.

use std::sync::Arc;

use super::Tracks;
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::output_bytes;
use images::{Frame, Image};

const COLORS: [[u8; 3]; 5] = [
    [102, 153, 255],
    [0, 255, 255],
    [255, 255, 0],
    [255, 102, 204],
    [0, 255, 0],
];

/// How far a place may lie from the picture's corner: a line takes a step for each of its pixels, also for those beside the picture.
const FARTHEST: f32 = 65_536.0;

/// Steps of a line until the next look at whether the job was cancelled.
const STEPS_UNCHECKED: i64 = 256;

/// How tracks are drawn.
struct Pen {
    /// Frames that a line goes back.
    frames: usize,
    radius: i64,
    opacity: f64,
    width: f64,
}

pub(super) fn draw(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let images = inputs.image("images")?;
    if !inputs.has("tracks") {
        return Ok(images.into());
    }
    let pen = Pen {
        frames: inputs.count("line_resolution")?,
        radius: inputs.int("circle_size")?,
        opacity: inputs.float("opacity")?,
        width: inputs.int::<i64>("line_width")? as f64,
    };
    if !(0..=FARTHEST as i64).contains(&pen.radius)
        || !(0.0..=f64::from(FARTHEST)).contains(&pen.width)
    {
        return Err(NodeError::value(
            "circle_size and line_width must be numbers of pixels between 0 and 65536",
        ));
    }
    let tracks: &Tracks = inputs.opaque("tracks")?;
    let length = tracks.places.len();
    let (height, width, channels) = images.first().shape();
    if channels != 3 {
        return Err(NodeError::value(
            "tracks are drawn on pictures with three channels; take the alpha off first",
        ));
    }
    let own = images.frames().len();
    let count = match own == length {
        true => length,
        false => length / own * own,
    };
    if count == 0 {
        return Err(NodeError::value(format!(
            "there are {own} pictures and tracks for {length} frames only; use no more pictures than that"
        )));
    }
    let of_frame = tracks.places.first().map_or(0, Vec::len) * size_of::<[i64; 2]>();
    context.reserve((length * of_frame) as u64)?;
    let places = whole(tracks)?;
    context.reserve(output_bytes(count, height, width, channels))?;
    // Two overlays with four bytes a pixel.
    context.reserve(output_bytes(1, height, width, 2))?;
    let mut discs = Overlay::new(height, width);
    let mut lines = Overlay::new(height, width);
    let mut drawn = Vec::with_capacity(count);
    for at in 0..count {
        discs.clear();
        lines.clear();
        for (track, place) in places[at].iter().enumerate() {
            context.check()?;
            let seen = tracks.visible.get(at).and_then(|seen| seen.get(track));
            let seen = seen.ok_or_else(|| {
                NodeError::value("the mask of the tracks counts for one track only, or has fewer frames than they have")
            })?;
            if !seen {
                continue;
            }
            let color = COLORS[track % COLORS.len()];
            discs.disc(*place, pen.radius, with_alpha(color, 255.0 * pen.opacity));
            let before = at.saturating_sub(pen.frames);
            let way: Vec<[i64; 2]> = places[before..=at]
                .iter()
                .rev()
                .map(|places| places[track])
                .collect();
            line(&mut lines, &way, color, &pen, context)?;
        }
        drawn.push(Arc::new(laid_over(
            &images.frames()[at % own],
            &discs,
            &lines,
        )));
    }
    Ok(Image::new(drawn)?.into())
}

/// The pixels that the tracks are at.
fn whole(tracks: &Tracks) -> Result<Vec<Vec<[i64; 2]>>, NodeError> {
    let place = |place: &[f32; 2]| {
        let is_near = place.iter().all(|side| side.abs() <= FARTHEST);
        is_near.then(|| place.map(|side| side as i64))
    };
    let frame = |frame: &Vec<[f32; 2]>| frame.iter().map(place).collect::<Option<Vec<_>>>();
    let places: Option<Vec<_>> = tracks.places.iter().map(frame).collect();
    places.ok_or_else(|| {
        NodeError::value(format!(
            "a place of a track is farther than {FARTHEST} pixels from the picture, so it cannot be drawn"
        ))
    })
}

fn with_alpha([red, green, blue]: [u8; 3], alpha: f64) -> [u8; 4] {
    [red, green, blue, alpha as u8]
}

/// A line from where a track is to where it was, in dots that become narrower and fade.
fn line(
    overlay: &mut Overlay,
    way: &[[i64; 2]],
    color: [u8; 3],
    pen: &Pen,
    context: &NodeContext,
) -> Result<(), NodeError> {
    let length = |pair: &[[i64; 2]]| {
        let (across, down) = (pair[1][0] - pair[0][0], pair[1][1] - pair[0][1]);
        ((across * across + down * down) as f64).sqrt()
    };
    let total: f64 = way.windows(2).map(length).sum();
    if total == 0.0 {
        return Ok(());
    }
    let mut passed = 0.0;
    for pair in way.windows(2) {
        let own = length(pair);
        let steps = (own as i64).max(1);
        for step in 0..steps {
            if step % STEPS_UNCHECKED == 0 {
                context.check()?;
            }
            let part = step as f64 / steps as f64;
            let rest = 1.0 - (passed + part * own) / total;
            let alpha = 255.0 * rest * pen.opacity;
            let side = |axis: usize| {
                let way = (pair[1][axis] - pair[0][axis]) * step;
                (pair[0][axis] as f64 + way as f64 / steps as f64) as i64
            };
            let width = ((pen.width * rest) as i64).max(1);
            overlay.dot(side(0), side(1), width, with_alpha(color, alpha));
        }
        passed += own;
    }
    Ok(())
}

/// Colours with an alpha, in a picture's size.
struct Overlay {
    height: usize,
    width: usize,
    pixels: Vec<[u8; 4]>,
}

impl Overlay {
    fn new(height: usize, width: usize) -> Self {
        let pixels = vec![[0; 4]; height * width];
        Self {
            height,
            width,
            pixels,
        }
    }

    fn clear(&mut self) {
        self.pixels.fill([0; 4]);
    }

    /// The part of a row from one column to another, both included.
    fn row(&mut self, y: i64, from: i64, to: i64, color: [u8; 4]) {
        let Some(y) = usize::try_from(y).ok().filter(|y| *y < self.height) else {
            return;
        };
        let from = usize::try_from(from.max(0)).unwrap_or(0).min(self.width);
        let to = usize::try_from(to + 1).unwrap_or(0).clamp(from, self.width);
        self.pixels[y * self.width + from..y * self.width + to].fill(color);
    }

    /// Two columns, as high as the line is wide.
    fn dot(&mut self, x: i64, y: i64, width: i64, color: [u8; 4]) {
        let (above, below) = ((width - 1) / 2, width / 2);
        let last = self.height as i64 - 1;
        for y in (y - above).max(0)..=(y + below).min(last) {
            self.row(y, x, x + 1, color);
        }
    }

    /// A disc, its border found by always taking the nearest of the next three pixels.
    fn disc(&mut self, [x, y]: [i64; 2], radius: i64, color: [u8; 4]) {
        let side = 2 * radius;
        let off = |across: i64, down: i64| (across * across + down * down - side * side).abs();
        // Places are counted in halves of pixels from the middle.
        let (mut across, mut down, mut drawn) = (side, 0, -1);
        loop {
            if down > drawn {
                drawn = down;
                for y in [y - down / 2, y + down / 2] {
                    self.row(y, x - across / 2, x + across / 2, color);
                }
            }
            if (across, down) == (0, side) {
                return;
            }
            let mut next = (across, down + 2);
            if across > 1 {
                for other in [(across - 2, down + 2), (across - 2, down)] {
                    if off(next.0, next.1) > off(other.0, other.1) {
                        next = other;
                    }
                }
            }
            (across, down) = next;
            if down > side {
                return;
            }
        }
    }
}

/// A picture in levels of 8 bits, with the discs and then the lines over it.
fn laid_over(frame: &Frame, discs: &Overlay, lines: &Overlay) -> Frame {
    let (height, width, channels) = frame.shape();
    let pixels = frame.data().chunks_exact(channels);
    let overlays = discs.pixels.iter().zip(&lines.pixels);
    let samples = pixels.zip(overlays).flat_map(|(pixel, (disc, line))| {
        [0, 1, 2].map(|channel| {
            let own = f64::from((pixel[channel] * 255.0) as i64 as u8);
            let laid = |over: &[u8; 4], under: f64| {
                let alpha = f64::from(over[3]) / 255.0;
                f64::from(over[channel]) * alpha + under * (1.0 - alpha)
            };
            f32::from(laid(line, laid(disc, own)) as u8) / 255.0
        })
    });
    Frame::new(height, width, channels, samples.collect())
}
