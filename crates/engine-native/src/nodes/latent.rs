//! Latents without a model: made empty, put together, taken apart, resized, saved and loaded.

mod arithmetic;
mod arrange;
mod av;
mod batch;
mod composite;
mod empty;
mod file;
mod frames;
mod operation;
mod space;

use std::sync::Arc;

use workflow_core::{InputDefinition, NodeDefinition};

use super::class::{self, Class};
use crate::define::{link, output};
use crate::latent::Latent;
use crate::{Inputs, Node, NodeError, NodeOutput, Value};
pub use file::{LoadLatent, SaveLatent};

/// Every class of latents, in the order in which clients see them.
pub(super) fn classes() -> Vec<Arc<dyn Node>> {
    let mut classes = empty::classes();
    classes.extend(class::classes(&[
        arithmetic::CLASSES,
        arrange::CLASSES,
        batch::CLASSES,
        composite::CLASSES,
        operation::CLASSES,
        av::CLASSES,
        frames::CLASSES,
        space::CLASSES,
    ]));
    classes.push(Arc::new(SaveLatent));
    classes.push(Arc::new(LoadLatent));
    classes
}

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
    match inputs.opaque::<av::AvLatent>(name) {
        Ok(_) => Err(NodeError::value(
            "this works on the latent of a video or of a sound, and both came as one; take them apart with \
             LTXVSeparateAVLatent",
        )),
        Err(_) => inputs.opaque(name),
    }
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
