//! Boxes of several pictures: what lies in them, cut out, and the boxes drawn.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition, OutputDefinition};

use super::class::Class;
use crate::define::{
    int_input, latest, link, modern_combo, named, named_output, optional, output, widget,
};
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};
use images::kernel::scale::{self, Crop, Method};
use images::kernel::{KernelError, MAX_FRAME_SAMPLES, output_bytes, transform};
use images::{Frame, Image};

pub(super) const CLASSES: &[Class] = &[(crop_definition, crop), (draw_definition, draw)];

/// A box as a graph has it.
type Fields = Map<String, Json>;

/// A part of a picture: its left, upper, right and lower edge.
type Part = [i64; 4];

fn boxes_input() -> InputDefinition {
    let options = json!({
        "default": {"x": 0, "y": 0, "width": 512, "height": 512},
        "socketless": true,
        "forceInput": true,
    });
    widget("bboxes", "BOUNDING_BOX", options)
}

fn crop_definition() -> NodeDefinition {
    let side = |name, what: &str| {
        let tooltip = format!("{what} each crop is resized to.");
        let bounds = json!({"tooltip": tooltip, "default": 512, "min": 64, "max": 4096, "step": 8});
        int_input(name, bounds)
    };
    let padding = json!({
        "tooltip": "Extra padding in pixels added on each side of the bbox before cropping.",
        "default": 0, "min": 0, "max": 1024, "step": 1,
    });
    let aspect = json!({
        "tooltip": "Whether to stretch the crop to fit the output size, or pad with black pixels to preserve aspect ratio.",
        "default": "stretch",
    });
    NodeDefinition {
        display_name: named("Crop By Bounding Boxes"),
        description:
            "Crop and resize regions from the input image batch based on provided bounding boxes."
                .to_owned(),
        inputs: vec![
            link("image", "IMAGE"),
            boxes_input(),
            side("output_width", "Width"),
            side("output_height", "Height"),
            int_input("padding", padding),
            modern_combo("keep_aspect", &["stretch", "pad"], aspect),
        ],
        outputs: vec![OutputDefinition {
            tooltip: named("All crops stacked into a single image batch."),
            ..output("IMAGE")
        }],
        ..latest(
            "CropByBBoxes",
            "comfy_extras.nodes_sdpose",
            "image/transform",
            json!({"search_aliases": ["crop", "face crop", "bbox crop", "pose", "bounding box"]}),
        )
    }
}

/// One part of each picture, which holds all of its boxes.
fn crop(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let image = inputs.image("image")?;
    let frames = frames_to_cut(inputs.maybe("bboxes"))?;
    let Some(last) = frames.len().checked_sub(1) else {
        return Ok(image.into());
    };
    let size: (usize, usize) = (inputs.int("output_width")?, inputs.int("output_height")?);
    let padding = inputs.int::<i64>("padding")?.max(0);
    let pads = inputs.choice("keep_aspect", |word| match word {
        "stretch" => Some(false),
        "pad" => Some(true),
        _ => None,
    })?;
    let channels = image.first().channels();
    bounded(size, channels)?;
    // A part may be as large as its picture, and becomes one of the size that is asked for, which black is put around.
    context.reserve(image.first().size_bytes() as u64)?;
    let count = image.frames().len() + usize::from(pads);
    context.reserve(output_bytes(count, size.1, size.0, channels))?;
    let mut crops = Vec::new();
    for (place, frame) in image.frames().iter().enumerate() {
        context.check()?;
        let Some(part) = union(&frames[place.min(last)], padding, frame)? else {
            continue;
        };
        crops.push(match part_or_upper_middle(part, frame) {
            None => black(size, channels)?,
            Some(part) => cut(frame, part, size, pads)?,
        });
    }
    match crops.is_empty() {
        true => Ok(image.into()),
        false => Ok(Image::new(crops)?.into()),
    }
}

