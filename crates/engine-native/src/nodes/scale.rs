//! Pictures in another size.

use serde_json::json;
use workflow_core::NodeDefinition;

use crate::define::{
    classic, float_input, int_input, link, listed_combo, modern, modern_combo, named, newer,
    optional, output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::Image;
use images::kernel::output_bytes;
use images::kernel::scale::{self, Crop, Method};

/// A picture in a given size; a side of 0 follows the other.
#[derive(Clone, Copy, Debug)]
pub struct ImageScale;

impl Node for ImageScale {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Upscale Image"),
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo(
                    "upscale_method",
                    &["nearest-exact", "bilinear", "area", "bicubic", "lanczos"],
                    json!({}),
                ),
                int_input(
                    "width",
                    json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                ),
                int_input(
                    "height",
                    json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                ),
                listed_combo("crop", &["disabled", "center"], json!({})),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageScale", "nodes", "image/upscaling")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let crop = inputs.choice("crop", |word| match word {
            "disabled" => Some(Crop::Disabled),
            "center" => Some(Crop::Center),
            _ => None,
        })?;
        let (width, height) = (image.first().width(), image.first().height());
        match scale::scaled_to(width, height, inputs.int("width")?, inputs.int("height")?) {
            None => Ok(image.into()),
            Some(size) => scaled(image, size, &inputs, crop, context),
        }
    }
}

/// A picture so many times as large.
#[derive(Clone, Copy, Debug)]
pub struct ImageScaleBy;

impl Node for ImageScaleBy {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Upscale Image By"),
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo(
                    "upscale_method",
                    &["nearest-exact", "bilinear", "area", "bicubic", "lanczos"],
                    json!({}),
                ),
                float_input(
                    "scale_by",
                    json!({"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic("ImageScaleBy", "nodes", "image/upscaling")
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let size = scale::scaled_by(
            image.first().width(),
            image.first().height(),
            inputs.float("scale_by")?,
        )?;
        scaled(image, size, &inputs, Crop::Disabled, context)
    }
}

/// A picture of so many megapixels.
#[derive(Clone, Copy, Debug)]
pub struct ImageScaleToTotalPixels;

impl Node for ImageScaleToTotalPixels {
    fn definition(&self) -> NodeDefinition {
        let shown = NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                modern_combo(
                    "upscale_method",
                    &["nearest-exact", "bilinear", "area", "bicubic", "lanczos"],
                    json!({}),
                ),
                float_input(
                    "megapixels",
                    json!({"default": 1.0, "min": 0.01, "max": 16.0, "step": 0.01}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..modern(
                "ImageScaleToTotalPixels",
                "comfy_extras.nodes_post_processing",
                "image/upscaling",
            )
        };
        newer(shown, |definition| {
            let steps = json!({"default": 1, "min": 1, "max": 256});
            let steps = optional(int_input("resolution_steps", steps));
            definition.inputs.push(steps);
        })
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let (width, height) = (image.first().width(), image.first().height());
        let megapixels = inputs.float("megapixels")?;
        let steps = match inputs.has("resolution_steps") {
            true => inputs.int("resolution_steps")?,
            false => 1,
        };
        let size = match steps {
            1 => scale::total_pixels(width, height, megapixels)?,
            steps => in_steps((width, height), megapixels, steps)?,
        };
        scaled(image, size, &inputs, Crop::Disabled, context)
    }
}

/// The size of so many megapixels with sides that are multiples of `steps`.
fn in_steps(
    (width, height): (usize, usize),
    megapixels: f64,
    steps: usize,
) -> Result<(usize, usize), NodeError> {
    let factor = (megapixels * 1024.0 * 1024.0 / (width as f64 * height as f64)).sqrt();
    let side = |side: usize| {
        let count = (side as f64 * factor / steps as f64).round_ties_even() as usize;
        count.saturating_mul(steps)
    };
    match (side(width), side(height)) {
        (0, _) | (_, 0) => Err(NodeError::value(format!(
            "a side of the picture would be shorter than half a step of {steps} pixels; use smaller steps or more megapixels"
        ))),
        size => Ok(size),
    }
}

/// A picture whose longer side is so long.
#[derive(Clone, Copy, Debug)]
pub struct ImageScaleToMaxDimension;

impl Node for ImageScaleToMaxDimension {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![
                link("image", "IMAGE"),
                listed_combo(
                    "upscale_method",
                    &[
                        "area",
                        "lanczos",
                        "bilinear",
                        "nearest-exact",
                        "bilinear",
                        "bicubic",
                    ],
                    json!({}),
                ),
                int_input(
                    "largest_size",
                    json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..classic(
                "ImageScaleToMaxDimension",
                "comfy_extras.nodes_images",
                "image/upscaling",
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let size = scale::max_dimension(
            image.first().width(),
            image.first().height(),
            inputs.int("largest_size")?,
        )?;
        scaled(image, size, &inputs, Crop::Disabled, context)
    }
}

/// The methods by the names that graphs use.
pub(super) fn method(word: &str) -> Option<Method> {
    match word {
        "nearest-exact" => Some(Method::NearestExact),
        "bilinear" => Some(Method::Bilinear),
        "area" => Some(Method::Area),
        "bicubic" => Some(Method::Bicubic),
        "lanczos" => Some(Method::Lanczos),
        _ => None,
    }
}

fn scaled(
    image: Image,
    (width, height): (usize, usize),
    inputs: &Inputs,
    crop: Crop,
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let method = inputs.choice("upscale_method", method)?;
    context.reserve(output_bytes(
        image.distinct(),
        height,
        width,
        image.first().channels(),
    ))?;
    Ok(scale::common_upscale(image, width, height, method, crop)?.into())
}

#[cfg(test)]
mod tests {
    use super::in_steps;

    #[test]
    fn more_pixels_than_there_are_numbers_are_the_largest_number() {
        let size = in_steps((8, 8), f64::INFINITY, 3);
        assert_eq!(size, Ok((usize::MAX, usize::MAX)));
    }
}
