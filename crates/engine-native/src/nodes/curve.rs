//! Curves, and how often each level stands in a picture.

use serde_json::{Value as Json, json};
use workflow_core::NodeDefinition;

use crate::define::{latest, link, named, named_output, optional, widget};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};
use images::Frame;

/// Most points of a curve.
const MOST_POINTS: usize = 1 << 12;

/// A curve through points.
#[derive(Clone, Copy, Debug)]
pub struct CurveEditor;

impl Node for CurveEditor {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Curve Editor"),
            inputs: vec![
                widget(
                    "curve",
                    "CURVE",
                    json!({"default": {"points": [[0.0, 0.0], [1.0, 1.0]], "interpolation": "monotone_cubic"}, "socketless": true}),
                ),
                optional(link("histogram", "HISTOGRAM")),
            ],
            outputs: vec![named_output("CURVE", "curve")],
            ..latest(
                "CurveEditor",
                "comfy_extras.nodes_curve",
                "utilities",
                json!({"has_intermediate_output": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let curve = match inputs.value("curve")? {
            Value::Json(json) => checked(&json),
            Value::Image(_)
            | Value::Mask(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::File(_)
            | Value::Opaque(_)
            | Value::Blocker(_) => None,
        };
        let curve = curve.ok_or_else(|| {
            NodeError::value(format!(
                "the curve must be a list of points [x, y], at most {MOST_POINTS}, or an object with such \"points\" and \
                 an \"interpolation\""
            ))
        })?;
        let mut output = NodeOutput::of([Value::from_json(&curve)]);
        if let Some(Value::Json(histogram)) = inputs.maybe("histogram") {
            output
                .ui
                .insert("histogram".to_owned(), Json::clone(&histogram));
        }
        Ok(output)
    }
}

/// The curve with its points as numbers and a way between them that is known.
fn checked(curve: &Json) -> Option<Json> {
    let (points, way) = match curve {
        Json::Object(fields) => (
            fields.get("points")?.as_array()?,
            fields.get("interpolation").and_then(Json::as_str),
        ),
        Json::Array(points) => (points, None),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return None,
    };
    let point = |point: &Json| match point.as_array()?.as_slice() {
        [x, y] => Some(json!([x.as_f64()?, y.as_f64()?])),
        _ => None,
    };
    if points.len() > MOST_POINTS {
        return None;
    }
    let points: Vec<Json> = points.iter().map(point).collect::<Option<_>>()?;
    let way = match way {
        Some("linear") => "linear",
        Some(_) | None => "monotone_cubic",
    };
    Some(json!({"points": points, "interpolation": way}))
}

/// How often each of 256 levels stands in the first picture of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ImageHistogram;

impl Node for ImageHistogram {
    fn definition(&self) -> NodeDefinition {
        NodeDefinition {
            display_name: named("Image Histogram"),
            inputs: vec![link("image", "IMAGE")],
            outputs: vec![
                named_output("HISTOGRAM", "rgb"),
                named_output("HISTOGRAM", "luminance"),
                named_output("HISTOGRAM", "red"),
                named_output("HISTOGRAM", "green"),
                named_output("HISTOGRAM", "blue"),
            ],
            ..latest(
                "ImageHistogram",
                "comfy_extras.nodes_curve",
                "utilities",
                json!({}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let image = inputs.image("image")?;
        let frame = image.first();
        if frame.channels() < 3 {
            return Err(NodeError::new(
                "IndexError",
                "the picture has fewer than 3 channels; make it RGB before",
            ));
        }
        let colors = [0, 1, 2].map(|channel| counted(frame, |pixel| pixel[channel]));
        let luminance = counted(frame, |pixel| {
            0.2126 * pixel[0] + 0.7152 * pixel[1] + 0.0722 * pixel[2]
        });
        let mean = std::array::from_fn(|level| colors.iter().map(|of| of[level]).sum::<u64>() / 3);
        let [red, green, blue] = colors;
        let told = [mean, luminance, red, green, blue]
            .map(|counts| Value::from_json(&json!(counts.to_vec())));
        Ok(NodeOutput::of(told))
    }
}

fn counted(frame: &Frame, value: impl Fn(&[f32]) -> f32) -> [u64; 256] {
    let mut counts = [0; 256];
    for pixel in frame.data().chunks_exact(frame.channels()) {
        // Truncated like everything that becomes 8 bits; what is no number counts as black.
        counts[(value(pixel) * 255.0).clamp(0.0, 255.0) as u8 as usize] += 1;
    }
    counts
}
