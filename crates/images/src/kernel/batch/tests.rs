//! Which frames come out, and that they are the same frames.

use std::sync::Arc;

use super::*;
use crate::pixels::{Frame, ShapeError};

fn batch(values: &[f32]) -> Image {
    Image::new(
        values
            .iter()
            .map(|&v| Arc::new(Frame::filled(1, 2, 3, v)))
            .collect(),
    )
    .expect("a batch")
}

fn values(image: &Image) -> Vec<f32> {
    image.frames().iter().map(|frame| frame.data()[0]).collect()
}

#[test]
fn joining_brings_the_second_to_the_shape_of_the_first() {
    let second = Image::single(Frame::filled(6, 4, 4, 0.5));
    let out = join(batch(&[0.1, 0.2]), second).expect("it fits");
    assert_eq!(out.first().shape(), (1, 2, 4));
    assert_eq!(values(&out), [0.1, 0.2, 0.5]);
    assert_eq!(
        (out.frames()[0].data()[3], out.frames()[2].data()[3]),
        (1.0, 0.5)
    );
}

#[test]
fn taking_stays_inside_the_batch() {
    let image = batch(&[0.0, 1.0, 2.0]);
    assert_eq!(values(&take(&image, 1, 1).expect("not empty")), [1.0]);
    assert_eq!(
        values(&take(&image, 1, 4096).expect("not empty")),
        [1.0, 2.0]
    );
    assert_eq!(values(&take(&image, 4095, 4096).expect("not empty")), [2.0]);
}

#[test]
fn repeating_repeats_the_whole_batch_without_copying_it() {
    let image = batch(&[0.0, 1.0]);
    let out = repeat(&image, 3).expect("not empty");
    assert_eq!(values(&out), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    assert!(Arc::ptr_eq(&out.frames()[4], &image.frames()[0]));
}

#[test]
fn repeating_what_was_repeated_has_an_end() {
    let many = repeat(&batch(&[0.0]), 1 << 20).expect("just so many");
    assert_eq!(repeat(&many, 2), Err(KernelError::TooManyFrames(1 << 21)));
    assert_eq!(
        repeat(&many, usize::MAX),
        Err(KernelError::TooManyFrames(usize::MAX))
    );
    assert_eq!(
        join(many, batch(&[0.0])),
        Err(KernelError::TooManyFrames((1 << 20) + 1))
    );
}

#[test]
fn rebatching_flattens_first() {
    let out = rebatch(&[batch(&[0.0, 1.0]), batch(&[2.0, 3.0, 4.0])], 3).expect("one shape");
    assert_eq!(
        out.iter().map(values).collect::<Vec<_>>(),
        [vec![0.0, 1.0, 2.0], vec![3.0, 4.0]]
    );
    let other = Image::single(Frame::filled(1, 1, 3, 0.0));
    let mixed = rebatch(&[batch(&[0.0]), other.clone()], 2);
    assert_eq!(
        mixed,
        Err(KernelError::Batch(ShapeError::Mixed(1, 2, 3, 1, 1, 3)))
    );
    assert_eq!(
        rebatch(&[batch(&[0.0]), other], 1)
            .expect("never meet")
            .len(),
        2
    );
}
