//! Pictures and masks as particular models want them, and what is made of what they give.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::class::Class;
use crate::define::{int_input, latest, link, modern_combo, named, named_output, output};
use crate::{Inputs, NodeContext, NodeError, NodeOutput};
use images::kernel::corrected::{Correction, corrected};
use images::kernel::prepare::{self, Prediction};
use images::kernel::{output_bytes, scale};
use images::{Image, Mask};

pub(super) const CLASSES: &[Class] = &[
    (padded_definition, padded),
    (corrected_definition, correct),
    (quadmask_definition, quadmask),
    (subject_definition, subject),
    (prediction_definition, prediction),
];

fn explained(name: &str, io_type: &str, tooltip: &str) -> InputDefinition {
    let mut input = link(name, io_type);
    input.options.insert("tooltip".to_owned(), tooltip.into());
    input
}

fn one_output(output: OutputDefinition, tooltip: &str) -> Vec<OutputDefinition> {
    vec![OutputDefinition {
        tooltip: named(tooltip),
        ..output
    }]
}

fn seedvr(class: &str, name: &str, category: &str, aliases: &Json) -> NodeDefinition {
    NodeDefinition {
        display_name: named(name),
        ..latest(
            class,
            "comfy_extras.nodes_seedvr",
            category,
            json!({"search_aliases": aliases}),
        )
    }
}

fn padded_definition() -> NodeDefinition {
    let aliases = json!(["seedvr2", "upscale", "video upscale", "pad", "preprocess"]);
    NodeDefinition {
        description: "Pad a resized image for SeedVR2 model. Alpha channel is dropped. The node Post-Process SeedVR2 Output re-applies it from the original resized image.".to_owned(),
        inputs: vec![explained("resized_images", "IMAGE", "The resized image to process.")],
        outputs: one_output(
            named_output("IMAGE", "images"),
            "The padded image for VAE encoding.",
        ),
        ..seedvr(
            "SeedVR2Preprocess",
            "Pre-Process SeedVR2 Input",
            "image/pre-processors",
            &aliases,
        )
    }
}

/// Frames that the model takes, after the first, are multiples of this.
const GROUP: usize = 4;

/// Pixels of a side that the model takes are multiples of this.
const STEP: usize = 16;

fn padded(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let image = inputs.image("resized_images")?;
    let (height, width, _) = image.first().shape();
    let shorter = height.min(width);
    if shorter < 2 {
        return Err(NodeError::value(format!(
            "the shorter side of the pictures must have 2 pixels or more; it has {shorter}"
        )));
    }
    let (tall, wide) = (height.next_multiple_of(STEP), width.next_multiple_of(STEP));
    let count = image.frames().len();
    context.reserve(output_bytes(image.distinct(), tall, wide, 3))?;
    let image = prepare::padded(image, wide, tall)?;
    // A single picture stays one; a video ends with its last frame as often as it needs.
    let total = match count {
        1 => 1,
        2..=GROUP => GROUP + 1,
        _ => (count - 1).next_multiple_of(GROUP) + 1,
    };
    let mut frames = image.into_frames();
    let last = Arc::clone(&frames[count - 1]);
    frames.resize(total, last);
    Ok(Image::new(frames)?.into())
}

fn corrected_definition() -> NodeDefinition {
    let aliases = json!([
        "seedvr2",
        "upscale",
        "color correction",
        "color match",
        "postprocess"
    ]);
    let method = json!({
        "tooltip": "Method to match the generated image colors to the original image. lab: transfer color in CIELAB space, preserving detail (most faithful). wavelet: transfer low-frequency color, keeping upscaled high-frequency detail. adain: match per-channel mean/std (fastest, global tint). none: skip color transfer (geometry alignment only).",
        "default": "lab",
    });
    NodeDefinition {
        description:
            "Align the generated image with the original resized image and apply color correction."
                .to_owned(),
        inputs: vec![
            explained("images", "IMAGE", "The generated image to process."),
            explained(
                "original_resized_images",
                "IMAGE",
                "The original resized image before pre-processing, used as reference.",
            ),
            modern_combo(
                "color_correction_method",
                &["lab", "wavelet", "adain", "none"],
                method,
            ),
        ],
        outputs: one_output(
            named_output("IMAGE", "images"),
            "The aligned, color-corrected image.",
        ),
        ..seedvr(
            "SeedVR2PostProcessing",
            "Post-Process SeedVR2 Output",
            "image/post-processors",
            &aliases,
        )
    }
}

