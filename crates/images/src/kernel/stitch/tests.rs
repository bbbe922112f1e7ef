//! Two small pictures side by side, in every direction.

use super::*;

const PLAIN: Stitch = Stitch {
    direction: Direction::Right,
    match_image_size: false,
    spacing_width: 0,
    spacing_color: SpacingColor::White,
};

fn grey(height: usize, width: usize, value: f32) -> Image {
    Image::single(Frame::filled(height, width, 1, value))
}

fn check(options: Stitch, height: usize, samples: &[f32]) {
    let out = stitch(grey(1, 1, 0.2), grey(2, 2, 0.4), options).expect("they fit");
    assert_eq!(
        *out.first(),
        Frame::new(height, samples.len() / height, 1, samples.to_vec()),
        "{options:?}"
    );
}

#[test]
fn the_smaller_is_centred_with_the_odd_pixel_after_it() {
    check(PLAIN, 2, &[0.2, 0.4, 0.4, 1.0, 0.4, 0.4]);
    check(
        Stitch {
            direction: Direction::Left,
            ..PLAIN
        },
        2,
        &[0.4, 0.4, 0.2, 0.4, 0.4, 1.0],
    );
    check(
        Stitch {
            direction: Direction::Down,
            ..PLAIN
        },
        3,
        &[0.2, 1.0, 0.4, 0.4, 0.4, 0.4],
    );
    check(
        Stitch {
            direction: Direction::Up,
            ..PLAIN
        },
        3,
        &[0.4, 0.4, 0.4, 0.4, 0.2, 1.0],
    );
}

#[test]
fn spacing_is_even_and_coloured_but_padding_is_black_beside_a_colour() {
    let options = Stitch {
        spacing_width: 1,
        spacing_color: SpacingColor::Red,
        ..PLAIN
    };
    check(
        options,
        2,
        &[0.2, 1.0, 1.0, 0.4, 0.4, 0.0, 1.0, 1.0, 0.4, 0.4],
    );
}

#[test]
fn missing_channels_are_opaque() {
    let colour = Image::single(Frame::filled(1, 1, 3, 0.5));
    let alpha = Image::single(Frame::filled(1, 1, 4, 0.25));
    let options = Stitch {
        spacing_width: 2,
        spacing_color: SpacingColor::Blue,
        ..PLAIN
    };
    let out = stitch(colour, alpha, options).expect("they fit");
    let blue = [0.0, 0.0, 1.0, 1.0];
    assert_eq!(
        out.first().data(),
        [[0.5, 0.5, 0.5, 1.0], blue, blue, [0.25; 4]].concat()
    );
}

#[test]
fn matching_gives_the_second_the_common_side_of_the_first() {
    let colour = |height, width| Image::single(Frame::filled(height, width, 3, 1.0));
    let options = Stitch {
        match_image_size: true,
        ..PLAIN
    };
    let out = stitch(colour(4, 3), colour(10, 15), options).expect("they fit");
    assert_eq!(out.first().shape(), (4, 9, 3));
    let out = stitch(
        colour(4, 3),
        colour(10, 15),
        Stitch {
            direction: Direction::Up,
            ..options
        },
    )
    .expect("they fit");
    assert_eq!(out.first().shape(), (6, 3, 3));
    let thin = stitch(colour(4, 3), colour(1000, 1), options);
    assert_eq!(
        thin,
        Err(KernelError::EmptyResult {
            width: 0,
            height: 4
        })
    );
}

#[test]
fn the_shorter_batch_repeats_its_last_frame() {
    let batch = |values: &[f32]| {
        Image::new(
            values
                .iter()
                .map(|&v| Arc::new(Frame::filled(1, 1, 1, v)))
                .collect(),
        )
    };
    let out = stitch(
        batch(&[0.1, 0.2, 0.3]).expect("a batch"),
        batch(&[0.4, 0.5]).expect("a batch"),
        PLAIN,
    )
    .expect("they fit");
    let rows: Vec<_> = out
        .frames()
        .iter()
        .map(|frame| frame.data().to_vec())
        .collect();
    assert_eq!(rows, [[0.1, 0.4], [0.2, 0.5], [0.3, 0.5]]);
}
