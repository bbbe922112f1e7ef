//! PNG and APNG, composed frame by frame.
//!
//! The canvas holds samples in the file's own colour type (palette indices included), because Pillow composes there and
//! converts afterwards. Checksums are ignored, and image data that breaks off leaves zeros: black, or the first colour.

mod layout;
mod salvage;

use std::io::Cursor;

use ::png::{
    BlendOp, Decoder, DecodingError, DisposeOp, InterlaceInfo, Reader, expand_interlaced_row,
};

use self::layout::Layout;
use super::exif::Orientation;
use super::{Emit, Header};
use crate::codec::chunks::Chunks;
use crate::codec::limits::Meter;
use crate::codec::{CodecError, text};

pub(super) const NAME: &str = "PNG";

type Source<'a> = Reader<Cursor<&'a [u8]>>;

pub(super) fn header(bytes: &[u8]) -> Result<Header, CodecError> {
    let mut chunks = Chunks::new(bytes);
    let ihdr = chunks
        .next()
        .filter(|chunk| chunk.name == *b"IHDR" && chunk.data.len() == 13);
    let ihdr = ihdr
        .ok_or_else(|| malformed("its first chunk is no header"))?
        .data;
    let long = |data: &[u8], at: usize| {
        data[at..at + 4]
            .iter()
            .fold(0, |n, &b| n << 8 | usize::from(b))
    };
    let before_data = chunks.take_while(|chunk| chunk.name != *b"IDAT");
    let (mut announced, mut default_in_animation) = (None, false);
    for chunk in before_data {
        match &chunk.name {
            b"acTL" if chunk.data.len() >= 8 => announced = Some(long(chunk.data, 0)),
            b"fcTL" => default_in_animation = true,
            _ => {}
        }
    }
    let frames = announced.map_or(1, |frames| {
        frames.saturating_add(usize::from(!default_in_animation))
    });
    Ok(Header {
        width: long(ihdr, 0),
        height: long(ihdr, 4),
        frames: Some(frames),
    })
}

pub(super) fn decode(bytes: &[u8], meter: &mut Meter, emit: Emit<'_>) -> Result<(), CodecError> {
    let limits = ::png::Limits {
        bytes: meter.remaining_bytes(),
    };
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.ignore_checksums(true);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut source = decoder.read_info().map_err(|error| match error {
        DecodingError::LimitsExceeded => meter.out_of_bytes(),
        DecodingError::IoError(_) | DecodingError::Format(_) | DecodingError::Parameter(_) => {
            malformed(error)
        }
    })?;
    let layout = Layout::read(bytes, source.info())?;
    let orientation = orientation(bytes);
    let (width, height) = (source.info().width as usize, source.info().height as usize);
    let announced = source
        .info()
        .animation_control
        .map_or(1, |animation| animation.num_frames);

    let samples = width as u64 * height as u64 * layout.bands as u64;
    // The canvas, the frame before blending, what a frame replaced, and its expansion to at most four bytes a pixel.
    meter.bytes(samples * if announced > 1 { 3 } else { 1 } + width as u64 * height as u64 * 4)?;
    meter.frame(width, height, layout.has_alpha())?;
    let data = vec![0; samples as usize];
    let mut canvas = Canvas {
        width,
        bands: layout.bands,
        data,
    };

    for index in 0.. {
        let place = FrameRect::of(&source, width, height)?;
        let keeps = place.dispose == DisposeOp::Previous && index > 0;
        let replaced = keeps.then(|| canvas.cut(&place));
        let over = place.blend == BlendOp::Over && index > 0;
        let intact = draw_frame(&mut source, &layout, &mut canvas, &place, over, meter)?;
        if !intact && index == 0 {
            let interlaced = source.info().interlaced;
            salvage::draw(
                bytes,
                &layout,
                (width, height),
                interlaced,
                meter,
                &mut canvas.data,
            )?;
        }
        let animated = source.info().animation_control.is_some();
        let shown = if animated {
            canvas.data.clone()
        } else {
            std::mem::take(&mut canvas.data)
        };
        let raster = layout.raster(width, height, shown).oriented(orientation);
        let wanted = emit(raster)?.is_continue() && intact && animated;
        if !wanted || source.next_frame_info().is_err() {
            break;
        }
        meter.frame(width, height, layout.has_alpha())?;
        match (place.dispose, replaced) {
            (DisposeOp::None, _) => {}
            (DisposeOp::Previous, Some(replaced)) => canvas.paste(&place, &replaced),
            (DisposeOp::Previous | DisposeOp::Background, _) => {
                canvas.rows(&place).for_each(|row| row.fill(0));
            }
        }
    }
    Ok(())
}

