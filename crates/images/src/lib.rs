//! Pictures as image workflows see them: pixels as floats, codecs equal to Pillow's, kernels equal to those of PyTorch and
//! Pillow.
//!
//! Knows no node, no job and no file: bytes go in, pictures come out, and the other way round. Start at [`codec::decode`] and
//! [`codec::encode_png`], then at the families in [`kernel`].
#![doc = include_str!("../README.md")]

pub mod codec;
pub mod kernel;
pub mod parallel;

mod pixels;
mod vector;

pub use pixels::{Frame, Image, Mask, ShapeError, release_spare_memory};
