//! Picture formats as pure functions over bytes: no files, no network, no clock.
//!
//! Start with [`decode`] for what LoadImage reads. Every reader takes [`Limits`],
//! which it checks against the header before it allocates, and answers any bytes at all with a [`CodecError`] at worst.

mod bytes;
mod chunks;
mod decode;
mod error;
mod limits;
mod text;

pub use bytes::to_bytes;
pub use decode::{Channel, Decoded, Format, Probe, decode, decode_channel, probe};
pub use error::CodecError;
pub use limits::Limits;
pub use text::{PngText, png_text};

#[cfg(test)]
mod tests;
