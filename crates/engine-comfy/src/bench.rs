//! What `cargo xtask bench comfy` measures beside a server: choices among many workers, and a client that speaks to a worker itself.

mod choices;
mod direct;

pub use choices::Choices;
pub use direct::{Direct, DirectError};
