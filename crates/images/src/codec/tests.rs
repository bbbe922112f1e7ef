//! The codecs against recordings: the goldens beside the repository, and the small set that is committed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod animated;
mod goldens;
mod hostile;
mod pictures;
mod writers;
