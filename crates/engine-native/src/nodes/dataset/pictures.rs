//! Pictures changed one by one, sorted out, and laid into one. As in ComfyUI they become 8-bit pictures on the way.

use std::sync::Arc;

use images::kernel::grid::{self, Grid};
use images::kernel::scale::{Crop, Method, common_upscale};
use images::kernel::{output_bytes, transform};
use images::{Frame, Image};
use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition};

use super::super::batch::images;
use super::{Class, MODULE, list, number, seed_input, whole};
use crate::define::{float_input, int_input, latest, link, named, named_output};
use crate::numpy_random::NumpyRandom;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

pub(super) const CLASSES: &[Class] = &[
    (
        || {
            let name = "Resize Images by Shorter Edge (DEPRECATED)";
            edge("ResizeImagesByShorterEdge", name, "shorter_edge", 512)
        },
        |inputs, context| {
            let edge = inputs.int("shorter_edge")?;
            resized(inputs, edge, |width, height| width < height, context)
        },
    ),
    (
        || {
            let name = "Resize Images by Longer Edge (DEPRECATED)";
            edge("ResizeImagesByLongerEdge", name, "longer_edge", 1024)
        },
        |inputs, context| {
            let edge = inputs.int("longer_edge")?;
            resized(inputs, edge, |width, height| width > height, context)
        },
    ),
    (
        || {
            let name = "Crop Image (Center)";
            cropping("CenterCropImages", name, vec![])
        },
        |inputs, context| {
            cropped(inputs, context, |beyond_width, beyond_height| {
                (beyond_width / 2, beyond_height / 2)
            })
        },
    ),
    (
        || {
            let name = "Crop Image (Random)";
            cropping("RandomCropImages", name, vec![seed_input()])
        },
        |inputs, context| {
            // Every picture of a batch is cut at the same place.
            let mut random = NumpyRandom::new(inputs.int("seed")?);
            cropped(inputs, context, |beyond_width, beyond_height| {
                let mut up_to =
                    |most: usize| random.up_to(u32::try_from(most).unwrap_or(u32::MAX)) as usize;
                (up_to(beyond_width), up_to(beyond_height))
            })
        },
    ),
    (deduplication_definition, deduplicated),
    (grid_definition, laid_out),
    (merge_definition, |inputs, context| {
        let frames = frames(inputs, context)?;
        Ok(list(singles(frames)?))
    }),
];

/// A class of pictures. Aliases are the words by which the page finds it besides its name.
fn of_images(
    class: &str,
    name: &str,
    category: &str,
    marks: Json,
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    let mut inputs = vec![link("images", "IMAGE")];
    inputs.extend(more);
    let mut definition = latest(class, MODULE, category, marks);
    let experimental = ("experimental".to_owned(), Json::Bool(true));
    definition.extra.extend([experimental]);
    NodeDefinition {
        display_name: named(name),
        inputs,
        outputs: vec![named_output("IMAGE", "images")],
        ..definition
    }
}

fn edge(class: &str, name: &str, input: &str, default: usize) -> NodeDefinition {
    let side = int_input(input, json!({"default": default, "min": 1, "max": 8192}));
    let marks = json!({"deprecated": true});
    of_images(class, name, "image/transform", marks, vec![side])
}

/// The pictures with one side as long as `edge`: their width if `is_width` says so.
fn resized(
    inputs: &mut Inputs,
    edge: usize,
    is_width: fn(usize, usize) -> bool,
    context: &NodeContext,
) -> Result<NodeOutput, NodeError> {
    let image = inputs.image("images")?;
    let (height, width, channels) = image.first().shape();
    let scaled = |side: usize, by: usize| (side as f64 * (edge as f64 / by as f64)) as usize;
    let (width, height) = match is_width(width, height) {
        true => (edge, scaled(height, width)),
        false => (scaled(width, height), edge),
    };
    context.reserve(output_bytes(image.distinct(), height, width, channels))?;
    Ok(common_upscale(image, width, height, Method::Lanczos, Crop::Disabled)?.into())
}

fn cropping(class: &str, name: &str, more: Vec<InputDefinition>) -> NodeDefinition {
    let side = |name| int_input(name, json!({"default": 512, "min": 1, "max": 8192}));
    let mut inputs = vec![side("width"), side("height")];
    inputs.extend(more);
    let marks = json!({"search_aliases": ["crop", "cut", "trim"]});
    of_images(class, name, "image/transform", marks, inputs)
}

