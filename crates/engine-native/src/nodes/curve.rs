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

/// Samples of a curve that is looked up.
const SAMPLES: usize = 256;

/// What a curve gives from 0 to 1, as the editor draws it: by lines or by a cubic that turns only at points.
pub(super) fn samples(curve: &Json) -> Option<Vec<f32>> {
    let curve = checked(curve)?;
    let coordinate = |point: &Json, at: usize| point[at].as_f64();
    let points = curve["points"].as_array()?.iter();
    let points = points.map(|point| Some((coordinate(point, 0)?, coordinate(point, 1)?)));
    let mut points: Vec<(f64, f64)> = points.collect::<Option<_>>()?;
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let is_linear = curve["interpolation"] == "linear";
    let slopes = slopes(&points);
    let sample = |at: usize| {
        let x = at as f64 * (1.0 / (SAMPLES - 1) as f64);
        between(&points, &slopes, is_linear, x) as f32
    };
    Some((0..SAMPLES).map(sample).collect())
}

/// The height of a curve at a place; beyond its ends that of the nearer one.
fn between(points: &[(f64, f64)], slopes: &[f64], is_linear: bool, x: f64) -> f64 {
    let [first, .., last] = points else {
        return points.first().map_or(0.0, |point| point.1);
    };
    if x >= last.0 {
        return last.1;
    }
    if x <= first.0 {
        return first.1;
    }
    let high = points.partition_point(|point| point.0 <= x);
    let high = high.clamp(1, points.len() - 1);
    let ((x0, y0), (x1, y1)) = (points[high - 1], points[high]);
    let width = x1 - x0;
    if is_linear {
        return (y1 - y0) / width * (x - x0) + y0;
    }
    let t = if width == 0.0 { 0.0 } else { (x - x0) / width };
    let (t2, t3) = (t * t, t * t * t);
    let from = (2.0 * t3 - 3.0 * t2 + 1.0) * y0 + (t3 - 2.0 * t2 + t) * width * slopes[high - 1];
    from + (-2.0 * t3 + 3.0 * t2) * y1 + (t3 - t2) * width * slopes[high]
}

/// The slope at each point: none at a turn, and nowhere so steep that the curve would leave the range of two points.
fn slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let pairs = points.windows(2);
    let rises: Vec<f64> = pairs
        .map(|pair| {
            let width = pair[1].0 - pair[0].0;
            if width == 0.0 {
                0.0
            } else {
                (pair[1].1 - pair[0].1) / width
            }
        })
        .collect();
    let (Some(first), Some(last)) = (rises.first(), rises.last()) else {
        return vec![0.0; points.len()];
    };
    let mut slopes = vec![*first];
    slopes.extend(rises.windows(2).map(|pair| match pair[0] * pair[1] <= 0.0 {
        true => 0.0,
        false => (pair[0] + pair[1]) / 2.0,
    }));
    slopes.push(*last);
    for (at, rise) in rises.iter().copied().enumerate() {
        if rise == 0.0 {
            (slopes[at], slopes[at + 1]) = (0.0, 0.0);
            continue;
        }
        let (alpha, beta) = (slopes[at] / rise, slopes[at + 1] / rise);
        let steepness = alpha * alpha + beta * beta;
        if steepness > 9.0 {
            let share = 3.0 / steepness.sqrt();
            (slopes[at], slopes[at + 1]) = (share * alpha * rise, share * beta * rise);
        }
    }
    slopes
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
                "the picture has fewer than 3 channels; connect an RGB or RGBA image, such as the output of Load Image",
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
