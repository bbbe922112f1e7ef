//! What can still be shown of image data that breaks off.
//!
//! The decoder proper keeps tens of kilobytes to itself until it sees the end; here every complete row that the data inflates
//! to is drawn, which is what Pillow does.

use flate2::{Decompress, FlushDecompress, Status};
use png::{Adam7Info, expand_interlaced_row};

use super::layout::Layout;
use crate::codec::CodecError;
use crate::codec::chunks::image_data;
use crate::codec::limits::Meter;

/// Draws the complete rows of a still picture onto its canvas.
pub(super) fn draw(
    png: &[u8],
    layout: &Layout,
    (width, height): (usize, usize),
    interlaced: bool,
    meter: &mut Meter,
    canvas: &mut [u8],
) -> Result<(), CodecError> {
    let packed = layout.packed_stride(width);
    // Each row has a byte for its filter; passes of an interlaced picture have together up to twice the rows.
    let most = (packed + 9) as u64 * height as u64 * 2;
    meter.bytes(most)?;
    let mut rows = inflated(png, most as usize);
    let mut picture = vec![0; packed * height];
    let bits = layout.bits_per_pixel();
    let distance = usize::from(bits).div_ceil(8);
    if interlaced {
        let mut rest = rows.as_mut_slice();
        for pass in 1..=7 {
            let Some((across, down)) = pass_size(pass, width, height) else {
                continue;
            };
            let stride = layout.packed_stride(across) + 1;
            let (this, after) = rest.split_at_mut((stride * down).min(rest.len()));
            unfilter(this, stride, distance);
            for (line, row) in this.chunks_exact(stride).enumerate() {
                let info = Adam7Info::new(pass, line as u32, width as u32);
                expand_interlaced_row(&mut picture, packed, &row[1..], &info, bits);
            }
            rest = after;
        }
    } else {
        unfilter(&mut rows, packed + 1, distance);
        for (row, out) in rows
            .chunks_exact(packed + 1)
            .zip(picture.chunks_exact_mut(packed))
        {
            out.copy_from_slice(&row[1..]);
        }
    }
    let stride = width * layout.bands;
    let rows = picture
        .chunks_exact(packed)
        .zip(canvas.chunks_exact_mut(stride));
    rows.for_each(|(row, out)| layout.unpack(row, out));
    Ok(())
}

/// As many of the filtered rows' bytes as there are.
fn inflated(png: &[u8], most: usize) -> Vec<u8> {
    let mut inflater = Decompress::new(true);
    let mut rows = vec![0; most];
    for data in image_data(png) {
        let mut rest = data;
        loop {
            let (read, written) = (inflater.total_in(), inflater.total_out());
            let status =
                inflater.decompress(rest, &mut rows[written as usize..], FlushDecompress::None);
            let taken = inflater.total_in() - read;
            rest = &rest[taken as usize..];
            let stuck = taken == 0 && inflater.total_out() == written;
            if stuck || !matches!(status, Ok(Status::Ok)) {
                break;
            }
        }
    }
    rows.truncate(inflater.total_out() as usize);
    rows
}

/// Pixels across and down in a pass; none if it has no pixels.
fn pass_size(pass: u8, width: usize, height: usize) -> Option<(usize, usize)> {
    let (x, y, dx, dy) = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ][usize::from(pass) - 1];
    let (across, down) = (
        width.saturating_sub(x).div_ceil(dx),
        height.saturating_sub(y).div_ceil(dy),
    );
    (across > 0 && down > 0).then_some((across, down))
}

/// Undoes the filters of complete rows in place.
fn unfilter(rows: &mut [u8], stride: usize, distance: usize) {
    let mut above = vec![0; stride];
    for row in rows.chunks_exact_mut(stride) {
        for at in 1..stride {
            let left = if at > distance { row[at - distance] } else { 0 };
            let corner = if at > distance {
                above[at - distance]
            } else {
                0
            };
            let up: u8 = above[at];
            let predicted = match row[0] {
                1 => left,
                2 => up,
                3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
                4 => paeth(left, up, corner),
                _ => 0,
            };
            row[at] = row[at].wrapping_add(predicted);
        }
        above.copy_from_slice(row);
    }
}

/// Whichever of the three is nearest to `left + up - corner`.
fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let distance =
        |value: u8| (i16::from(left) + i16::from(up) - i16::from(corner) - i16::from(value)).abs();
    let (a, b, c) = (distance(left), distance(up), distance(corner));
    if a <= b && a <= c {
        left
    } else if b <= c {
        up
    } else {
        corner
    }
}
