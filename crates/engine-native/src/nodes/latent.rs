//! Latents without a model: made empty, put together, taken apart, resized, saved and loaded.
//!
//! The classes of one family differ in a line each, so each is a definition and a function instead of a type of its own.

mod arithmetic;
mod arrange;
mod batch;
mod composite;
mod empty;
mod file;
mod operation;

use std::sync::Arc;

use workflow_core::{InputDefinition, NodeDefinition};

use crate::define::{link, output};
use crate::latent::Latent;
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};
pub use file::{LoadLatent, SaveLatent};

/// A class: what it takes and gives, and how.
struct LatentClass {
    definition: fn() -> NodeDefinition,
    run: fn(&mut Inputs, &NodeContext) -> Result<NodeOutput, NodeError>,
}

impl Node for LatentClass {
    fn definition(&self) -> NodeDefinition {
        (self.definition)()
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        (self.run)(&mut inputs, context)
    }
}

/// Every class of latents, in the order in which clients see them.
pub(super) fn classes() -> Vec<Arc<dyn Node>> {
    let families = [
        arithmetic::CLASSES,
        arrange::CLASSES,
        batch::CLASSES,
        composite::CLASSES,
        operation::CLASSES,
    ];
    let functions = families.into_iter().flatten();
    let functions = functions
        .map(|&(definition, run)| -> Arc<dyn Node> { Arc::new(LatentClass { definition, run }) });
    let mut classes = empty::classes();
    classes.extend(functions);
    classes.push(Arc::new(SaveLatent));
    classes.push(Arc::new(LoadLatent));
    classes
}

/// A definition and a function, as the families list them.
type Class = (
    fn() -> NodeDefinition,
    fn(&mut Inputs, &NodeContext) -> Result<NodeOutput, NodeError>,
);

/// A class that gives a latent.
fn gives_latent(definition: NodeDefinition, inputs: Vec<InputDefinition>) -> NodeDefinition {
    NodeDefinition {
        inputs,
        outputs: vec![output("LATENT")],
        ..definition
    }
}

/// An input of a latent.
fn latent(name: &str) -> InputDefinition {
    link(name, "LATENT")
}

/// The latent of an input.
fn given<'a>(inputs: &'a Inputs, name: &str) -> Result<&'a Latent, NodeError> {
    inputs.opaque(name)
}

/// An output of one latent.
fn one(latent: Latent) -> NodeOutput {
    Value::from(latent).into()
}

/// Says that only latents of pictures and videos have what a class works on.
fn needs_area(latent: &Latent) -> Result<(), NodeError> {
    match latent.samples.sides() {
        0..4 => Err(NodeError::value(
            "this works on latents of pictures and videos; the latent of a sound has no width and height",
        )),
        _ => Ok(()),
    }
}
