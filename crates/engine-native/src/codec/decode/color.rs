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
pub(super) fn ycbcr_to_rgb([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
    let r = y + ((91_881 * cr + HALF) >> 16);
    let g = y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16);
    let b = y + ((116_130 * cb + HALF) >> 16);
    [r, g, b].map(|v| v.clamp(0, 255) as u8)
}
