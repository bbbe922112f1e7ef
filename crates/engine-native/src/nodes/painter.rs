//! `Painter`: a picture that a user paints in the page.

use std::sync::Arc;

use serde_json::json;
use workflow_core::{FileSource, NodeDefinition};

use crate::define::{file_input, int_input, latest, link, named, optional, output, widget};
use crate::{Changed, Inputs, Node, NodeContext, NodeError, NodeOutput};
use images::codec;
use images::kernel::output_bytes;
use images::kernel::scale::{self, Crop, Method};
use images::{Frame, Image, Mask};

/// A painting over a picture or over one colour.
#[derive(Clone, Copy, Debug)]
pub struct Painter;

impl Node for Painter {
    fn definition(&self) -> NodeDefinition {
        let side = |name: &str| {
            int_input(
                name,
                json!({"hidden": true, "default": 512, "socketless": true, "min": 64, "max": 4096, "step": 64}),
            )
        };
        let mut image = optional(link("image", "IMAGE"));
        let tooltip = "Optional base image to paint over";
        image.options.insert("tooltip".to_owned(), tooltip.into());
        NodeDefinition {
            display_name: named("Painter"),
            inputs: vec![
                image,
                file_input(
                    "mask",
                    FileSource::Drawing,
                    false,
                    json!({"widgetType": "PAINTER", "image_upload": true, "default": "", "socketless": true, "multiline": false}),
                ),
                side("width"),
                side("height"),
                widget(
                    "bg_color",
                    "COLOR",
                    json!({"default": "#000000", "socketless": true}),
                ),
            ],
            outputs: vec![output("IMAGE"), output("MASK")],
            ..latest("Painter", "comfy_extras.nodes_painter", "image", json!({}))
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let base = match inputs.has("image") {
            true => Arc::clone(&inputs.image("image")?.frames()[0]),
            false => {
                let (width, height) = (inputs.int("width")?, inputs.int("height")?);
                context.reserve(output_bytes(1, height, width, 3))?;
                Arc::new(plain(width, height, inputs.text("bg_color")?)?)
            }
        };
        let (height, width, channels) = base.shape();
        // The painting in both sizes, the picture and the mask.
        context.reserve(output_bytes(1, height, width, 4 + 3 + 1))?;
        // The page sends an empty text if nothing was painted.
        let is_painted = match inputs.text("mask") {
            Ok(text) if text.trim().is_empty() => false,
            Ok(_) => {
                return Err(NodeError::value(
                    "the painting must be a file that is named in the node itself, not a text that is linked",
                ));
            }
            Err(_) => inputs.has("mask"),
        };
        if !is_painted {
            let mask = Arc::new(Frame::filled(height, width, 1, 0.0));
            let image = Image::new(vec![base]).map_err(images::kernel::KernelError::from)?;
            let mask = Mask::new(vec![mask]).map_err(images::kernel::KernelError::from)?;
            return Ok(NodeOutput::of([image.into(), mask.into()]));
        }
        if channels != 1 && channels != 3 {
            return Err(NodeError::value(format!(
                "the picture below a painting must have 3 channels, this one has {channels}; take its alpha off with \
                 SplitImageWithAlpha"
            )));
        }
        let painting = painting(&inputs, width, height, context)?;
        let mut colors = Vec::with_capacity(width * height * 3);
        let mut alphas = Vec::with_capacity(width * height);
        let below = base.data().chunks_exact(channels);
        for (painted, below) in painting.data().chunks_exact(4).zip(below) {
            let alpha = painted[3];
            for channel in 0..3 {
                let below = below[channel % channels];
                colors.push(painted[channel] * alpha + below * (1.0 - alpha));
            }
            alphas.push(alpha);
        }
        let frame = |channels, data| vec![Arc::new(Frame::new(height, width, channels, data))];
        let image = Image::new(frame(3, colors)).map_err(images::kernel::KernelError::from)?;
        let mask = Mask::new(frame(1, alphas)).map_err(images::kernel::KernelError::from)?;
        Ok(NodeOutput::of([image.into(), mask.into()]))
    }

    fn is_changed(&self, constants: &Inputs) -> Result<Changed, NodeError> {
        let told = match constants.file("mask") {
            Ok(file) => file.sha256()?,
            Err(_) => String::new(),
        };
        Ok(Changed::Key(told.into()))
    }
}

/// The painting with its alpha, in this size.
fn painting(
    inputs: &Inputs,
    width: usize,
    height: usize,
    context: &NodeContext,
) -> Result<Arc<Frame>, NodeError> {
    let file = inputs.file("mask")?;
    context.reserve(file.size_bytes())?;
    let bytes = file.read()?;
    let raster = codec::decode_first(&bytes, &context.limits_of(&bytes)?)?.colored(true);
    let (own_width, own_height) = (raster.width(), raster.height());
    let samples = raster.data().iter();
    let samples = samples.map(|sample| f32::from(*sample) / 255.0).collect();
    let frame = Arc::new(Frame::new(own_height, own_width, 4, samples));
    if (own_width, own_height) == (width, height) {
        return Ok(frame);
    }
    Ok(scale::resize(
        frame,
        width,
        height,
        Method::Lanczos,
        Crop::Disabled,
    )?)
}

/// A picture of one colour.
fn plain(width: usize, height: usize, text: &str) -> Result<Frame, NodeError> {
    let pixel = color(text)?;
    let data = std::iter::repeat_n(pixel, width * height)
        .flatten()
        .collect();
    Ok(Frame::new(height, width, 3, data))
}

/// A colour that is written as `#RRGGBB`; black if it has another number of digits.
///
/// # Errors
/// If they are no digits.
pub(super) fn color(text: &str) -> Result<[f32; 3], NodeError> {
    let digits = text.trim_start_matches('#');
    let number = match digits.len() {
        6 => u32::from_str_radix(digits, 16)
            .map_err(|_| NodeError::value("the colour must be written as #RRGGBB"))?,
        _ => 0,
    };
    let level = |shift: u32| (f64::from(number >> shift & 0xff) / 255.0) as f32;
    Ok([level(16), level(8), level(0)])
}
