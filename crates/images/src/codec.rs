//! Picture formats as pure functions over bytes: no files, no network, no clock.
//!
//! Start with [`decode`] for what LoadImage reads and [`encode_png`] for what SaveImage writes. Every reader takes [`Limits`],
//! which it checks against the header before it allocates, and answers any bytes at all with a [`CodecError`] at worst.

mod animated;
mod chunks;
mod decode;
mod error;
mod jpeg_out;
mod limits;
mod png_out;
mod text;

pub use animated::{WebpOptions, encode_apng, encode_webp, raster_to_webp};
pub use decode::{
    Channel, Decoded, Format, Probe, Raster, decode, decode_channel, decode_first, probe,
};
pub use error::CodecError;
pub use jpeg_out::{encode_jpeg, preview_jpeg, raster_to_jpeg};
pub use limits::Limits;
pub use png_out::{encode_png, encode_png16, raster_to_png};
pub use text::{PngText, png_text};

#[cfg(test)]
mod tests;