/// Decodes the frame at hand onto the canvas, over what is there or instead of it; answers whether all of it was there.
fn draw_frame(
    source: &mut Source<'_>,
    layout: &Layout,
    canvas: &mut Canvas,
    place: &FrameRect,
    over: bool,
    meter: &mut Meter,
) -> Result<bool, CodecError> {
    if !over && !source.info().interlaced {
        return Ok(read_rows(source, layout, canvas.rows(place)));
    }
    let mut frame = canvas.cut(place);
    let stride = place.width * layout.bands;
    let intact = if source.info().interlaced {
        let packed = layout.packed_stride(place.width);
        meter.bytes(packed as u64 * place.height as u64)?;
        let mut rows = vec![0; packed * place.height];
        let intact = read_interlaced(source, layout, packed, &mut rows);
        let rows = rows.chunks_exact(packed);
        rows.zip(frame.chunks_exact_mut(stride))
            .for_each(|(row, out)| layout.unpack(row, out));
        intact
    } else {
        read_rows(source, layout, frame.chunks_exact_mut(stride))
    };
    if over {
        canvas.blend(place, &frame, layout);
    } else {
        canvas.paste(place, &frame);
    }
    Ok(intact)
}

/// Unpacks the rows of a frame in order; answers whether all were there.
fn read_rows<'r>(
    source: &mut Source<'_>,
    layout: &Layout,
    rows: impl Iterator<Item = &'r mut [u8]>,
) -> bool {
    for out in rows {
        match source.next_row() {
            Ok(Some(row)) => layout.unpack(row.data(), out),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
    // Asking once more moves past the frame's data, which must be done before the next frame is looked for.
    source.next_row().is_ok()
}

/// Puts the pixels of all passes into their packed rows; answers whether all were there.
fn read_interlaced(
    source: &mut Source<'_>,
    layout: &Layout,
    packed: usize,
    rows: &mut [u8],
) -> bool {
    loop {
        match source.next_interlaced_row() {
            Ok(Some(row)) => {
                if let InterlaceInfo::Adam7(pass) = row.interlace() {
                    expand_interlaced_row(rows, packed, row.data(), pass, layout.bits_per_pixel());
                }
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Where a frame goes and what becomes of it.
struct FrameRect {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    dispose: DisposeOp,
    blend: BlendOp,
}

impl FrameRect {
    fn of(source: &Source<'_>, width: usize, height: usize) -> Result<Self, CodecError> {
        let Some(control) = source.info().frame_control else {
            return Ok(Self {
                x: 0,
                y: 0,
                width,
                height,
                dispose: DisposeOp::None,
                blend: BlendOp::Source,
            });
        };
        let place = Self {
            x: control.x_offset as usize,
            y: control.y_offset as usize,
            width: control.width as usize,
            height: control.height as usize,
            dispose: control.dispose_op,
            blend: control.blend_op,
        };
        let fits = place.x + place.width <= width && place.y + place.height <= height;
        if fits {
            Ok(place)
        } else {
            Err(malformed("a frame leaves the canvas"))
        }
    }
}

/// The composed picture, `bands` bytes a pixel.
struct Canvas {
    width: usize,
    bands: usize,
    data: Vec<u8>,
}

impl Canvas {
    /// The place's rows within the canvas.
    fn rows(&mut self, place: &FrameRect) -> impl Iterator<Item = &mut [u8]> {
        let (from, to) = (place.x * self.bands, (place.x + place.width) * self.bands);
        let stride = self.width * self.bands;
        self.data
            .chunks_exact_mut(stride)
            .skip(place.y)
            .take(place.height)
            .map(move |row| &mut row[from..to])
    }

    fn cut(&mut self, place: &FrameRect) -> Vec<u8> {
        let mut cut = Vec::with_capacity(place.width * place.height * self.bands);
        self.rows(place).for_each(|row| cut.extend_from_slice(row));
        cut
    }

    fn paste(&mut self, place: &FrameRect, pixels: &[u8]) {
        let stride = place.width * self.bands;
        self.rows(place)
            .zip(pixels.chunks_exact(stride))
            .for_each(|(row, new)| row.copy_from_slice(new));
    }

    /// Pillow's paste through a mask: every band, alpha included, moves towards the new value by the new alpha.
    fn blend(&mut self, place: &FrameRect, pixels: &[u8], layout: &Layout) {
        let bands = self.bands;
        let stride = place.width * bands;
        for (row, new) in self.rows(place).zip(pixels.chunks_exact(stride)) {
            for (old, new) in row.chunks_exact_mut(bands).zip(new.chunks_exact(bands)) {
                let alpha = u32::from(layout.alpha(new));
                for (old, &new) in old.iter_mut().zip(new) {
                    let sum = u32::from(*old) * (255 - alpha) + u32::from(new) * alpha + 128;
                    *old = ((sum + (sum >> 8)) >> 8) as u8;
                }
            }
        }
    }
}

/// From `eXIf`, from the EXIF that ImageMagick leaves as text, or from XMP.
fn orientation(bytes: &[u8]) -> Orientation {
    let exif = Chunks::new(bytes)
        .find(|chunk| chunk.name == *b"eXIf")
        .map(|chunk| chunk.data.to_vec());
    let exif = exif.or_else(|| text::raw_exif(bytes));
    let xmp = text::find(bytes, "XML:com.adobe.xmp");
    Orientation::find(exif.as_deref(), xmp.as_deref().map(str::as_bytes))
}

fn malformed(reason: impl std::fmt::Display) -> CodecError {
    CodecError::malformed(NAME, reason)
}
