//! Palettes by hand, the table against a search, and the bounds of every dither.

use super::*;
use crate::pixels::Frame;

fn image(pixels: &[Rgb]) -> Image {
    Image::single(Frame::from_bytes(1, pixels.len(), 3, pixels.as_flattened()))
}

fn levels(image: &Image) -> Vec<u8> {
    image.first().to_bytes()
}

const DITHERS: [Dither; 6] = [
    Dither::None,
    Dither::FloydSteinberg,
    Dither::Bayer(BayerOrder::Two),
    Dither::Bayer(BayerOrder::Four),
    Dither::Bayer(BayerOrder::Eight),
    Dither::Bayer(BayerOrder::Sixteen),
];

fn noise(height: usize, width: usize) -> Image {
    let level = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    let bytes: Vec<u8> = (0..(height * width * 3) as u32).map(level).collect();
    Image::single(Frame::from_bytes(height, width, 3, &bytes))
}

#[test]
fn the_box_with_the_most_pixels_is_split_at_its_median() {
    let pixels = [[0, 0, 0], [0, 8, 0], [0, 100, 0], [0, 108, 0], [0, 200, 0]];
    assert_eq!(median_cut::palette(&pixels, 1), [[0, 83, 0]]);
    assert_eq!(median_cut::palette(&pixels, 2), [[0, 136, 0], [0, 4, 0]]);
    assert_eq!(
        median_cut::palette(&pixels, 3),
        [[0, 154, 0], [0, 100, 0], [0, 4, 0]]
    );
    assert_eq!(median_cut::palette(&pixels, 256).len(), 5);
}

#[test]
fn green_counts_more_than_red_and_red_more_than_blue() {
    let pixels = [[0, 0, 0], [0, 0, 255], [0, 50, 0], [90, 0, 0]];
    assert_eq!(median_cut::palette(&pixels, 2), [[0, 50, 0], [30, 0, 85]]);
}

#[test]
fn few_colours_stay_as_they_are() {
    let pixels = [[0, 0, 0], [252, 0, 0], [0, 252, 0], [0, 0, 252]];
    let out = quantize(image(&pixels), 256, Dither::None).expect("there are colours");
    assert_eq!(levels(&out), pixels.as_flattened());
}

#[test]
fn one_colour_is_the_mean() {
    let out = quantize(
        image(&[[0, 10, 20], [1, 20, 40]]),
        1,
        Dither::FloydSteinberg,
    )
    .expect("there are colours");
    assert_eq!(levels(&out), [1, 15, 30, 1, 15, 30]);
}

#[test]
fn no_more_colours_than_asked_for() {
    for dither in DITHERS {
        for colors in [1, 2, 7, 256] {
            let out = quantize(noise(40, 50), colors, dither).expect("there are colours");
            let bytes = levels(&out);
            let mut found = bytes.as_chunks::<3>().0.to_vec();
            found.sort_unstable();
            found.dedup();
            assert!(
                found.len() <= colors,
                "{dither:?} {colors}: {}",
                found.len()
            );
        }
    }
}

#[test]
fn more_distinct_colours_than_are_kept_lose_their_lowest_bits() {
    let pixels: Vec<Rgb> = (0..70_000u32)
        .map(|i| [(i >> 8) as u8, i as u8, (i >> 16) as u8 * 2 + (i & 1) as u8])
        .collect();
    let counted = colors::count(&pixels);
    assert!(
        counted.len() <= 65_536 && counted.iter().map(|color| color.count).sum::<u64>() == 70_000
    );
    let sums = counted.iter().fold(0, |sum, color| sum + color.sums[1]);
    assert_eq!(
        sums,
        pixels.iter().map(|pixel| u64::from(pixel[1])).sum::<u64>()
    );
}

#[test]
fn the_table_gives_what_a_search_gives() {
    let palette = median_cut::palette(levels(&noise(60, 60)).as_chunks::<3>().0, 256);
    let nearest = nearest::Nearest::new(&palette);
    for i in (0..1u32 << 24).step_by(4093) {
        let pixel = [(i >> 16) as u8, (i >> 8) as u8, i as u8];
        let distance = |color: &Rgb| {
            (0..3)
                .map(|c| (i32::from(color[c]) - i32::from(pixel[c] & 0xFC)).pow(2))
                .sum::<i32>()
        };
        let expected = palette
            .iter()
            .min_by_key(|color| distance(color))
            .expect("a colour");
        assert_eq!(nearest.color(pixel), *expected, "{pixel:?}");
    }
}

#[test]
fn any_shape_can_be_quantized() {
    for (height, width, channels) in [(1, 1, 3), (1, 200, 4), (200, 1, 3)] {
        for dither in DITHERS {
            let image = Image::single(Frame::filled(height, width, channels, 0.5));
            let out = quantize(image, 256, dither).expect("there are colours");
            assert_eq!(out.first().shape(), (height, width, 3));
        }
    }
    let mask = Image::single(Frame::filled(2, 2, 1, 0.5));
    assert_eq!(
        quantize(mask, 2, Dither::None),
        Err(KernelError::MissingChannels {
            needed: 3,
            found: 1
        })
    );
}