/// The pictures cut to the size that is asked for, or to their own where that is smaller. `place` gets how much the picture is
/// wider and higher.
fn cropped(
    inputs: &mut Inputs,
    context: &NodeContext,
    place: impl FnOnce(usize, usize) -> (usize, usize),
) -> Result<NodeOutput, NodeError> {
    let image = inputs.image("images")?;
    let (height, width, channels) = image.first().shape();
    let (most_width, most_height): (usize, usize) = (inputs.int("width")?, inputs.int("height")?);
    let (left, top) = place(
        width.saturating_sub(most_width),
        height.saturating_sub(most_height),
    );
    let (width, height) = (width.min(most_width), height.min(most_height));
    context.reserve(output_bytes(image.distinct(), height, width, channels))?;
    let image = transform::crop(image, width, height, left, top)?;
    Ok(grid::leveled(image)?.into())
}

fn deduplication_definition() -> NodeDefinition {
    let threshold = json!({"advanced": true, "default": 0.95, "min": 0.0, "max": 1.0});
    of_list(
        "ImageDeduplication",
        "Deduplicate Images",
        json!({"search_aliases": ["deduplicate", "remove duplicates", "similarity filter"]}),
        vec![float_input("similarity_threshold", threshold)],
    )
}

/// The pictures without those that look like one before them.
fn deduplicated(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let threshold = number(inputs, "similarity_threshold")?;
    let mut kept: Vec<(u64, Arc<Frame>)> = Vec::new();
    for frame in frames(inputs, context)? {
        context.check()?;
        let likeness = grid::likeness(Arc::clone(&frame))?;
        let alike = |other: u64| 1.0 - f64::from((likeness ^ other).count_ones()) / 64.0;
        if kept.iter().all(|(other, _)| alike(*other) < threshold) {
            kept.push((likeness, frame));
        }
    }
    let kept = kept.into_iter().map(|(_, frame)| frame).collect();
    Ok(list(singles(kept)?))
}

fn grid_definition() -> NodeDefinition {
    let cell = |name| {
        int_input(
            name,
            json!({"advanced": true, "default": 256, "min": 32, "max": 2048}),
        )
    };
    let columns = int_input("columns", json!({"default": 4, "min": 1, "max": 20}));
    let padding = json!({"advanced": true, "default": 4, "min": 0, "max": 50});
    let inputs = vec![
        columns,
        cell("cell_width"),
        cell("cell_height"),
        int_input("padding", padding),
    ];
    let marks = json!({"search_aliases": ["grid", "collage", "combine"]});
    let mut definition = of_list("ImageGrid", "Make Image Grid", marks, inputs);
    definition.outputs[0].is_list = false;
    definition
}

fn laid_out(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let layout = Grid {
        columns: whole(inputs, "columns")?,
        cell_width: whole(inputs, "cell_width")?,
        cell_height: whole(inputs, "cell_height")?,
        padding: whole::<i64>(inputs, "padding")?,
    };
    let frames = frames(inputs, context)?;
    let (width, height) = layout.size(frames.len());
    let cells = output_bytes(frames.len(), layout.cell_height, layout.cell_width, 4);
    context.reserve(output_bytes(1, height, width, 3).saturating_add(cells))?;
    Ok(grid::grid(frames, layout)?.into())
}

fn merge_definition() -> NodeDefinition {
    let marks = json!({"deprecated": true, "search_aliases": ["list", "merge list", "make list"]});
    let name = "Merge Image Lists (DEPRECATED)";
    of_list("MergeImageLists", name, marks, vec![])
}

/// A class of a list of pictures that gives a list.
pub(super) fn of_list(
    class: &str,
    name: &str,
    marks: Json,
    more: Vec<InputDefinition>,
) -> NodeDefinition {
    let mut definition = of_images(class, name, "image/batch", marks, more);
    definition.outputs[0].is_list = true;
    definition.takes_lists = true;
    definition
}

/// The pictures of all batches of the list.
pub(super) fn frames(
    inputs: &mut Inputs,
    context: &NodeContext,
) -> Result<Vec<Arc<Frame>>, NodeError> {
    let images = images(inputs.list("images")?)?;
    // Batches that repeat one frame are long, though its samples are shared.
    let count: usize = images.iter().map(|image| image.frames().len()).sum();
    context.reserve(count as u64 * size_of::<(Image, Value)>() as u64)?;
    Ok(images.into_iter().flat_map(Image::into_frames).collect())
}

/// Each picture as a batch of its own.
pub(super) fn singles(frames: Vec<Arc<Frame>>) -> Result<Vec<Value>, NodeError> {
    let single = |frame| Ok(Image::new(vec![frame])?.into());
    frames.into_iter().map(single).collect()
}
