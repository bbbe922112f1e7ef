//! Pure pixel operations, one file per family; nodes are thin wrappers over them.
//!
//! A kernel takes its pictures by value and works in place where it is their only owner. It never fails on a shape or parameter
//! that the node definitions allow, except with a [`KernelError`] that tells its caller's user what to change, and it allocates
//! no more than its result and a scratch of a few rows or one frame. Nothing depends on the number of threads.

pub mod batch;
pub mod blend;
pub mod blur;
pub mod canny;
pub mod channel;
pub mod composite;
pub mod corrected;
mod error;
mod extremes;
mod frames;
pub mod grid;
pub mod layers;
pub mod mask;
pub mod morphology;
pub mod noise;
pub mod pad;
pub mod point;
pub mod prepare;
pub mod quantize;
mod rows;
pub mod scale;
pub mod solid;
pub mod space;
pub mod stitch;
pub mod subject;
pub mod tile;
pub mod transfer;
pub mod transform;
pub mod yuv;

pub use error::KernelError;
pub use frames::{MAX_BATCH_FRAMES, MAX_FRAME_SAMPLES, output_bytes};

#[cfg(test)]
mod tests;
