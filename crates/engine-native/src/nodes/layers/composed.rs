//! The picture that layers make together, as their stack says or as the page's editor saved it.

use images::kernel::layers::{Canvas, Placement};
use images::kernel::output_bytes;
use images::{Frame, Image, Mask};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::document::{Document, Sheet};
use super::saved::{self, Saved};
use crate::nodes::save::{Prefix, emit_png};
use crate::python_json::python_json;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};

/// The longest side of a canvas.
const MOST: usize = 16384;

/// The side of what is shown of no layers.
const EMPTY: usize = 64;

/// A canvas that is less transparent than this everywhere is opaque.
const NEARLY_OPAQUE: f32 = 1e-3;

pub(super) fn run(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let raw = match inputs.maybe("compositor") {
        Some(Value::Json(json)) => (*json).clone(),
        Some(Value::String(text)) => Json::from(&*text),
        _ => Json::Null,
    };
    let document = Document::before(inputs)?;
    let canvas = document.canvas;
    let sheets = document.sheets()?;
    let prints: Vec<String> = sheets.iter().map(Sheet::fingerprint).collect();
    // What was saved counts for the pictures that it was saved of.
    let saved = Saved::of(&raw).filter(|saved| saved.inputs.as_ref() == Some(&prints));
    let is_stale = saved::is_there(&raw) && saved.is_none();
    for sheet in &sheets {
        shown(&sheet.look(), "compositor_layers", context)?;
    }
    let (image, mask) = match (&saved, &sheets[..]) {
        (_, []) => (
            Frame::filled(EMPTY, EMPTY, 3, 0.0),
            Frame::filled(EMPTY, EMPTY, 1, 0.0),
        ),
        (Some(saved), sheets) => {
            let place = |at: usize| {
                let sheet: &Sheet = &sheets[at];
                let size = (sheet.frame.width(), sheet.frame.height());
                Some((sheet, saved.placement(at, size)?))
            };
            let placed: Vec<_> = saved.order().into_iter().filter_map(place).collect();
            parts(composed(saved.canvas, saved.background, &placed, context)?)
        }
        (None, sheets) => {
            let placed = sheets.iter().map(|sheet| (sheet, sheet.placement()));
            let placed: Vec<_> = placed.collect();
            let canvas = match canvas {
                Some((width, height)) => (width as usize, height as usize),
                None => extent(&placed),
            };
            parts(composed(canvas, None, &placed, context)?)
        }
    };
    let image = Image::single(image);
    emit_png(&image, &Prefix::temp(context), true, "images", context)?;
    let mut output = NodeOutput::of([image.into(), Mask::new(vec![mask.into()])?.into()]);
    let boxes: Vec<Json> = sheets.iter().map(Sheet::told).collect();
    output.ui.insert("animated".to_owned(), json!([false]));
    output
        .ui
        .insert("compositor_inputs".to_owned(), json!(prints));
    output
        .ui
        .insert("compositor_bboxes".to_owned(), json!(boxes));
    if is_stale {
        let stale = json!([true]);
        output.ui.insert("compositor_state_stale".to_owned(), stale);
    }
    Ok(output)
}

/// A picture to be looked at, listed under a name.
fn shown(frame: &Frame, list: &'static str, context: &NodeContext) -> Result<(), NodeError> {
    let image = Image::single(frame.clone());
    emit_png(&image, &Prefix::temp(context), true, list, context)
}

/// The size of a canvas that ends where the last layer does.
fn extent(placed: &[(&Sheet, Placement)]) -> (usize, usize) {
    let ends = placed.iter().map(|(_, placement)| {
        let bounds = placement.bounds();
        (bounds.x + bounds.width, bounds.y + bounds.height)
    });
    let end = ends.fold((1, 1), |(right, low), end| {
        (right.max(end.0), low.max(end.1))
    });
    (end.0 as usize, end.1 as usize)
}

