//! Image nodes executed in this process.

pub mod codec;
pub mod kernel;
pub mod value;
