//! What a real server recorded, replayed on the kernels.

mod goldens;
mod vectors;
mod workflows;