fn wrong_boxes() -> NodeError {
    NodeError::value("bboxes must be a box, or for each picture a list of boxes")
}

fn fields(json: &Json) -> Result<Fields, NodeError> {
    json.as_object().cloned().ok_or_else(wrong_boxes)
}

fn boxes(json: &Json) -> Result<Vec<Fields>, NodeError> {
    match json {
        Json::Array(boxes) => boxes.iter().map(fields).collect(),
        Json::Null => Ok(Vec::new()),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => Err(wrong_boxes()),
    }
}

/// The boxes of each picture: one box is for all.
fn frames_to_cut(value: Option<Value>) -> Result<Vec<Vec<Fields>>, NodeError> {
    match value {
        Some(Value::Json(json)) => match json.as_array() {
            Some(frames) => frames.iter().map(boxes).collect(),
            None => Ok(vec![vec![fields(&json)?]]),
        },
        _ => Err(wrong_boxes()),
    }
}

/// A side of a box as it stands there.
fn number(fields: &Fields, name: &str) -> Result<f64, NodeError> {
    let number = fields.get(name).and_then(Json::as_f64);
    number.ok_or_else(|| NodeError::value(format!("a box must have the number {name:?}")))
}

/// Left, upper, right and lower edge.
fn edges(fields: &Fields) -> Result<[f64; 4], NodeError> {
    let (x, y) = (number(fields, "x")?, number(fields, "y")?);
    let (width, height) = (number(fields, "width")?, number(fields, "height")?);
    Ok([x, y, x + width, y + height])
}

/// The part that holds all boxes of a picture, with the padding around it and inside of the picture; `None` without a box.
fn union(boxes: &[Fields], padding: i64, frame: &Frame) -> Result<Option<Part>, NodeError> {
    let mut union: Option<Part> = None;
    for fields in boxes {
        let part = edges(fields)?.map(|edge| edge as i64);
        union = Some(union.map_or(part, |union| {
            [
                union[0].min(part[0]),
                union[1].min(part[1]),
                union[2].max(part[2]),
                union[3].max(part[3]),
            ]
        }));
    }
    let (width, height) = (frame.width() as i64, frame.height() as i64);
    Ok(union.map(|[left, upper, right, lower]| {
        [
            left.saturating_sub(padding).max(0),
            upper.saturating_sub(padding).max(0),
            right.saturating_add(padding).min(width),
            lower.saturating_add(padding).min(height),
        ]
    }))
}

/// A part, or a square in the upper middle of the picture in place of one without pixels; `None` where that has none either.
fn part_or_upper_middle(part: Part, frame: &Frame) -> Option<Part> {
    let has_pixels = |[left, upper, right, lower]: &Part| right > left && lower > upper;
    let (width, height) = (frame.width() as i64, frame.height() as i64);
    let side = (width.min(height) as f64 * 0.3) as i64;
    let (left, upper) = ((width - side) / 2, (height as f64 * 0.1) as i64);
    let right = (left + side).min(width);
    let lower = (upper + side).min(height);
    let middle = [left, upper, right, lower];
    [part, middle].into_iter().find(has_pixels)
}

/// Refuses a size beyond one picture.
fn bounded((width, height): (usize, usize), channels: usize) -> Result<(), NodeError> {
    let samples = height.checked_mul(width);
    let samples = samples.and_then(|pixels| pixels.checked_mul(channels));
    if samples.is_none_or(|samples| samples > MAX_FRAME_SAMPLES) {
        return Err(KernelError::TooLarge {
            width,
            height,
            channels,
        }
        .into());
    }
    Ok(())
}

fn black((width, height): (usize, usize), channels: usize) -> Result<Arc<Frame>, NodeError> {
    if width == 0 || height == 0 {
        return Err(KernelError::EmptyResult { width, height }.into());
    }
    Ok(Arc::new(Frame::filled(height, width, channels, 0.0)))
}

