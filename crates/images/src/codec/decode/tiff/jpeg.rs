//! TIFF pages whose strips or tiles are JPEG pictures that share tables.

use ::tiff::decoder::ChunkType;
use ::tiff::tags::{PhotometricInterpretation, Tag};

use super::{NAME, Source, refusal};
use crate::codec::CodecError;
use crate::codec::decode::jpeg::{Colors, Jpeg};
use crate::codec::decode::raster::Raster;
use crate::codec::limits::Meter;

pub(super) fn page<'a>(
    bytes: &'a [u8],
    source: &mut Source<'a>,
    width: usize,
    height: usize,
    meter: &mut Meter,
) -> Result<Raster, CodecError> {
    let malformed = |reason: &str| CodecError::malformed(NAME, reason);
    if source
        .find_tag_unsigned(Tag::PlanarConfiguration)
        .map_err(refusal)?
        == Some(2_u16)
    {
        return Err(CodecError::Unsupported(format!("{NAME} with JPEG planes")));
    }
    let photometric: u16 = source
        .get_tag_unsigned(Tag::PhotometricInterpretation)
        .map_err(refusal)?;
    let is_ycbcr = photometric == PhotometricInterpretation::YCbCr.to_u16();
    let colors = if is_ycbcr {
        Colors::YCbCr
    } else {
        Colors::Plain
    };
    let (offsets, counts) = match source.get_chunk_type() {
        ChunkType::Strip => (Tag::StripOffsets, Tag::StripByteCounts),
        ChunkType::Tile => (Tag::TileOffsets, Tag::TileByteCounts),
    };
    let offsets = source.get_tag_u64_vec(offsets).map_err(refusal)?;
    let counts = source.get_tag_u64_vec(counts).map_err(refusal)?;
    let tables = source.find_tag(Tag::JPEGTables).map_err(refusal)?;
    let tables = tables
        .map(|tables| tables.into_u8_vec())
        .transpose()
        .map_err(refusal)?
        .unwrap_or_default();
    let (chunk_width, chunk_height) = source.chunk_dimensions();
    let (chunk_width, chunk_height) = (chunk_width as usize, chunk_height as usize);
    if chunk_width == 0 || chunk_height == 0 {
        return Err(malformed("its strips have no pixels"));
    }
    // Padding to whole units aside, a chunk is as large as the header said; a larger picture in it is refused below.
    let chunk_pixels = (chunk_width as u64 + 32) * (chunk_height.min(height) as u64 + 32);
    meter.bytes(
        chunk_pixels
            .saturating_mul(12)
            .saturating_add(width as u64 * height as u64 * 4),
    )?;

    let across = width.div_ceil(chunk_width);
    let mut page: Option<Raster> = None;
    for (index, (&offset, &count)) in offsets.iter().zip(&counts).enumerate() {
        let (left, top) = (index % across * chunk_width, index / across * chunk_height);
        if top >= height {
            break;
        }
        let data = usize::try_from(offset)
            .ok()
            .and_then(|from| bytes.get(from..))
            .unwrap_or_default();
        let data = &data[..usize::try_from(count).unwrap_or(usize::MAX).min(data.len())];
        let mut jpeg = Jpeg::default();
        jpeg.read_tables(&tables)?;
        jpeg.read(data, &mut |frame| {
            let fits = frame.width <= chunk_width && frame.height <= chunk_height;
            if fits {
                Ok(())
            } else {
                Err(malformed("a strip is larger than its page"))
            }
        })?;
        let chunk = jpeg.raster(colors)?;
        let page = page.get_or_insert_with(|| {
            Raster::new(
                width,
                height,
                chunk.channels,
                vec![0; width * height * chunk.channels],
            )
        });
        if page.channels != chunk.channels {
            return Err(malformed("its strips differ in colours"));
        }
        let columns = chunk.width.min(width - left) * chunk.channels;
        for (y, row) in chunk
            .data
            .chunks_exact(chunk.width * chunk.channels)
            .take(height - top)
            .enumerate()
        {
            page.data[((top + y) * width + left) * page.channels..][..columns]
                .copy_from_slice(&row[..columns]);
        }
    }
    page.ok_or_else(|| malformed("it has no strips"))
}
