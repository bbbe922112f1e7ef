//! Pictures and masks brought to a size that is told in one of many ways.

use serde_json::json;
use workflow_core::{MATCH_TYPE, NodeDefinition};

use super::scale::method;
use crate::define::{
    dynamic_combo, float_input, int_input, latest, link, matched, modern_combo, named,
    named_output, output,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};
use images::kernel::channel::{self, Channel};
use images::kernel::scale::{self, Crop, Method};
use images::kernel::{output_bytes, transform};
use images::{Image, Mask};

/// A picture or a mask in another size.
#[derive(Clone, Copy, Debug)]
pub struct ResizeImageMaskNode;

impl Node for ResizeImageMaskNode {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Resize Image/Mask"),
            inputs: vec![
                matched("input", "input_type", "IMAGE,MASK"),
                dynamic_combo(
                    "resize_type",
                    vec![
                        (
                            "scale dimensions",
                            vec![
                                int_input(
                                    "width",
                                    json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                                ),
                                int_input(
                                    "height",
                                    json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                                ),
                                modern_combo(
                                    "crop",
                                    &["disabled", "center"],
                                    json!({"default": "center"}),
                                ),
                            ],
                        ),
                        (
                            "scale by multiplier",
                            vec![float_input(
                                "multiplier",
                                json!({"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01}),
                            )],
                        ),
                        (
                            "scale longer dimension",
                            vec![int_input(
                                "longer_size",
                                json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                            )],
                        ),
                        (
                            "scale shorter dimension",
                            vec![int_input(
                                "shorter_size",
                                json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                            )],
                        ),
                        (
                            "scale width",
                            vec![int_input(
                                "width",
                                json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                            )],
                        ),
                        (
                            "scale height",
                            vec![int_input(
                                "height",
                                json!({"default": 512, "min": 0, "max": 16384, "step": 1}),
                            )],
                        ),
                        (
                            "scale total pixels",
                            vec![float_input(
                                "megapixels",
                                json!({"default": 1.0, "min": 0.01, "max": 16.0, "step": 0.01}),
                            )],
                        ),
                        (
                            "match size",
                            vec![
                                link("match", "IMAGE,MASK"),
                                modern_combo(
                                    "crop",
                                    &["disabled", "center"],
                                    json!({"default": "center"}),
                                ),
                            ],
                        ),
                        (
                            "scale to multiple",
                            vec![int_input(
                                "multiple",
                                json!({"default": 8, "min": 1, "max": 16384, "step": 1}),
                            )],
                        ),
                    ],
                    json!({}),
                ),
                modern_combo(
                    "scale_method",
                    &["nearest-exact", "bilinear", "area", "bicubic", "lanczos"],
                    json!({"default": "area"}),
                ),
            ],
            outputs: vec![named_output(MATCH_TYPE, "resized")],
            ..latest(
                "ResizeImageMaskNode",
                "comfy_extras.nodes_post_processing",
                "image/transform",
                json!({"output_matchtypes": ["input_type"], "search_aliases": ["resize", "resize image", "resize mask", "scale", "scale image", "scale mask", "image resize", "change size", "dimensions", "shrink", "enlarge"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (image, is_mask) = pictures(inputs.value("input")?)?;
        let method = inputs.choice("scale_method", method)?;
        let (width, height) = (image.first().width(), image.first().height());
        let chosen = inputs.text("resize_type")?.to_owned();
        let number = |name: &str| inputs.int::<usize>(&format!("resize_type.{name}"));
        let factor = |name: &str| inputs.float(&format!("resize_type.{name}"));
        let mut crop = Crop::Disabled;
        let size = match chosen.as_str() {
            "scale dimensions" => {
                crop = cropping(&inputs)?;
                scale::scaled_to(width, height, number("width")?, number("height")?)
            }
            "scale by multiplier" => Some(scale::scaled_by(width, height, factor("multiplier")?)?),
            "scale longer dimension" => {
                Some(scale::max_dimension(width, height, number("longer_size")?)?)
            }
            "scale shorter dimension" => Some(scale::min_dimension(
                width,
                height,
                number("shorter_size")?,
            )?),
            "scale width" => scale::scaled_to(width, height, number("width")?, 0),
            "scale height" => scale::scaled_to(width, height, 0, number("height")?),
            "scale total pixels" => {
                Some(scale::total_pixels(width, height, factor("megapixels")?)?)
            }
            "match size" => {
                crop = cropping(&inputs)?;
                let (like, _) = pictures(inputs.value("resize_type.match")?)?;
                Some((like.first().width(), like.first().height()))
            }
            "scale to multiple" => {
                let covered = covered(image, number("multiple")?, method, context)?;
                return given(covered, is_mask);
            }
            other => {
                return Err(NodeError::value(format!(
                    "there is no resize type {other:?}; choose one of the list"
                )));
            }
        };
        let image = match size {
            Some(size) => scaled(image, size, method, crop, context)?,
            None => image,
        };
        given(image, is_mask)
    }
}

/// A picture in the size nearest to its shape that the Kontext models were made for.
#[derive(Clone, Copy, Debug)]
pub struct FluxKontextImageScale;

/// The narrower half of the sizes; the others are the same, turned.
const KONTEXT_SIZES: [(usize, usize); 9] = [
    (672, 1568),
    (688, 1504),
    (720, 1456),
    (752, 1392),
    (800, 1328),
    (832, 1248),
    (880, 1184),
    (944, 1104),
    (1024, 1024),
];

impl Node for FluxKontextImageScale {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            inputs: vec![link("image", "IMAGE")],
            outputs: vec![output("IMAGE")],
            ..latest(
                "FluxKontextImageScale",
                "comfy_extras.nodes_flux",
                "model/conditioning/flux",
                json!({}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let ratio = image.first().width() as f64 / image.first().height() as f64;
        let turned = KONTEXT_SIZES.iter().map(|&(width, height)| (height, width));
        let sizes = KONTEXT_SIZES.iter().copied().chain(turned);
        let distance =
            |(width, height): (usize, usize)| (ratio - width as f64 / height as f64).abs();
        // Of two that are as near, the smaller one is taken.
        let nearest = sizes.min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then(a.cmp(b)));
        let size = nearest.unwrap_or((1024, 1024));
        Ok(scaled(image, size, Method::Lanczos, Crop::Center, context)?.into())
    }
}

fn cropping(inputs: &Inputs) -> Result<Crop, NodeError> {
    inputs.choice("resize_type.crop", |word| match word {
        "disabled" => Some(Crop::Disabled),
        "center" => Some(Crop::Center),
        _ => None,
    })
}

/// Pictures, or masks as pictures of one channel.
pub(super) fn pictures(value: Value) -> Result<(Image, bool), NodeError> {
    match value {
        Value::Image(image) => Ok((image, false)),
        Value::Mask(mask) => Ok((Image::new(mask.into_frames())?, true)),
        Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Boolean(_)
        | Value::Json(_)
        | Value::File(_)
        | Value::Opaque(_)
        | Value::Blocker(_) => Err(NodeError::new(
            "TypeError",
            format!(
                "{} is neither a picture nor a mask; link one of the two",
                value.io_type()
            ),
        )),
    }
}

/// What came as a mask goes as one.
pub(super) fn given(image: Image, is_mask: bool) -> Result<NodeOutput, NodeError> {
    Ok(match is_mask {
        true => Mask::new(image.into_frames())?.into(),
        false => image.into(),
    })
}

fn scaled(
    image: Image,
    (width, height): (usize, usize),
    method: Method,
    crop: Crop,
    context: &NodeContext,
) -> Result<Image, NodeError> {
    let channels = image.first().channels();
    context.reserve(output_bytes(image.distinct(), height, width, channels))?;
    if method == Method::Lanczos && channels == 1 {
        // Grey pictures are resized like each colour of others.
        let mask = Mask::new(image.into_frames())?;
        let colors = channel::mask_to_image(mask)?;
        context.reserve(output_bytes(colors.distinct(), height, width, 2 * 3))?;
        let colors = scale::common_upscale(colors, width, height, method, crop)?;
        let grey = channel::image_to_mask(colors, Channel::Red)?;
        return Ok(Image::new(grey.into_frames())?);
    }
    Ok(scale::common_upscale(image, width, height, method, crop)?)
}

/// The picture scaled until it covers the greatest size whose sides are multiples, and cut to that evenly.
fn covered(
    image: Image,
    multiple: usize,
    method: Method,
    context: &NodeContext,
) -> Result<Image, NodeError> {
    let (width, height) = (image.first().width(), image.first().height());
    let down = |side: usize| side / multiple.max(1) * multiple.max(1);
    let (to_width, to_height) = (down(width), down(height));
    if multiple <= 1 || to_width == 0 || to_height == 0 || (to_width, to_height) == (width, height)
    {
        return Ok(image);
    }
    let (wider, higher) = (
        to_width as f64 / width as f64,
        to_height as f64 / height as f64,
    );
    let up = |side: usize, factor: f64, least: usize| {
        ((side as f64 * factor).ceil() as usize).max(least)
    };
    let size = match wider >= higher {
        true => (to_width, up(height, wider, to_height)),
        false => (up(width, higher, to_width), to_height),
    };
    let image = scaled(image, size, method, Crop::Disabled, context)?;
    let (x, y) = ((size.0 - to_width) / 2, (size.1 - to_height) / 2);
    Ok(transform::crop(image, to_width, to_height, x, y)?)
}