/// A part of a picture in a size, stretched or with black at its sides.
fn cut(
    frame: &Arc<Frame>,
    part: Part,
    (width, height): (usize, usize),
    pads: bool,
) -> Result<Arc<Frame>, NodeError> {
    let [left, upper, right, lower] = part.map(|edge| usize::try_from(edge).unwrap_or(0));
    let (own_width, own_height) = (right - left, lower - upper);
    let whole = Image::new(vec![Arc::clone(frame)])?;
    let part = transform::crop(whole, own_width, own_height, left, upper)?;
    let part = Arc::clone(&part.frames()[0]);
    let resized = |width, height| scale::resize(part, width, height, Method::Area, Crop::Disabled);
    if !pads {
        return Ok(resized(width, height)?);
    }
    let ratio = (width as f64 / own_width as f64).min(height as f64 / own_height as f64);
    let inner = |side: usize| (side as f64 * ratio).round_ties_even() as usize;
    let inner = resized(inner(own_width), inner(own_height))?;
    let channels = inner.channels();
    let mut framed = Frame::filled(height, width, channels, 0.0);
    let (left, top) = ((width - inner.width()) / 2, (height - inner.height()) / 2);
    for y in 0..inner.height() {
        let from = ((top + y) * width + left) * channels;
        let row = inner.row(y);
        framed.data_mut()[from..from + row.len()].copy_from_slice(row);
    }
    Ok(Arc::new(framed))
}

fn draw_definition() -> NodeDefinition {
    NodeDefinition {
        display_name: named("Draw BBoxes"),
        inputs: vec![optional(link("image", "IMAGE")), boxes_input()],
        outputs: vec![named_output("IMAGE", "out_image")],
        ..latest(
            "DrawBBoxes",
            "comfy_extras.nodes_rtdetr",
            "image/detection",
            json!({"search_aliases": ["bbox", "bounding box", "object detection", "rt_detr", "visualize detections", "coco"]}),
        )
    }
}

/// Pixels of a side of a black picture for boxes that say nothing of one.
const SIDE: f64 = 640.0;

/// The pictures with a red frame around each of their boxes.
fn draw(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let frames = frames_to_draw(inputs.maybe("bboxes"))?;
    let image = match inputs.has("image") {
        true => inputs.image("image")?,
        false => {
            let boxes = frames.first().map_or(&[][..], Vec::as_slice);
            canvas(boxes, context)?
        }
    };
    let count = image.frames().len();
    let (height, width, channels) = image.first().shape();
    context.reserve(output_bytes(count, height, width, channels))?;
    let mut drawn = Vec::with_capacity(count);
    for (place, frame) in image.frames().iter().enumerate() {
        context.check()?;
        let boxes = match &frames[..] {
            [all] => Some(all),
            each => each.get(place),
        };
        let mut made = leveled(frame);
        for fields in boxes.into_iter().flatten() {
            outline(&mut made, corners(fields)?)?;
        }
        drawn.push(Arc::new(made));
    }
    Ok(Image::new(drawn)?.into())
}

/// The boxes of each picture; those of one, or of a list of boxes, are for all.
fn frames_to_draw(value: Option<Value>) -> Result<Vec<Vec<Fields>>, NodeError> {
    let Some(Value::Json(json)) = value else {
        return Ok(vec![Vec::new()]);
    };
    match &*json {
        Json::Array(items) => match items.first() {
            None => Ok(vec![Vec::new()]),
            Some(Json::Object(_)) => Ok(vec![items.iter().map(fields).collect::<Result<_, _>>()?]),
            Some(_) => items.iter().map(boxes).collect(),
        },
        one @ Json::Object(_) => Ok(vec![vec![fields(one)?]]),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(vec![Vec::new()]),
    }
}

