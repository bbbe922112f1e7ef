//! What a stack of layers holds on its way between nodes.

use std::sync::Arc;

use images::kernel::layers::{self, Blend};
use images::{Frame, Image, Mask};

use crate::value::Opaque;
use crate::{Inputs, NodeError, Value};

/// A stack of layers, and how large the canvas is if that is settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    pub(super) layers: Vec<Layer>,
    pub(super) canvas: Option<(u32, u32)>,
}

/// Pictures that lie at one place, and how.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) image: Image,
    /// Hides where it is 1.
    pub(super) mask: Option<Mask>,
    pub(super) name: Option<String>,
    pub(super) x: i64,
    pub(super) y: i64,
    /// `None` is the picture's own.
    pub(super) width: Option<i64>,
    /// `None` is the picture's own.
    pub(super) height: Option<i64>,
    /// In radians, clockwise.
    pub(super) rotation: f64,
    pub(super) opacity: f64,
    pub(super) blend: Blend,
    pub(super) z_index: i64,
    pub(super) flip_x: bool,
    pub(super) flip_y: bool,
}

/// One picture of a layer.
#[derive(Clone, Debug)]
pub(super) struct Sheet {
    pub(super) frame: Arc<Frame>,
    /// Where it is seen; `None` is everywhere.
    pub(super) alpha: Option<Frame>,
    pub(super) name: Option<String>,
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) rotation: f64,
    pub(super) opacity: f64,
    pub(super) blend: Blend,
    pub(super) flip_x: bool,
    pub(super) flip_y: bool,
}

/// Pictures that are laid over each other at most.
const MOST_SHEETS: usize = 50;

impl Layer {
    /// Pictures at the origin, as they are.
    pub(super) fn of(image: Image) -> Self {
        Self {
            image,
            mask: None,
            name: None,
            x: 0,
            y: 0,
            width: None,
            height: None,
            rotation: 0.0,
            opacity: 1.0,
            blend: Blend::NORMAL,
            z_index: 0,
            flip_x: false,
            flip_y: false,
        }
    }
}

impl Document {
    /// The stack that is linked, or an empty one.
    pub(super) fn before(inputs: &mut Inputs) -> Result<Self, NodeError> {
        match inputs.maybe("layers") {
            None => Ok(Self::default()),
            Some(Value::Opaque(opaque)) if opaque.get::<Self>().is_some() => {
                Ok(opaque.get::<Self>().cloned().unwrap_or_default())
            }
            Some(other) => Err(NodeError::new(
                "TypeError",
                format!(
                    "input \"layers\" must be LAYERS, and {} came; link Add Layer",
                    other.io_type()
                ),
            )),
        }
    }

    /// Its pictures from the lowest to the highest.
    pub(super) fn sheets(mut self) -> Result<Vec<Sheet>, NodeError> {
        self.layers.sort_by_key(|layer| layer.z_index);
        let count: usize = self
            .layers
            .iter()
            .map(|layer| layer.image.frames().len())
            .sum();
        if count > MOST_SHEETS {
            return Err(NodeError::value(format!(
                "at most {MOST_SHEETS} pictures can be laid over each other, and these are {count}; lay some of them together before"
            )));
        }
        let mut sheets = Vec::with_capacity(count);
        for layer in self.layers {
            let (height, width, _) = layer.image.first().shape();
            for (at, frame) in layer.image.frames().iter().enumerate() {
                let mask = of_frame(layer.mask.as_ref(), at);
                sheets.push(Sheet {
                    alpha: layers::opacity(frame, mask)?,
                    frame: Arc::clone(frame),
                    name: layer.name.clone(),
                    x: layer.x,
                    y: layer.y,
                    width: layer.width.unwrap_or(width as i64),
                    height: layer.height.unwrap_or(height as i64),
                    rotation: layer.rotation,
                    opacity: layer.opacity,
                    blend: layer.blend,
                    flip_x: layer.flip_x,
                    flip_y: layer.flip_y,
                });
            }
        }
        Ok(sheets)
    }
}

impl From<Document> for Value {
    fn from(document: Document) -> Self {
        let size = document.layers.iter().map(|layer| {
            layer.image.size_bytes() + layer.mask.as_ref().map_or(0, Mask::size_bytes)
        });
        let size = size.sum();
        Opaque::new("LAYERS", document, size).into()
    }
}

/// The mask of the picture at a place: a single one is that of all.
pub(super) fn of_frame(mask: Option<&Mask>, at: usize) -> Option<Arc<Frame>> {
    match mask?.frames() {
        [only] => Some(Arc::clone(only)),
        several => several.get(at).cloned(),
    }
}
