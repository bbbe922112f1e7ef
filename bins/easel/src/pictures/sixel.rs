//! Sixel: six rows of pixels at a time, in a cube of 6 x 6 x 6 colours.

use std::collections::BTreeMap;

/// Levels of each primary colour.
const LEVELS: u16 = 6;

/// 8-bit RGB pixels for the terminal.
pub(super) fn encode(width: usize, height: usize, pixels: &[u8]) -> String {
    let colors: Vec<u16> = pixels.chunks_exact(3).map(nearest).collect();
    let mut text = format!("\u{1b}Pq\"1;1;{width};{height}");
    let mut used: Vec<u16> = colors.clone();
    used.sort_unstable();
    used.dedup();
    for color in used {
        let percent = |level: u16| level * 100 / (LEVELS - 1);
        let (red, green, blue) = (color / 36, color / 6 % 6, color % 6);
        text.push_str(&format!(
            "#{color};2;{};{};{}",
            percent(red),
            percent(green),
            percent(blue)
        ));
    }
    for band in colors.chunks(width * 6) {
        text.push_str(&of_band(band, width));
        text.push('-');
    }
    text.push_str("\u{1b}\\");
    text
}

/// Six rows, one colour after the other.
fn of_band(band: &[u16], width: usize) -> String {
    let mut columns: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for (row, pixels) in band.chunks(width).enumerate() {
        for (column, color) in pixels.iter().enumerate() {
            let bits = columns.entry(*color).or_insert_with(|| vec![0; width]);
            bits[column] |= 1 << row;
        }
    }
    let lines = columns
        .iter()
        .map(|(color, bits)| format!("#{color}{}", repeated(bits)));
    lines.collect::<Vec<_>>().join("$")
}

/// Columns as characters; what repeats is counted.
fn repeated(bits: &[u8]) -> String {
    let mut text = String::new();
    for run in bits.chunk_by(|one, other| one == other) {
        let character = char::from(b'?' + run[0]);
        match run.len() {
            1 | 2 => text.extend(std::iter::repeat_n(character, run.len())),
            length => text.push_str(&format!("!{length}{character}")),
        }
    }
    text
}

fn nearest(pixel: &[u8]) -> u16 {
    let level = |value: u8| (u16::from(value) * (LEVELS - 1) + 127) / 255;
    level(pixel[0]) * 36 + level(pixel[1]) * 6 + level(pixel[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted() {
        assert_eq!(repeated(&[0, 0, 0, 63, 1, 1]), "!3?~@@");
    }

    #[test]
    fn a_band_has_a_line_for_each_colour() {
        // Two columns of two rows: white, black; black, white.
        let pixels = [255, 255, 255, 0, 0, 0, 0, 0, 0, 255, 255, 255];
        let text = encode(2, 2, &pixels);
        assert_eq!(
            text,
            "\u{1b}Pq\"1;1;2;2#0;2;0;0;0#215;2;100;100;100#0A@$#215@A-\u{1b}\\"
        );
    }
}
