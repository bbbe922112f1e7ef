//! Image nodes executed in this process: a [`workflow_core::Engine`] with its own threads, values, cache and codecs; and
//! [`workflow_core::ImageTools`] on the same codecs.
//!
//! Knows nothing of jobs' rows, accounts' rights or any wire format: it takes a valid graph, reads files by hash and hands
//! everything it makes to the run's sink. Start at [`NativeEngine`], then at [`Node`] for a class of your own.
//!
//! # A class of your own
//!
//! ```
//! use engine_native::define::{classic, float_input, link, output};
//! use engine_native::{Inputs, Node, NodeContext, NodeError, NodeOutput};
//! use serde_json::json;
//! use workflow_core::NodeDefinition;
//!
//! /// Multiplies every sample of a picture.
//! struct Gain;
//!
//! impl Node for Gain {
//!     fn definition(&self) -> NodeDefinition {
//!         NodeDefinition {
//!             inputs: vec![
//!                 link("image", "IMAGE"),
//!                 float_input("gain", json!({"default": 1.0, "min": 0.0, "max": 8.0})),
//!             ],
//!             outputs: vec![output("IMAGE")],
//!             ..classic("Gain", "my_nodes", "image/custom")
//!         }
//!     }
//!
//!     fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
//!         let gain = inputs.float("gain")? as f32;
//!         let image = inputs.image("image")?;
//!         context.reserve(image.frames().iter().map(|frame| frame.size_bytes() as u64).sum())?;
//!         let image = image.map(|mut frame| {
//!             // In place where nobody else holds the frame, on a copy otherwise.
//!             std::sync::Arc::make_mut(&mut frame).data_mut().iter_mut().for_each(|sample| *sample *= gain);
//!             frame
//!         })?;
//!         Ok(image.into())
//!     }
//! }
//!
//! let mut nodes = engine_native::nodes::all();
//! nodes.push(std::sync::Arc::new(Gain));
//! ```

pub mod define;
pub mod nodes;
pub mod value;

mod engine;
mod node;
mod python_json;
mod tools;

/// The pictures that values hold, so that a class of one's own needs no dependency besides this one.
pub use images;

pub use engine::{Downloads, EngineConfig, NativeEngine, Overdue};
pub use node::{
    Changed, ExpandedInput, ExpandedNode, Expansion, FileInput, Inputs, Node, NodeContext,
    NodeError, NodeOutput, OutputFile, Slot, Wait,
};
pub use tools::{NativeTools, ToolsConfig};
pub use value::Value;