fn correct(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (image, reference) = (
        inputs.image("images")?,
        inputs.image("original_resized_images")?,
    );
    let correction = inputs.choice("color_correction_method", |word| match word {
        "lab" => Some(Correction::Lab),
        "wavelet" => Some(Correction::Wavelet),
        "adain" => Some(Correction::Spread),
        "none" => Some(Correction::None),
        _ => None,
    })?;
    let (height, width, channels) = image.first().shape();
    let count = image.frames().len().min(reference.frames().len());
    // The result, and what a picture is taken apart into on the way.
    context.reserve(output_bytes(count, height, width, channels + 1))?;
    context.reserve(output_bytes(1, height, width, Correction::CHANNELS))?;
    let (height, width, _) = reference.first().shape();
    context.reserve(output_bytes(1, height, width, 2 * 3))?;
    let check = || context.check();
    corrected(&image, &reference, correction, check).map(NodeOutput::from)
}

fn quadmask_definition() -> NodeDefinition {
    let dilation = json!({
        "tooltip": "Dilation radius for the primary mask region (0 = no dilation)",
        "default": 0, "min": 0, "max": 50, "step": 1,
    });
    NodeDefinition {
        display_name: named("VOID Quadmask Preprocessor"),
        inputs: vec![link("mask", "MASK"), int_input("dilate_width", dilation)],
        outputs: vec![named_output("MASK", "quadmask")],
        ..latest(
            "VOIDQuadmaskPreprocess",
            "comfy_extras.nodes_void",
            "image/mask",
            json!({}),
        )
    }
}

fn quadmask(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let mask = inputs.mask("mask")?;
    let radius = inputs.count("dilate_width")?;
    let (height, width, _) = mask.first().shape();
    // Its levels and the result, and with a radius what is removed, before and after it grows between two steps.
    let planes = if radius == 0 { 2 } else { 4 };
    context.reserve(output_bytes(mask.distinct(), height, width, planes))?;
    Ok(prepare::quadmask(mask, radius)?.into())
}

fn subject_definition() -> NodeDefinition {
    let radius = json!({
        "tooltip": "Erode the alpha matte by this pixel radius before cropping (avoids border bleed).",
        "default": 1, "min": 0, "max": 16,
    });
    let size = json!({
        "tooltip": "Square image size. The model is trained at 1024; other sizes run but are off-distribution.",
        "default": 1024, "min": 256, "max": 4096, "step": 16,
    });
    NodeDefinition {
        display_name: named("TripoSplat Preprocess Image"),
        description:
            "Crop center each image to a square canvas on a black background and add padding."
                .to_owned(),
        inputs: vec![
            link("image", "IMAGE"),
            link("mask", "MASK"),
            int_input("erode_radius", radius),
            int_input("size", size),
        ],
        outputs: vec![named_output("IMAGE", "image")],
        ..latest(
            "TripoSplatPreprocessImage",
            "comfy_extras.nodes_triposplat",
            "model/conditioning/triposplat",
            json!({}),
        )
    }
}

fn subject(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (image, mask) = (inputs.image("image")?, inputs.mask("mask")?);
    let radius = inputs.count("erode_radius")?;
    let size = inputs.count("size")?;
    let size = (size / STEP * STEP).max(STEP);
    let (height, width, _) = image.first().shape();
    let count = image.frames().len();
    let masks = mask.frames().iter().cycle().take(count).cloned();
    let mut mask = Mask::new(masks.collect())?;
    if (mask.first().height(), mask.first().width()) != (height, width) {
        context.reserve(output_bytes(mask.distinct(), height, width, 1))?;
        mask = scale::resize_mask(mask, width, height)?;
    }
    let (tall, wide) = prepare::by_shorter_side(height, width, size);
    // Both are there in their own size and enlarged, with a mask beside them.
    context.reserve(output_bytes(1, height, width, 4))?;
    context.reserve(output_bytes(1, tall, wide, 4 + 4))?;
    context.reserve(output_bytes(count, size, size, 3))?;
    let mut largest = 0;
    let mut shown = Vec::with_capacity(count);
    for (frame, mask) in image.frames().iter().zip(mask.frames()) {
        context.check()?;
        let subject = prepare::subject(frame, mask, radius, size)?;
        let needed = output_bytes(1, subject.side(), subject.side(), 4);
        context.reserve(needed.saturating_sub(largest))?;
        largest = largest.max(needed);
        shown.push(subject.shown(size)?);
    }
    Ok(Image::new(shown)?.into())
}

