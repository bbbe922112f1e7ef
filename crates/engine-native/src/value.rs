//! Values that travel along the links of a graph.

pub mod pixels;

pub use pixels::{Frame, Image, Mask, ShapeError};
