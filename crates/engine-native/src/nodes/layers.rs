//! Pictures in layers: a stack of them, where they lie by boxes, and the picture that they make together.

mod composed;
mod document;
mod saved;

use serde_json::{Value as Json, json};
use workflow_core::NodeDefinition;

use super::boxes;
use super::class::Class;
use crate::define::{
    boolean_input, float_input, int_input, latest, link, modern_combo, modern_metadata, named,
    optional, output, string_input, widget,
};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};
use document::{Document, Layer};
use images::kernel::layers::Blend;
use images::kernel::transform;
use images::{Image, Mask};

/// The classes of this family.
pub(super) const CLASSES: &[Class] = &[
    (compositor, composed::run),
    (add_layer, added),
    (from_boxes, placed),
];

const MODULE: &str = "comfy_extras.nodes_compositor";

/// As far as a layer may lie from the canvas, and as large as it may be.
const FARTHEST: i64 = 16384;

fn compositor() -> NodeDefinition {
    NodeDefinition {
        display_name: named("Create Layered Image"),
        inputs: vec![
            link("layers", "LAYERS"),
            widget(
                "compositor",
                "COMPOSITOR",
                json!({"default": {}, "socketless": true}),
            ),
        ],
        hidden: modern_metadata(),
        outputs: vec![output("IMAGE"), output("MASK")],
        output_node: true,
        ..latest(
            "ImageCompositor",
            MODULE,
            "image",
            json!({
                "experimental": true,
                "search_aliases": ["compositor", "composite", "layer", "layers", "layer editor", "psd"],
                "has_intermediate_output": true,
            }),
        )
    }
}

fn add_layer() -> NodeDefinition {
    let number = |name: &str, least: i64, most: i64| {
        let options = json!({"default": 0, "min": least, "max": most});
        optional(int_input(name, options))
    };
    let decimal = |name: &str, default: f64, least: f64, most: f64, step: f64| {
        let options = json!({"default": default, "min": least, "max": most, "step": step});
        optional(float_input(name, options))
    };
    let flag = |name: &str| optional(boolean_input(name, json!({"default": false})));
    let name = string_input("name", json!({"default": "", "multiline": false}));
    let blend = modern_combo("blend_mode", &Blend::names(), json!({"default": "normal"}));
    NodeDefinition {
        display_name: named("Add Layer"),
        inputs: vec![
            optional(link("layers", "LAYERS")),
            link("image", "IMAGE"),
            optional(link("mask", "MASK")),
            optional(name),
            number("x", -FARTHEST, FARTHEST),
            number("y", -FARTHEST, FARTHEST),
            decimal("opacity", 1.0, 0.0, 1.0, 0.01),
            optional(blend),
            decimal("rotation", 0.0, -360.0, 360.0, 1.0),
            number("width", 0, FARTHEST),
            number("height", 0, FARTHEST),
            number("z_index", -1000, 1000),
            flag("flip_h"),
            flag("flip_v"),
        ],
        outputs: vec![output("LAYERS")],
        ..latest("AddLayer", MODULE, "image", json!({"experimental": true}))
    }
}

fn added(inputs: &mut Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let mut document = Document::before(inputs)?;
    let (image, mask) = (inputs.image("image")?, mask(inputs)?);
    let inputs = &*inputs;
    let whole = |name: &str| or(inputs, name, 0, Inputs::int::<i64>);
    let side = |name: &str| Ok::<_, NodeError>(Some(whole(name)?).filter(|side| *side > 0));
    let flag = |name: &str| or(inputs, name, false, Inputs::boolean);
    let name = match inputs.has("name") {
        true => inputs.text("name")?,
        false => "",
    };
    let layer = Layer {
        x: whole("x")?,
        y: whole("y")?,
        width: side("width")?,
        height: side("height")?,
        z_index: whole("z_index")?,
        rotation: or(inputs, "rotation", 0.0, Inputs::float)?.to_radians(),
        opacity: or(inputs, "opacity", 1.0, Inputs::float)?,
        blend: or(inputs, "blend_mode", Blend::NORMAL, |inputs, name| {
            inputs.choice(name, Blend::named)
        })?,
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        flip_x: flag("flip_h")?,
        flip_y: flag("flip_v")?,
        mask,
        ..Layer::of(image)
    };
    document.layers.push(layer);
    Ok(document.into())
}

/// An input that may be left out, or what stands for it then.
fn or<T>(
    inputs: &Inputs,
    name: &str,
    default: T,
    read: impl FnOnce(&Inputs, &str) -> Result<T, NodeError>,
) -> Result<T, NodeError> {
    match inputs.has(name) {
        true => read(inputs, name),
        false => Ok(default),
    }
}