fn prediction_definition() -> NodeDefinition {
    NodeDefinition {
        display_name: named("Marigold V2 Post-Process"),
        description: "Turns a decoded Marigold V2 prediction into an image: normalized depth with near as bright, unit surface normals, or sRGB albedo.".to_owned(),
        inputs: vec![
            link("image", "IMAGE"),
            modern_combo("prediction", &["depth", "normals", "albedo"], json!({})),
        ],
        outputs: vec![output("IMAGE")],
        ..latest(
            "MarigoldV2PostProcess",
            "comfy_extras.nodes_marigold",
            "image/geometry estimation",
            json!({}),
        )
    }
}

fn prediction(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let image = inputs.image("image")?;
    let prediction = inputs.choice("prediction", |word| match word {
        "depth" => Some(Prediction::Depth),
        "normals" => Some(Prediction::Normals),
        "albedo" => Some(Prediction::Albedo),
        _ => None,
    })?;
    let (height, width, channels) = image.first().shape();
    let planes = match prediction {
        // The depths, and a picture of them.
        Prediction::Depth => 1 + 3,
        Prediction::Normals | Prediction::Albedo => channels,
    };
    context.reserve(output_bytes(image.distinct(), height, width, planes))?;
    Ok(prepare::predicted(image, prediction)?.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use images::Frame;

    use super::*;
    use crate::Value;

    const SIDE: usize = 64;

    /// Planes of one sample a pixel that a class reserves.
    fn planes_of(class: &str, inputs: &[(&'static str, Value)]) -> usize {
        let node = crate::nodes::all().into_iter();
        let node = { node }.find(|node| node.definition().class == class);
        let node = node.expect("it is one of ours");
        let has_room = |planes: &usize| {
            let inputs = Inputs::new(node.definition(), inputs.iter().cloned());
            let context = NodeContext::of_budget(output_bytes(1, SIDE, SIDE, *planes));
            node.run(inputs, &context).is_ok()
        };
        (0..32).find(has_room).expect("32 planes are enough")
    }

    #[test]
    fn what_a_class_computes_with_is_reserved() {
        let frame = |channels| vec![Arc::new(Frame::filled(SIDE, SIDE, channels, 0.5))];
        let picture = || Value::from(Image::new(frame(3)).expect("one frame"));
        let text = |word: &str| Value::from_json(&json!(word));
        let number = |number: usize| Value::Int(number as i128);
        let mask = Value::from(Mask::new(frame(1)).expect("one frame"));
        for (radius, planes) in [(0, 2), (3, 4)] {
            let inputs = [("mask", mask.clone()), ("dilate_width", number(radius))];
            assert_eq!(planes_of("VOIDQuadmaskPreprocess", &inputs), planes);
        }
        for (word, planes) in [("depth", 1 + 3), ("normals", 3), ("albedo", 3)] {
            let inputs = [("image", picture()), ("prediction", text(word))];
            assert_eq!(planes_of("MarigoldV2PostProcess", &inputs), planes);
        }
        let boxes = json!({"x": 0, "y": 0, "width": 8, "height": 8});
        for (word, planes) in [("stretch", 3 + 3), ("pad", 3 + 3 + 3)] {
            let inputs = [
                ("image", picture()),
                ("bboxes", Value::from_json(&boxes)),
                ("output_width", number(SIDE)),
                ("output_height", number(SIDE)),
                ("padding", number(0)),
                ("keep_aspect", text(word)),
            ];
            assert_eq!(planes_of("CropByBBoxes", &inputs), planes);
        }
    }
}
