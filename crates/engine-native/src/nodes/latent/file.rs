//! Latents into files, and out of them.

use serde_json::json;
use workflow_core::{FileSource, NodeDefinition, OutputKind};

use super::super::save::Prefix;
use super::{given, latent, one};
use crate::define::{core, file_input, hands_on, metadata, output, string_input};
use crate::latent::{read, written};
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput, OutputFile};

/// A latent into a file, with the graph that made it.
#[derive(Clone, Copy, Debug)]
pub struct SaveLatent;

impl Node for SaveLatent {
    fn definition(&self) -> NodeDefinition {
        hands_on(
            NodeDefinition {
                inputs: vec![
                    latent("samples"),
                    string_input("filename_prefix", json!({"default": "latents/ComfyUI"})),
                ],
                hidden: metadata(),
                output_node: true,
                ..core("SaveLatent", "nodes", "_for_testing", json!({}))
            },
            "LATENT",
            "samples",
        )
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let latent = given(&inputs, "samples")?;
        let prefix = Prefix::of(inputs.text("filename_prefix")?, 0, 0)?;
        let bytes = written(latent, &context.metadata(), context)?;
        context.emit(OutputFile {
            kind: OutputKind::Latent,
            temp: false,
            name: prefix.whole_batch("latent"),
            content_type: "application/octet-stream",
            bytes: bytes.into(),
            shown_under: Some("latents"),
        })?;
        Ok(inputs.value("samples")?.into())
    }
}

/// The latent of a file.
#[derive(Clone, Copy, Debug)]
pub struct LoadLatent;

impl Node for LoadLatent {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![file_input("latent", FileSource::Input, true, json!({}))],
            outputs: vec![output("LATENT")],
            ..core("LoadLatent", "nodes", "_for_testing", json!({}))
        }
    }

    fn run(&self, inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let file = inputs.file("latent")?;
        context.reserve(file.size_bytes())?;
        Ok(one(read(&file.read()?, context)?))
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        Ok(Changed::Key(constants.file("latent")?.sha256()?.into()))
    }
}
