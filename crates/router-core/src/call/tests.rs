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
