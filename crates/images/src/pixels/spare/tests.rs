//! Which piece is given, the bound, the age, and that nothing old is seen.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn left(lengths: &[usize], limit_bytes: usize) -> (Spare, usize) {
    let mut spare = Spare::new(limit_bytes);
    let now = Instant::now();
    let beyond = lengths
        .iter()
        .flat_map(|&length| spare.leave(vec![1.0; length], now));
    let beyond = beyond.count();
    (spare, beyond)
}

#[test]
fn a_piece_is_given_once_and_only_for_about_its_size() {
    let (mut spare, _) = left(&[1000, 3000], 1 << 20);
    assert!(spare.take(1001).is_none());
    assert!(spare.take(900).is_none());
    assert_eq!(spare.take(990).map(|piece| piece.capacity()), Some(1000));
    assert!(spare.take(990).is_none());
    assert_eq!(spare.bytes, 12_000);
}

#[test]
fn the_piece_left_last_comes_first() {
    let mut spare = Spare::new(1 << 20);
    let now = Instant::now();
    for value in [1.0, 2.0] {
        assert!(spare.leave(vec![value; 1000], now).is_empty());
    }
    assert_eq!(spare.take(1000).map(|piece| piece[0]), Some(2.0));
}

#[test]
fn beyond_the_bound_the_oldest_go() {
    let (spare, beyond) = left(&[1000, 1000, 2000], 12_000);
    assert_eq!((beyond, spare.pieces.len(), spare.bytes), (1, 2, 12_000));
    let (spare, beyond) = left(&[1000, 4000], 12_000);
    assert_eq!((beyond, spare.pieces.len(), spare.bytes), (2, 0, 0));
}

#[test]
fn what_nobody_asks_for_goes_after_a_while() {
    let mut spare = Spare::new(1 << 20);
    let start = Instant::now();
    spare.leave(vec![0.0; 1000], start);
    spare.leave(vec![0.0; 1000], start + MINUTE);
    let due = |now: Instant| move |since| now.duration_since(since) >= MINUTE;
    assert_eq!(spare.release(due(start)).len(), 0);
    assert_eq!(spare.release(due(start + MINUTE)).len(), 1);
    assert_eq!(spare.bytes, 4000);
    assert_eq!(spare.release(due(start + 2 * MINUTE)).len(), 1);
    assert_eq!((spare.bytes, spare.pieces.len()), (0, 0));
}

#[test]
fn what_lay_in_a_frame_is_not_seen_by_the_next() {
    // Larger than what is not kept; whether this very piece comes back depends on what else runs, what is in it does not.
    let frame = crate::pixels::Frame::filled(300, 300, 3, 0.25);
    drop(frame);
    let samples = unwritten(300 * 300 * 3);
    assert_eq!(samples.len(), 300 * 300 * 3);
    assert!(samples.iter().all(|sample| sample.is_nan()));
    // Small ones are filled too, so that every test of a kernel shows what it leaves out.
    assert!(unwritten(3).iter().all(|sample| sample.is_nan()));
}

#[test]
fn a_dropped_frame_leaves_its_memory() {
    // A size that no other test makes, so that nobody else takes it.
    let frame = crate::pixels::Frame::filled(61, 1009, 3, 0.25);
    let address = frame.data().as_ptr();
    drop(frame);
    let samples = unwritten(61 * 1009 * 3);
    assert_eq!(samples.as_ptr(), address);
}
