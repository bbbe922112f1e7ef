//! Colour conversions in Pillow's integers, for formats that store something else than RGB.

/// Naive CMYK to RGB: `(255 - k) - c * (255 - k) / 255`, rounded.
pub(super) fn cmyk_to_rgb([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let white = 255 - k;
    [c, m, y].map(|ink| white - multiply(ink, white))
}

/// `a * b / 255`, rounded.
fn multiply(a: u8, b: u8) -> u8 {
    let product = u32::from(a) * u32::from(b) + 128;
    ((product + (product >> 8)) >> 8) as u8
}

/// Undoes premultiplication: `colour * 255 / alpha`, clipped; black where nothing is left.
pub(super) fn unpremultiply([r, g, b, alpha]: [u8; 4]) -> [u8; 4] {
    if alpha == 0 {
        return [0; 4];
    }
    let [r, g, b] =
        [r, g, b].map(|color| (u32::from(color) * 255 / u32::from(alpha)).min(255) as u8);
    [r, g, b, alpha]
}

/// Full-range BT.601 YCbCr to RGB in 16-bit fixed point, bit for bit what libjpeg computes.
///
/// Whole multiples are taken out of the factors 1.402, 0.71414 and 1.772, so that what is left of them fits 16 bits and the
/// multiplications vectorise.
#[inline]
pub(super) fn ycbcr_to_rgb([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let r = y + cr + ((26_345 * cr + HALF) >> 16);
    let g = y - cr + ((18_734 * cr - 22_554 * cb + HALF) >> 16);
    let b = y + 2 * cb + ((HALF - 14_942 * cb) >> 16);
    [byte(r), byte(g), byte(b)]
}

/// A row of [`ycbcr_to_rgb`], in runs whose planes are computed before they are interleaved: that is what vectorises.
pub(super) fn ycbcr_row_to_rgb(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    const RUN: usize = 32;
    let inputs = y.chunks(RUN).zip(cb.chunks(RUN)).zip(cr.chunks(RUN));
    for (out, ((y, cb), cr)) in out.chunks_mut(RUN * 3).zip(inputs) {
        let (mut r, mut g, mut b) = ([0; RUN], [0; RUN], [0; RUN]);
        for (at, ((&y, &cb), &cr)) in y.iter().zip(cb).zip(cr).enumerate().take(RUN) {
            [r[at], g[at], b[at]] = ycbcr_to_rgb([y, cb, cr]);
        }
        for (at, out) in out.as_chunks_mut::<3>().0.iter_mut().enumerate().take(RUN) {
            *out = [r[at], g[at], b[at]];
        }
    }
}

fn byte(value: i32) -> u8 {
    value.clamp(0, 255) as u8
}
