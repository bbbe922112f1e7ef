//! Turns and flips of six pixels, and that four quarters are none.

use super::*;

fn picture() -> Image {
    Image::single(Frame::new(2, 3, 1, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
}

fn check(image: Result<Image, KernelError>, height: usize, samples: &[f32]) {
    let expected = Frame::new(height, samples.len() / height, 1, samples.to_vec());
    assert_eq!(*image.expect("pixels only move").first(), expected);
}

#[test]
fn turns_are_clockwise() {
    check(
        rotate(picture(), Rotation::None),
        2,
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    );
    check(
        rotate(picture(), Rotation::Quarter),
        3,
        &[4.0, 1.0, 5.0, 2.0, 6.0, 3.0],
    );
    check(
        rotate(picture(), Rotation::Half),
        2,
        &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
    );
    check(
        rotate(picture(), Rotation::ThreeQuarters),
        3,
        &[3.0, 6.0, 2.0, 5.0, 1.0, 4.0],
    );
}

#[test]
fn flips() {
    check(
        flip(picture(), Flip::Vertical),
        2,
        &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0],
    );
    check(
        flip(picture(), Flip::Horizontal),
        2,
        &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0],
    );
    let shared = picture();
    check(
        flip(shared.clone(), Flip::Vertical),
        2,
        &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0],
    );
    check(
        flip(shared.clone(), Flip::Horizontal),
        2,
        &[3.0, 2.0, 1.0, 6.0, 5.0, 4.0],
    );
    assert_eq!(shared, picture());
}

#[test]
fn four_quarters_are_none_whatever_the_shape() {
    for (height, width, channels) in [
        (1, 1, 3),
        (1, 40, 1),
        (37, 50, 3),
        (50, 37, 4),
        (20, 19, 5),
        (3, 2, 2),
    ] {
        let frame = Frame::new(
            height,
            width,
            channels,
            (0..height * width * channels).map(|i| i as f32).collect(),
        );
        let image = Image::single(frame);
        let quarter = rotate(image.clone(), Rotation::Quarter).expect("pixels only move");
        assert_eq!(
            rotate(quarter.clone(), Rotation::ThreeQuarters),
            Ok(image.clone())
        );
        assert_eq!(
            rotate(quarter, Rotation::Quarter),
            rotate(image.clone(), Rotation::Half)
        );
        let flipped = flip(
            flip(image.clone(), Flip::Vertical).expect("same shape"),
            Flip::Horizontal,
        );
        assert_eq!(flipped, rotate(image, Rotation::Half));
    }
}

#[test]
fn a_crop_starts_inside_and_ends_at_the_border() {
    check(crop(picture(), 2, 1, 1, 0), 1, &[2.0, 3.0]);
    check(crop(picture(), 512, 512, 1, 0), 2, &[2.0, 3.0, 5.0, 6.0]);
    check(crop(picture(), 10, 10, 16384, 16384), 1, &[6.0]);
    assert_eq!(
        crop(picture(), 0, 1, 0, 0),
        Err(KernelError::EmptyResult {
            width: 0,
            height: 1
        })
    );
}
