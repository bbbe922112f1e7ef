//! The colours of one picture given to another.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{
    dynamic_combo, float_input, int_input, latest, link, modern_combo, named, named_output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::kernel::transfer::{Source, Transfer, transferred};

/// A picture with the colours of another.
#[derive(Clone, Copy, Debug)]
pub struct ColorTransfer;

impl Node for ColorTransfer {
    fn definition(&self) -> NodeDefinition {
        let index = int_input(
            "target_index",
            json!({"default": 0, "min": 0, "max": 10000}),
        );
        let sources = vec![
            ("per_frame", vec![]),
            ("uniform", vec![]),
            ("target_frame", vec![index]),
        ];
        NodeDefinition {
            display_name: named("Transfer Color"),
            inputs: vec![
                link("image_target", "IMAGE"),
                link("image_ref", "IMAGE"),
                modern_combo(
                    "method",
                    &["reinhard_lab", "mkl_lab", "histogram"],
                    json!({}),
                ),
                dynamic_combo("source_stats", sources, json!({})),
                float_input(
                    "strength",
                    json!({"default": 1.0, "min": 0.0, "max": 10.0, "step": 0.01}),
                ),
            ],
            outputs: vec![named_output("IMAGE", "image")],
            ..latest(
                "ColorTransfer",
                "comfy_extras.nodes_post_processing",
                "image/filters",
                json!({"search_aliases": ["color match", "color grading", "color correction", "match colors", "color transform", "mkl", "reinhard", "histogram"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (target, reference) = (inputs.image("image_target")?, inputs.image("image_ref")?);
        let strength = inputs.float("strength")?;
        if strength == 0.0 {
            return Ok(target.into());
        }
        let transfer = inputs.choice("method", |word| match word {
            "reinhard_lab" => Some(Transfer::Reinhard),
            "mkl_lab" => Some(Transfer::MongeKantorovich),
            "histogram" => Some(Transfer::Histogram),
            _ => None,
        })?;
        let source = match inputs.text("source_stats")? {
            "uniform" => Source::Uniform,
            "target_frame" => Source::Frame(inputs.int("source_stats.target_index")?),
            _ => Source::PerFrame,
        };
        let frame = target.first().size_bytes() as u64;
        context.reserve(frame.saturating_mul(target.frames().len() as u64))?;
        let check = || context.check();
        let made = transferred(
            &target,
            &reference,
            transfer,
            source,
            strength as f32,
            check,
        );
        made.map(NodeOutput::from)
    }
}
