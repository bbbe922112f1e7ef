//! What a real server recorded, replayed on the kernels, and what no recording has: every shape and parameter.

mod goldens;
mod shapes;
mod vectors;
mod workflows;
