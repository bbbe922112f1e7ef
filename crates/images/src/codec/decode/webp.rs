//! WebP: still and animated, composed as libwebp's animation decoder composes.
//!
//! The container is walked here, so that sizes are checked before a bitstream is touched and blending follows libwebp to the
//! bit; each bitstream is then wrapped into a small still file for the decoder. A file that breaks off is refused, as in Pillow.

mod container;

use std::io::Cursor;

use image_webp::WebPDecoder;

use self::container::{Container, FrameChunk};
use super::exif::Orientation;
use super::raster::Raster;
use super::{Emit, Header};
use crate::codec::CodecError;
use crate::codec::limits::Meter;

pub(super) const NAME: &str = "WebP";

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let container = Container::parse(bytes)?;
    Ok(Header {
        width: container.width,
        height: container.height,
        frames: Some(container.frames.len()),
    })
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let container = Container::parse(bytes)?;
    let (width, height) = (container.width, container.height);
    meter.sides(width, height)?;
    // Two canvases, a frame, the raster, and what the bitstream decoders keep beside them.
    meter.bytes(width as u64 * height as u64 * 32)?;
    let orientation = Orientation::find(container.exif, container.xmp);
    let mut canvas = Canvas {
        width,
        height,
        shown: vec![[0; 4]; width * height],
        previous: None,
    };
    for frame in &container.frames {
        meter.frame(width, height, container.has_alpha)?;
        canvas.draw(frame)?;
        if emit(canvas.raster(container.has_alpha).oriented(orientation))?.is_break() {
            break;
        }
    }
    Ok(())
}

struct Canvas<'a> {
    width: usize,
    height: usize,
    shown: Vec<[u8; 4]>,
    /// The frame last drawn, and whether it stood alone.
    previous: Option<(&'a FrameChunk<'a>, bool)>,
}

impl<'a> Canvas<'a> {
    fn draw(&mut self, frame: &'a FrameChunk<'a>) -> Result<(), CodecError> {
        let full =
            |frame: &FrameChunk<'_>| (frame.width, frame.height) == (self.width, self.height);
        // A key frame needs nothing of what was before it.
        let key = match self.previous {
            None => true,
            Some((previous, previous_key)) => {
                (full(frame) && !(frame.blend && frame.has_alpha))
                    || (previous.clear_after && (full(previous) || previous_key))
            }
        };
        let cleared = self
            .previous
            .filter(|(previous, _)| previous.clear_after)
            .map(|(previous, _)| previous);
        if key {
            self.shown.fill([0; 4]);
        } else if let Some(cleared) = cleared {
            for y in cleared.y..cleared.y + cleared.height {
                self.shown[y * self.width + cleared.x..][..cleared.width].fill([0; 4]);
            }
        }
        let pixels = decode_frame(frame)?;
        for (y, row) in pixels.chunks_exact(frame.width).enumerate() {
            let y = frame.y + y;
            let old = &mut self.shown[y * self.width + frame.x..][..frame.width];
            for (x, (old, &new)) in old.iter_mut().zip(row).enumerate() {
                let was_cleared = cleared.is_some_and(|cleared| cleared.covers(frame.x + x, y));
                *old = if frame.blend && !key && !was_cleared {
                    blend(new, *old)
                } else {
                    new
                };
            }
        }
        self.previous = Some((frame, key));
        Ok(())
    }

    fn raster(&self, has_alpha: bool) -> Raster {
        if has_alpha {
            Raster::new(
                self.width,
                self.height,
                4,
                self.shown.as_flattened().to_vec(),
            )
        } else {
            let data = self
                .shown
                .iter()
                .flat_map(|&[r, g, b, _]| [r, g, b])
                .collect();
            Raster::new(self.width, self.height, 3, data)
        }
    }
}

/// `new` over `old`, not premultiplied, in libwebp's integers.
fn blend(new: [u8; 4], old: [u8; 4]) -> [u8; 4] {
    let alpha = u32::from(new[3]);
    match alpha {
        0 => old,
        255 => new,
        _ => {
            let old_alpha = (u32::from(old[3]) * (256 - alpha)) >> 8;
            let sum = alpha + old_alpha;
            let scale = (1 << 24) / sum;
            let channel = |at: usize| {
                (((u32::from(new[at]) * alpha + u32::from(old[at]) * old_alpha) * scale) >> 24)
                    as u8
            };
            [channel(0), channel(1), channel(2), sum as u8]
        }
    }
}

/// The frame's own pixels, RGBA.
fn decode_frame(frame: &FrameChunk<'_>) -> Result<Vec<[u8; 4]>, CodecError> {
    let malformed = |error| CodecError::malformed(NAME, error);
    let still = frame.still_file();
    let mut decoder = WebPDecoder::new(Cursor::new(still)).map_err(malformed)?;
    let pixels = frame.width * frame.height;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut data = vec![0; pixels * channels];
    decoder.read_image(&mut data).map_err(malformed)?;
    Ok(match channels {
        4 => data.as_chunks::<4>().0.to_vec(),
        _ => data
            .as_chunks::<3>()
            .0
            .iter()
            .map(|&[r, g, b]| [r, g, b, 255])
            .collect(),
    })
}