fn mask(inputs: &mut Inputs) -> Result<Option<Mask>, NodeError> {
    let has = inputs.has("mask");
    has.then(|| inputs.mask("mask")).transpose()
}

fn from_boxes() -> NodeDefinition {
    let side = |name: &str| {
        let options = json!({"default": 0, "min": 0, "max": FARTHEST});
        optional(int_input(name, options))
    };
    NodeDefinition {
        display_name: named("Layers From Bounding Boxes"),
        description: "Turn an image batch plus its bounding boxes into a layer stack, one layer per frame, each placed by its own box."
            .to_owned(),
        inputs: vec![
            link("image", "IMAGE"),
            link("bboxes", "BOUNDING_BOX,ARRAY,STRING"),
            optional(link("mask", "MASK")),
            optional(link("layers", "LAYERS")),
            optional(boolean_input("crop_to_content", json!({"default": true}))),
            side("canvas_width"),
            side("canvas_height"),
        ],
        outputs: vec![output("LAYERS")],
        ..latest(
            "LayersFromBoundingBoxes",
            MODULE,
            "image",
            json!({"experimental": true}),
        )
    }
}

fn placed(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let side = |name: &str| or(inputs, name, 0, Inputs::int::<u32>);
    let (width, height) = (side("canvas_width")?, side("canvas_height")?);
    let boxes = boxes::incoming(
        inputs.maybe("bboxes"),
        (f64::from(width), f64::from(height)),
    )?;
    let mut document = Document::before(inputs)?;
    if width > 0 && height > 0 {
        document.canvas = Some((width, height));
    }
    let image = inputs.image("image")?;
    let mask = mask(inputs)?;
    let crops = or(inputs, "crop_to_content", true, Inputs::boolean)?;
    let above = document.layers.iter().map(|layer| layer.z_index).max();
    let above = above.unwrap_or(-1) + 1;
    let (frame_height, frame_width, _) = image.first().shape();
    for (at, frame) in image.frames().iter().enumerate() {
        context.check()?;
        let own = boxes.get(at).unwrap_or(&Json::Null);
        let told = &own["metadata"];
        let text = |name: &str| told[name].as_str().filter(|text| !text.is_empty());
        let mut layer = Layer {
            x: whole(&own["x"]).unwrap_or(0),
            y: whole(&own["y"]).unwrap_or(0),
            z_index: whole(&told["z_index"]).unwrap_or(above + at as i64),
            name: text("name").or(text("desc")).map(str::to_owned),
            mask: match document::of_frame(mask.as_ref(), at) {
                Some(frame) => Some(Mask::new(vec![frame])?),
                None => None,
            },
            ..Layer::of(Image::new(vec![frame.clone()])?)
        };
        let content = told["content_rect"].as_array().filter(|_| crops);
        let content = content.and_then(|sides| Content::of(sides, frame_width, frame_height));
        match content {
            Some(content) => content.cut(&mut layer)?,
            None => {
                let side = |name: &str| whole(&own[name]).filter(|side| *side > 0);
                (layer.width, layer.height) = (side("width"), side("height"));
            }
        }
        document.layers.push(layer);
    }
    Ok(document.into())
}

/// A number cut off to a whole one, at most as far as a layer may lie.
fn whole(number: &Json) -> Option<i64> {
    let number = number.as_f64()?;
    Some(number.clamp(-FARTHEST as f64, FARTHEST as f64) as i64)
}

/// The part of a frame that is not only padding.
struct Content {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Content {
    fn of(sides: &[Json], width: usize, height: usize) -> Option<Self> {
        let sides: Vec<usize> = sides
            .iter()
            .map(|side| whole(side).unwrap_or(0).max(0) as usize)
            .collect();
        let [left, top, own_width, own_height] = sides[..] else {
            return None;
        };
        let (left, top) = (left.min(width), top.min(height));
        let content = Self {
            left,
            top,
            width: own_width.min(width - left),
            height: own_height.min(height - top),
        };
        (content.width > 0 && content.height > 0).then_some(content)
    }

    fn cut(&self, layer: &mut Layer) -> Result<(), NodeError> {
        let cut =
            |image: Image| transform::crop(image, self.width, self.height, self.left, self.top);
        layer.image = cut(layer.image.clone())?;
        if let Some(mask) = layer.mask.take() {
            let mask = cut(Image::new(mask.into_frames())?)?;
            layer.mask = Some(Mask::new(mask.into_frames())?);
        }
        layer.x += self.left as i64;
        layer.y += self.top as i64;
        Ok(())
    }
}

impl From<Document> for NodeOutput {
    fn from(document: Document) -> Self {
        Value::from(document).into()
    }
}
