//! Image nodes executed in this process: a [`workflow_core::Engine`] with its own threads, values, cache and codecs; and
//! [`workflow_core::ImageTools`] on the same codecs.
//!
//! Knows nothing of jobs' rows, accounts' rights or any wire format: it takes a valid graph, reads files by hash and hands
//! everything it makes to the run's sink. Start at [`NativeEngine`], then at [`Node`] for a class of your own.
#![doc = include_str!("../README.md")]

pub mod define;
pub mod nodes;
pub mod value;

mod engine;
mod latent;
mod node;
mod numpy_random;
mod program;
mod python_json;
mod shader;
mod sound;
mod tools;

/// The pictures that values hold, so that a class of one's own needs no dependency besides this one.
pub use images;

pub use engine::{Downloads, EngineConfig, NativeEngine, Overdue};
pub use latent::{Latent, Tensor};
pub use node::{
    Changed, ExpandedInput, ExpandedNode, Expansion, FileInput, Inputs, Node, NodeContext,
    NodeError, NodeOutput, OutputFile, Slot, Wait,
};
pub use sound::Sound;
pub use tools::{NativeTools, ToolsConfig};
pub use value::Value;

/// What the fuzzer calls of what is private otherwise.
#[cfg(fuzzing)]
pub mod fuzzing {
    /// Compiles and runs a shader: see `shader::fuzzing`.
    pub fn shader(bytes: &[u8]) {
        crate::shader::fuzzing::shader(bytes);
    }
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    reason = "shared with tests that read seeds from files, and that may stop"
)]
#[path = "../../../tests/fuzz/entries/changed.rs"]
mod fuzzed;
