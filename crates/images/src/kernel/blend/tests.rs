//! Each mode on one pixel, and how the second picture is fitted.

use std::sync::Arc;

use super::*;
use crate::pixels::Frame;

fn blended(a: f32, b: f32, factor: f64, mode: BlendMode) -> f32 {
    let picture = |v| Image::single(Frame::filled(1, 1, 1, v));
    blend(picture(a), picture(b), factor, mode)
        .expect("equal shapes")
        .first()
        .data()[0]
}

#[test]
fn modes() {
    let cases = [
        (BlendMode::Normal, 0.25),
        (BlendMode::Multiply, 0.1875),
        (BlendMode::Screen, 0.8125),
        (BlendMode::Overlay, 0.625),
        (BlendMode::SoftLight, 0.65625),
        (BlendMode::Difference, 0.5),
    ];
    for (mode, expected) in cases {
        assert_eq!(blended(0.75, 0.25, 1.0, mode), expected, "{mode:?}");
        assert_eq!(blended(0.75, 0.25, 0.0, mode), 0.75, "{mode:?}");
    }
}

#[test]
fn a_difference_keeps_its_sign_until_it_is_clamped() {
    assert_eq!(blended(0.25, 0.75, 1.0, BlendMode::Difference), 0.0);
    assert_eq!(blended(0.5, 1.0, 0.5, BlendMode::Difference), 0.0);
}

#[test]
fn the_second_picture_takes_the_shape_of_the_first() {
    let first = Image::single(Frame::filled(3, 5, 4, 0.5));
    let second = Image::single(Frame::filled(2, 2, 3, 0.25));
    let out = blend(first, second, 1.0, BlendMode::Normal).expect("it is fitted");
    assert_eq!(out.first().shape(), (3, 5, 4));
    assert_eq!(out.first().data()[3], 1.0);
}

#[test]
fn one_frame_is_blended_with_all() {
    let batch = |n: usize| {
        Image::new(
            (0..n)
                .map(|_| Arc::new(Frame::filled(1, 1, 3, 0.5)))
                .collect(),
        )
        .expect("a batch")
    };
    assert_eq!(
        blend(batch(3), batch(1), 0.5, BlendMode::Normal)
            .expect("one to all")
            .frames()
            .len(),
        3
    );
    assert_eq!(
        blend(batch(1), batch(3), 0.5, BlendMode::Normal)
            .expect("one to all")
            .frames()
            .len(),
        3
    );
    assert_eq!(
        blend(batch(2), batch(3), 0.5, BlendMode::Normal),
        Err(KernelError::BatchMismatch(2, 3))
    );
}
