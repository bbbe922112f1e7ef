//! Pictures of one colour space in another.

use serde_json::json;
use workflow_core::NodeDefinition;

use super::class::Class;
use crate::define::{latest, link, modern_combo, named, output};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::space::{Space, converted};

/// The classes of this family.
pub(super) const CLASSES: &[Class] = &[(definition, run)];

fn definition() -> NodeDefinition {
    let space = |name: &str| {
        let spaces = ["sRGB", "HDR", "HDR PQ"];
        modern_combo(name, &spaces, json!({"default": "sRGB"}))
    };
    NodeDefinition {
        display_name: named("Convert Image Color Space"),
        description: "Convert sRGB (Rec.709), HDR (Rec.2020 HLG), and HDR PQ (Rec.2020 PQ)."
            .to_owned(),
        inputs: vec![
            link("image", "IMAGE"),
            space("source"),
            space("destination"),
        ],
        outputs: vec![output("IMAGE")],
        ..latest(
            "ImageColorSpace",
            "comfy_extras.nodes_images",
            "image/color",
            json!({}),
        )
    }
}

fn run(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let space = |name: &str| {
        inputs.choice(name, |word| match word {
            "sRGB" => Some(Space::Srgb),
            "HDR" => Some(Space::Hlg),
            "HDR PQ" => Some(Space::Pq),
            _ => None,
        })
    };
    let (source, destination) = (space("source")?, space("destination")?);
    let image = inputs.image("image")?;
    let frame = image.first().size_bytes() as u64;
    context.reserve(frame.saturating_mul(image.frames().len() as u64))?;
    let made = converted(image, source, destination, || context.check());
    made.map(NodeOutput::from)
}
