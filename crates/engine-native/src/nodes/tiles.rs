//! Parts of pictures: cut out, and tiles that overlap.

use serde_json::{Value as Json, json};
use workflow_core::{NodeDefinition, OutputDefinition};

use crate::define::{int_input, latest, link, named, output, widget};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Slot, Value};
use images::kernel::{output_bytes, tile, transform};

/// The part of a picture inside a rectangle.
#[derive(Clone, Copy, Debug)]
pub struct ImageCropV2;

impl Node for ImageCropV2 {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Crop Image"),
            inputs: vec![
                link("image", "IMAGE"),
                widget(
                    "crop_region",
                    "BOUNDING_BOX",
                    json!({"default": {"x": 0, "y": 0, "width": 512, "height": 512}, "socketless": true, "component": "ImageCrop"}),
                ),
            ],
            outputs: vec![output("IMAGE")],
            ..latest(
                "ImageCropV2",
                "comfy_extras.nodes_images",
                "image/transform",
                json!({"search_aliases": ["crop", "cut", "trim"], "essentials_category": "Image Tools", "has_intermediate_output": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let region = match inputs.value("crop_region")? {
            Value::Json(json) => json,
            Value::Image(_)
            | Value::Mask(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::File(_)
            | Value::Opaque(_)
            | Value::Blocker(_) => Json::Null.into(),
        };
        let side = |name: &str, default: u64| {
            let side = region.get(name).map_or(Some(default), Json::as_u64);
            let side = side.and_then(|side| usize::try_from(side).ok());
            side.filter(|_| region.is_object()).ok_or_else(|| {
                NodeError::value(
                    "the region must be an object of whole numbers x, y, width and height",
                )
            })
        };
        let (x, y) = (side("x", 0)?, side("y", 0)?);
        let (width, height) = (side("width", 512)?, side("height", 512)?);
        let (own_height, own_width, channels) = image.first().shape();
        let (most_width, most_height) = (width.min(own_width), height.min(own_height));
        context.reserve(output_bytes(
            image.distinct(),
            most_height,
            most_width,
            channels,
        ))?;
        Ok(transform::crop(image, width, height, x, y)?.into())
    }
}

/// A picture as a list of tiles that overlap.
#[derive(Clone, Copy, Debug)]
pub struct SplitImageToTileList;

impl Node for SplitImageToTileList {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Split Image into List of Tiles"),
            inputs: vec![
                link("image", "IMAGE"),
                int_input(
                    "tile_width",
                    json!({"default": 1024, "min": 64, "max": 16384}),
                ),
                int_input(
                    "tile_height",
                    json!({"default": 1024, "min": 64, "max": 16384}),
                ),
                int_input("overlap", json!({"default": 128, "min": 0, "max": 4096})),
            ],
            outputs: vec![OutputDefinition {
                is_list: true,
                ..output("IMAGE")
            }],
            ..latest(
                "SplitImageToTileList",
                "comfy_extras.nodes_images",
                "image/batch",
                json!({"search_aliases": ["split image", "tile image", "slice image"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let (width, height) = (inputs.int("tile_width")?, inputs.int("tile_height")?);
        let (own_height, own_width, channels) = image.first().shape();
        let tiles = tile::tiles(own_width, own_height, width, height, inputs.int("overlap")?);
        let mut list = Vec::new();
        for tile in tiles {
            context.check()?;
            context.reserve(output_bytes(
                image.distinct(),
                tile.height,
                tile.width,
                channels,
            ))?;
            let part = transform::crop(image.clone(), tile.width, tile.height, tile.x, tile.y)?;
            list.push(part.into());
        }
        Ok(NodeOutput {
            slots: vec![Slot::List(list)],
            ..NodeOutput::none()
        })
    }
}

/// A list of tiles that overlap as a picture.
#[derive(Clone, Copy, Debug)]
pub struct ImageMergeTileList;

impl Node for ImageMergeTileList {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Merge List of Tiles to Image"),
            inputs: vec![
                link("image_list", "IMAGE"),
                int_input(
                    "final_width",
                    json!({"default": 1024, "min": 64, "max": 32768}),
                ),
                int_input(
                    "final_height",
                    json!({"default": 1024, "min": 64, "max": 32768}),
                ),
                int_input("overlap", json!({"default": 128, "min": 0, "max": 4096})),
            ],
            outputs: vec![output("IMAGE")],
            takes_lists: true,
            ..latest(
                "ImageMergeTileList",
                "comfy_extras.nodes_images",
                "image/batch",
                json!({"search_aliases": ["split image", "tile image", "slice image"]}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let mut first = |name: &str| match inputs.list(name)?.first() {
            Some(Value::Int(number)) => usize::try_from(*number)
                .map_err(|_| NodeError::value(format!("{name} must not be negative"))),
            _ => Err(NodeError::value(format!("{name} must be a whole number"))),
        };
        let (width, height) = (first("final_width")?, first("final_height")?);
        let overlap = first("overlap")?;
        let tiles = super::batch::images(inputs.list("image_list")?)?;
        let Some(tile) = tiles.first() else {
            return Err(NodeError::value(
                "the list holds no tile; link at least one picture",
            ));
        };
        // The sums, and the weights as one more channel.
        let (frames, channels) = (tile.frames().len(), tile.first().channels());
        context.reserve(output_bytes(frames, height, width, channels + 1))?;
        Ok(tile::merged(&tiles, width, height, overlap)?.into())
    }
}