fn composed(
    (width, height): (usize, usize),
    background: Option<([u8; 3], f32)>,
    placed: &[(&Sheet, Placement)],
    context: &NodeContext,
) -> Result<Frame, NodeError> {
    if width > MOST || height > MOST {
        return Err(NodeError::value(format!(
            "the canvas would have {width}x{height} pixels; move the layers or choose a size of at most {MOST}x{MOST}"
        )));
    }
    // The canvas, its copy without opacity, and the largest layer on its way to size and turn, in levels and in samples.
    let largest = placed.iter().map(|(_, placement)| {
        let (width, height) = placement.size();
        let bounds = placement.bounds();
        2 * output_bytes(1, height, width, 4)
            + output_bytes(1, bounds.height as usize, bounds.width as usize, 1)
    });
    let largest = largest.max().unwrap_or(0);
    context.reserve((2 * output_bytes(1, height, width, 4)).saturating_add(largest))?;
    let mut canvas = Canvas::new(width, height)?;
    if let Some((color, opacity)) = background {
        canvas.fill(color, opacity);
    }
    for (sheet, placement) in placed {
        let check = || context.check();
        canvas.lay(&sheet.frame, sheet.alpha.as_ref(), placement, check)?;
    }
    Ok(canvas.finish())
}

/// A canvas as a picture, without opacity where it has none to tell, and as the mask of what is transparent.
fn parts(canvas: Frame) -> (Frame, Frame) {
    let (height, width, channels) = canvas.shape();
    let pixels = || canvas.data().chunks_exact(channels);
    if pixels().all(|pixel| pixel[3] >= 1.0 - NEARLY_OPAQUE) {
        let colors = pixels().flat_map(|pixel| &pixel[..3]).copied().collect();
        return (
            Frame::new(height, width, 3, colors),
            Frame::filled(height, width, 1, 0.0),
        );
    }
    let hidden = pixels().map(|pixel| (1.0 - pixel[3]).clamp(0.0, 1.0));
    let hidden = Frame::new(height, width, 1, hidden.collect());
    (canvas, hidden)
}

impl Sheet {
    fn placement(&self) -> Placement {
        Placement {
            x: self.x as f64,
            y: self.y as f64,
            width: self.width as f64,
            height: self.height as f64,
            rotation: self.rotation,
            flip_x: self.flip_x,
            flip_y: self.flip_y,
            opacity: self.opacity as f32,
            blend: self.blend,
        }
    }

    /// The picture as the page shows it in its list.
    fn look(&self) -> Frame {
        let Some(alpha) = &self.alpha else {
            return (*self.frame).clone();
        };
        let (height, width, channels) = self.frame.shape();
        let pixels = self.frame.data().chunks_exact(channels).zip(alpha.data());
        let pixels = pixels.flat_map(|(pixel, alpha)| {
            let color = |at: usize| pixel[if channels < 3 { 0 } else { at }];
            [color(0), color(1), color(2), *alpha]
        });
        Frame::new(height, width, 4, pixels.collect())
    }

    /// What tells whether it is the one that a composition was saved of; spelled as ComfyUI does, so that a graph that was saved
    /// there is shown here as it was.
    fn fingerprint(&self) -> String {
        let (height, width, channels) = self.frame.shape();
        let level = |sample: &f32| (sample * 255.0).round_ties_even().clamp(0.0, 255.0) as u8;
        let mut hasher = Sha256::new();
        hasher.update(format!("(1, {height}, {width}, {channels})"));
        let pixels = self.frame.data().chunks_exact(channels);
        let levels = pixels.flat_map(|pixel| pixel.iter().take(3).map(level));
        hasher.update(levels.collect::<Vec<u8>>());
        if let Some(alpha) = &self.alpha {
            hasher.update(alpha.data().iter().map(level).collect::<Vec<u8>>());
        }
        let float = |number: f64| python_json(&json!(number));
        let truth = |value: bool| if value { "True" } else { "False" };
        hasher.update(format!(
            "({}, {}, {}, {}, {}, {}, '{}', True, {}, {})",
            self.x,
            self.y,
            self.width,
            self.height,
            float(self.rotation),
            float(self.opacity),
            self.blend.name(),
            truth(self.flip_x),
            truth(self.flip_y),
        ));
        let digest = hasher.finalize();
        let hex = digest[..8].iter().map(|byte| format!("{byte:02x}"));
        hex.collect()
    }

    /// How it lies, for the page's editor.
    fn told(&self) -> Json {
        json!({
            "x": self.x,
            "y": self.y,
            "width": self.width,
            "height": self.height,
            "rotation": self.rotation,
            "name": self.name,
            "visible": true,
            "opacity": self.opacity,
            "blend": self.blend.name(),
            "flipH": self.flip_x,
            "flipV": self.flip_y,
        })
    }
}
