//! The way of a call, against a provider that waits for the test's word and a clock that the test moves.

mod checks;
mod detached;
mod fallback;
mod harness;
mod keeping;
mod keys;
mod queued;
mod replicas;
mod restart;
mod serving;
mod streams;
mod world;

use bytes::Bytes;

use super::execution::{Dispatch, carry_out};
use crate::router::Inner;

/// A call has this room for as long as its partner works.
#[test]
fn what_waits_for_a_partner_takes_little_room() {
    fn bytes_of<F>(_: fn(&'static Inner, Box<Dispatch>, Bytes) -> F) -> usize {
        size_of::<F>()
    }
    let bytes = bytes_of(carry_out);
    assert!(bytes <= 512, "it has {bytes} bytes");
}
