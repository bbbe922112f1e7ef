//! What is computed once, what is paired, and what is too large.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn a_repeated_frame_is_computed_once_and_stays_shared() {
    let frame = Arc::new(Frame::filled(1, 1, 1, 1.0));
    let other = Arc::new(Frame::filled(1, 1, 1, 2.0));
    let calls = AtomicUsize::new(0);
    let out = map_distinct(vec![Arc::clone(&frame), other, frame], |frame| {
        calls.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Frame::filled(1, 1, 1, -frame.data()[0])))
    })
    .expect("nothing fails");
    assert_eq!(calls.into_inner(), 2);
    assert!(Arc::ptr_eq(&out[0], &out[2]));
    assert_eq!((out[0].data()[0], out[1].data()[0]), (-1.0, -2.0));
}

#[test]
fn duplicates_do_not_keep_a_frame_from_being_changed_in_place() {
    let frame = Arc::new(Frame::filled(1, 1, 1, 1.0));
    let out = map_distinct(vec![Arc::clone(&frame), frame], |frame| {
        Ok(Arc::strong_count(&frame))
    })
    .expect("nothing fails");
    assert_eq!(out, [1, 1]);
}

#[test]
fn sizes_beyond_the_limit_are_refused_before_anything_is_allocated() {
    assert_eq!(samples(16384, 16384, 4), Ok(MAX_FRAME_SAMPLES));
    assert_eq!(
        samples(16384, 16384, 5),
        Err(KernelError::TooLarge {
            width: 16384,
            height: 16384,
            channels: 5
        })
    );
    assert_eq!(
        samples(usize::MAX, 2, 1),
        Err(KernelError::TooLarge {
            width: 2,
            height: usize::MAX,
            channels: 1
        })
    );
    assert_eq!(
        samples(0, 7, 3),
        Err(KernelError::EmptyResult {
            width: 7,
            height: 0
        })
    );
}

#[test]
fn batches_pair_one_to_one_or_one_to_all() {
    let frames = |n: usize| {
        (0..n)
            .map(|_| Arc::new(Frame::filled(1, 1, 1, 0.0)))
            .collect::<Vec<_>>()
    };
    assert_eq!(broadcast(frames(3), frames(3)).expect("equal").len(), 3);
    assert_eq!(broadcast(frames(1), frames(3)).expect("one").len(), 3);
    assert_eq!(broadcast(frames(3), frames(1)).expect("one").len(), 3);
    assert_eq!(
        broadcast(frames(2), frames(3)),
        Err(KernelError::BatchMismatch(2, 3))
    );
}
