//! Picture formats as pure functions over bytes: no files, no network, no clock.
//!
//! Start with [`decode`] for what LoadImage reads and [`encode_png`] for what SaveImage writes. Every reader takes [`Limits`],
//! which it checks against the header before it allocates, and answers any bytes at all with a [`CodecError`] at worst.

mod animated;
mod bytes;
mod chunks;
mod decode;
mod error;
mod jpeg_out;
mod limits;
mod png_out;
mod python_json;
mod text;

pub(crate) use animated::raster_webp;
pub use animated::{WebpOptions, encode_apng, encode_webp};
pub use bytes::to_bytes;
pub(crate) use bytes::{bytes_to_samples, samples_to_bytes};
pub use decode::{Channel, Decoded, Format, Probe, decode, decode_channel, probe};
pub(crate) use decode::{Raster, decode_first};
pub use error::CodecError;
pub(crate) use jpeg_out::raster_jpeg;
pub use jpeg_out::{encode_jpeg, preview_jpeg};
pub use limits::Limits;
pub use png_out::encode_png;
pub(crate) use png_out::raster_png;
pub use python_json::python_json;
pub use text::{PngText, png_text};

#[cfg(test)]
mod tests;