/// A black picture that all boxes lie in.
fn canvas(boxes: &[Fields], context: &NodeContext) -> Result<Image, NodeError> {
    let edges: Vec<[f64; 4]> = boxes.iter().map(edges).collect::<Result<_, _>>()?;
    let most = |side: usize| {
        let sides = edges.iter().map(|edges| edges[side].trunc());
        sides.reduce(f64::max).unwrap_or(SIDE) as usize
    };
    let size = (most(2), most(3));
    bounded(size, 3)?;
    context.reserve(output_bytes(1, size.1, size.0, 3))?;
    Ok(Image::new(vec![black(size, 3)?])?)
}

/// The levels of 8 bits that a picture has where it is drawn on; what is beyond white or black comes round.
fn leveled(frame: &Frame) -> Frame {
    let level = |sample: &f32| f32::from((sample * 255.0) as i64 as u8) / 255.0;
    let (height, width, channels) = frame.shape();
    let samples = frame.data().iter().map(level).collect();
    Frame::new(height, width, channels, samples)
}

/// The classes of the COCO data set. Only a label among them is written; any other is passed over.
const WRITTEN_LABELS: &str = "\
    person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,\
    parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,\
    suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,\
    tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,\
    hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,\
    cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,hair drier,\
    toothbrush";

/// The columns and rows of a box's corners.
fn corners(fields: &Fields) -> Result<Part, NodeError> {
    let label = fields.get("label").and_then(Json::as_str).unwrap_or("");
    if WRITTEN_LABELS.split(',').any(|written| written == label) {
        return Err(NodeError::value(format!(
            "the label {label:?} of a box is a class of COCO, which is written in letters, and letters are not drawn here; run this node on a ComfyUI worker, or link boxes without such labels"
        )));
    }
    // Edges are single floats where they are drawn.
    let [left, upper, right, lower] = edges(fields)?.map(|edge| i64::from(edge as f32 as i32));
    if right < left || lower < upper {
        return Err(NodeError::value(
            "the width and height of a box that is drawn must not be below 0",
        ));
    }
    Ok([left, upper, right, lower])
}

/// Pixels of an outline.
const LINE: i64 = 3;

/// Draws the outline of a box, inwards; a box that is smaller than two lines is overrun by them.
fn outline(frame: &mut Frame, [left, upper, right, lower]: Part) -> Result<(), NodeError> {
    let channels = frame.channels();
    let color: &[f32] = match channels {
        3 => &[1.0, 0.0, 0.0],
        4 => &[1.0, 0.0, 0.0, 1.0],
        _ => {
            return Err(NodeError::value(
                "boxes are drawn on pictures with three or four channels",
            ));
        }
    };
    for line in 0..LINE {
        fill(frame, color, [left, upper + line, right, upper + line]);
        fill(frame, color, [left, lower - line, right, lower - line]);
        // The last row of an upright line is left out, which is the upper one where there is no room between the others.
        let (from, to) = (upper + LINE, lower - LINE + 1);
        let (from, to) = if from <= to {
            (from, to - 1)
        } else {
            (to + 1, from)
        };
        fill(frame, color, [right - line, from, right - line, to]);
        fill(frame, color, [left + line, from, left + line, to]);
    }
    Ok(())
}

/// Fills what lies in the picture of a part, whose last column and row belong to it.
fn fill(frame: &mut Frame, color: &[f32], [left, upper, right, lower]: Part) {
    let (height, width, channels) = frame.shape();
    let inside = |from: i64, to: i64, side: usize| {
        let from = usize::try_from(from.max(0)).unwrap_or(side);
        let to = usize::try_from(to + 1).unwrap_or(0).min(side);
        from.min(to)..to
    };
    let columns = inside(left, right, width);
    for y in inside(upper, lower, height) {
        let from = (y * width + columns.start) * channels;
        let to = from + columns.len() * channels;
        for pixel in frame.data_mut()[from..to].chunks_exact_mut(channels) {
            pixel.copy_from_slice(color);
        }
    }
}
