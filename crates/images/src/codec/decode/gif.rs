//! GIF, composed as Pillow composes it.
//!
//! The quirks that show: a disposal method stays in force until a frame names another; a transparent first frame makes the whole
//! animation transparent, an opaque one opaque; a palette that is a plain grey ramp makes a grey picture without a mask; what is
//! cleared to the background takes the transparent colour if the frame has one.

mod blocks;

use self::blocks::{Blocks, Colors, FrameBlock};
use super::raster::{Alpha, Raster};
use super::{Emit, Header};
use crate::codec::CodecError;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "GIF";

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let mut blocks = Blocks::open(bytes)?;
    let (mut width, mut height) = (blocks.width, blocks.height);
    let mut frames = 0;
    while let Some(frame) = blocks.next_frame() {
        if frames == 0 {
            (width, height) = (
                width.max(frame.x + frame.width),
                height.max(frame.y + frame.height),
            );
        }
        frames += 1;
    }
    Ok(Header {
        width,
        height,
        frames: Some(frames),
    })
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let mut blocks = Blocks::open(bytes)?;
    let Some(mut frame) = blocks.next_frame() else {
        return Err(CodecError::malformed(NAME, "it has no frames"));
    };
    let mut canvas = Canvas::new(&blocks, &frame, meter)?;
    loop {
        meter.frame(canvas.width, canvas.height, canvas.alpha)?;
        let disposal = canvas.disposal(&frame, blocks.background);
        canvas.draw(&frame);
        if emit(canvas.raster())?.is_break() {
            return Ok(());
        }
        let place = FrameRect::of(&frame);
        frame = match blocks.next_frame() {
            Some(next) if canvas.holds(&next) => next,
            // A frame that enlarges the canvas makes it and all later ones frames of another size, which are dropped.
            _ => return Ok(()),
        };
        canvas.first = false;
        canvas.dispose(&place, disposal);
    }
}

/// The rectangle of a frame.
struct FrameRect {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl FrameRect {
    fn of(frame: &FrameBlock<'_>) -> Self {
        Self {
            x: frame.x,
            y: frame.y,
            width: frame.width,
            height: frame.height,
        }
    }
}

/// What a frame leaves behind when the next one comes.
enum Disposal {
    Keep,
    Fill([u8; 4]),
    Restore(Vec<[u8; 4]>),
}

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 4]>,
    /// Whether the first frame is at hand, whose pixels replace everything.
    first: bool,
    /// Whether frames have an alpha band.
    alpha: bool,
    /// Whether the picture is grey, and the grey that LoadImageMask takes for transparent.
    grey: bool,
    key: Option<u8>,
}

impl Canvas {
    fn new(
        blocks: &Blocks<'_>,
        first: &FrameBlock<'_>,
        meter: &mut Meter,
    ) -> Result<Self, CodecError> {
        let width = blocks.width.max(first.x + first.width);
        let height = blocks.height.max(first.y + first.height);
        if width == 0 || height == 0 {
            return Err(CodecError::malformed(NAME, "it has no pixels"));
        }
        meter.sides(width, height)?;
        let grey = matches!(first.colors, Colors::Grey);
        // The canvas, what a frame replaced, a frame's indices, and the raster handed on.
        meter.bytes(width as u64 * height as u64 * 13)?;
        Ok(Self {
            width,
            height,
            pixels: vec![[0; 4]; width * height],
            first: true,
            alpha: !grey && first.transparent.is_some(),
            grey,
            key: first.transparent,
        })
    }

    fn holds(&self, frame: &FrameBlock<'_>) -> bool {
        frame.x + frame.width <= self.width && frame.y + frame.height <= self.height
    }

    fn rows(&mut self, place: &FrameRect) -> impl Iterator<Item = &mut [[u8; 4]]> {
        let (from, to) = (place.x, place.x + place.width);
        self.pixels
            .chunks_exact_mut(self.width)
            .skip(place.y)
            .take(place.height)
            .map(move |row| &mut row[from..to])
    }

    fn disposal(&mut self, frame: &FrameBlock<'_>, background: Option<u8>) -> Disposal {
        let transparent = if self.grey {
            self.key.or(frame.transparent)
        } else {
            frame.transparent
        };
        let clear = transparent.map(|index| with_alpha(frame.colors.clamped(index), 0));
        match frame.disposal {
            2 => {
                Disposal::Fill(clear.unwrap_or_else(|| {
                    with_alpha(frame.colors.clamped(background.unwrap_or(0)), 255)
                }))
            }
            3.. if self.first => clear.map_or(Disposal::Keep, Disposal::Fill),
            3.. => Disposal::Restore(
                self.rows(&FrameRect::of(frame))
                    .flat_map(|row| row.iter().copied())
                    .collect(),
            ),
            _ => Disposal::Keep,
        }
    }

    fn dispose(&mut self, place: &FrameRect, disposal: Disposal) {
        match disposal {
            Disposal::Keep => {}
            Disposal::Fill(pixel) => self.rows(place).for_each(|row| row.fill(pixel)),
            Disposal::Restore(pixels) => {
                self.rows(place)
                    .zip(pixels.chunks_exact(place.width.max(1)))
                    .for_each(|(row, old)| row.copy_from_slice(old));
            }
        }
    }

    fn draw(&mut self, frame: &FrameBlock<'_>) {
        let shown = |index: u8| {
            let alpha = if frame.transparent == Some(index) {
                0
            } else {
                255
            };
            with_alpha(frame.colors.color(index), alpha)
        };
        if self.first {
            self.pixels.fill(shown(frame.transparent.unwrap_or(0)));
        }
        let first = self.first;
        let indices = frame.indices();
        for (row, indices) in self
            .rows(&FrameRect::of(frame))
            .zip(indices.chunks_exact(frame.width.max(1)))
        {
            for (pixel, &index) in row.iter_mut().zip(indices) {
                if first || frame.transparent != Some(index) {
                    *pixel = shown(index);
                }
            }
        }
    }

    fn raster(&self) -> Raster {
        let (width, height) = (self.width, self.height);
        if self.alpha {
            return Raster::new(
                width,
                height,
                4,
                self.pixels.iter().flatten().copied().collect(),
            );
        }
        match (self.grey, self.key) {
            (false, _) => Raster::new(
                width,
                height,
                3,
                self.pixels
                    .iter()
                    .flat_map(|p| [p[0], p[1], p[2]])
                    .collect(),
            ),
            (true, None) => {
                Raster::new(width, height, 1, self.pixels.iter().map(|p| p[0]).collect())
            }
            (true, Some(key)) => {
                let data = self
                    .pixels
                    .iter()
                    .flat_map(|p| [p[0], if p[0] == key { 0 } else { 255 }])
                    .collect();
                Raster {
                    alpha: Alpha::Key,
                    ..Raster::new(width, height, 2, data)
                }
            }
        }
    }
}

fn with_alpha([r, g, b]: [u8; 3], alpha: u8) -> [u8; 4] {
    [r, g, b, alpha]
}
