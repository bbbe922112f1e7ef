//! Paths along which things move in a video: made, put together and drawn.

mod drawn;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use workflow_core::{InputDefinition, NodeDefinition};

use super::class::Class;
use super::text::check_length;
use crate::define::{
    boolean_input, float_input, int_input, latest, link, modern_combo, named, named_output,
    optional, output, string_input,
};
use crate::value::Opaque;
use crate::{Inputs, NodeContext, NodeError, NodeOutput, Value};
use images::Mask;

pub(super) const CLASSES: &[Class] = &[
    (coordinates_definition, from_coordinates),
    (generate_definition, generate),
    (join_definition, join),
    (draw_definition, drawn::draw),
];

/// The value of a `TRACKS` socket: where each of several things is in each frame, and whether it is seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracks {
    /// By frame, the place of each track, across and down.
    pub places: Vec<Vec<[f32; 2]>>,
    /// By frame, for each track or for all.
    pub visible: Vec<Vec<bool>>,
}

impl From<Tracks> for Value {
    fn from(tracks: Tracks) -> Self {
        let places = tracks.places.iter().map(|places| size_of_val(&**places));
        let visible = tracks.visible.iter().map(Vec::len);
        let rows = (tracks.places.len() + tracks.visible.len()) * size_of::<Vec<bool>>();
        let size = places.chain(visible).sum::<usize>() + rows;
        Opaque::new("TRACKS", tracks, size as u64).into()
    }
}

const MODULE: &str = "comfy_extras.nodes_wanmove";
const CATEGORY: &str = "model/conditioning/wan/move";

fn tracks(name: &str) -> InputDefinition {
    link(name, "TRACKS")
}

/// Room for so many tracks in so many frames.
fn reserve(frames: usize, count: usize, context: &NodeContext) -> Result<(), NodeError> {
    let of_frame = count.saturating_mul(size_of::<[f32; 2]>() + 1);
    let of_frame = of_frame.saturating_add(2 * size_of::<Vec<bool>>());
    context.reserve(frames.saturating_mul(of_frame) as u64)
}

/// Whether each frame is seen: where its mask has a lighter part, or always without masks.
fn visible(mask: Option<Mask>, frames: usize, count: usize) -> Vec<Vec<bool>> {
    let Some(mask) = mask else {
        return vec![vec![true; count]; frames];
    };
    let is_seen = |frame: &Arc<images::Frame>| frame.data().iter().any(|sample| *sample > 0.0);
    mask.frames()
        .iter()
        .map(|frame| vec![is_seen(frame)])
        .collect()
}

fn maybe_mask(inputs: &mut Inputs) -> Result<Option<Mask>, NodeError> {
    match inputs.has("track_mask") {
        true => inputs.mask("track_mask").map(Some),
        false => Ok(None),
    }
}

fn with_length(places: Vec<Vec<[f32; 2]>>, mask: Option<Mask>) -> NodeOutput {
    let length = places.len();
    let count = places.first().map_or(0, Vec::len);
    let visible = visible(mask, length, count);
    let tracks = Tracks { places, visible };
    NodeOutput::of([tracks.into(), Value::Int(length as i128)])
}

fn coordinates_definition() -> NodeDefinition {
    let coordinates = json!({"default": "[]", "forceInput": true, "multiline": false});
    NodeDefinition {
        inputs: vec![
            optional(string_input("track_coords", coordinates)),
            optional(link("track_mask", "MASK")),
        ],
        outputs: vec![output("TRACKS"), named_output("INT", "track_length")],
        ..latest("WanMoveTracksFromCoords", MODULE, CATEGORY, json!({}))
    }
}

fn from_coordinates(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let wrong = || {
        NodeError::value(
            "track_coords must be the JSON of a track, a list of places {\"x\": 1, \"y\": 2}, or of a list of tracks, of which none is shorter than the first",
        )
    };
    let text = match inputs.has("track_coords") {
        true => inputs.text("track_coords")?,
        false => return Err(wrong()),
    };
    check_length(text.len())?;
    // Text that Python wrote has other quotes.
    let text = text.replace('\'', "\"");
    context.reserve(text.len() as u64)?;
    let Ok(Json::Array(items)) = json_text::read_str(&text) else {
        return Err(wrong());
    };
    let tracks = match items.first() {
        Some(Json::Object(_)) => vec![items],
        _ => {
            let tracks = items.into_iter().map(|item| match item {
                Json::Array(places) => Some(places),
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Object(_) => None,
            });
            tracks.collect::<Option<Vec<_>>>().ok_or_else(wrong)?
        }
    };
    let length = tracks.first().map_or(0, Vec::len);
    if length == 0 {
        return Err(wrong());
    }
    reserve(length, tracks.len(), context)?;
    let place = |track: &Vec<Json>, frame: usize| {
        let place = track.get(frame)?;
        let side = |name: &str| Some(place.get(name)?.as_f64()? as f32);
        Some([side("x")?, side("y")?])
    };
    let frame = |frame: usize| tracks.iter().map(|track| place(track, frame)).collect();
    let places: Option<Vec<Vec<[f32; 2]>>> = (0..length).map(frame).collect();
    let mask = maybe_mask(inputs)?;
    Ok(with_length(places.ok_or_else(wrong)?, mask))
}

fn generate_definition() -> NodeDefinition {
    let side = |name, default| {
        int_input(
            name,
            json!({"default": default, "min": 16, "max": 4096, "step": 16}),
        )
    };
    let part = |name, default: f64, tooltip: &str| {
        float_input(
            name,
            json!({"tooltip": tooltip, "default": default, "min": 0.0, "max": 1.0, "step": 0.01}),
        )
    };
    let place = |name, default: f64, axis: &str, of: &str| {
        part(
            name,
            default,
            &format!("Normalized {axis} coordinate (0-1) for {of} position."),
        )
    };
    let control = |name, axis: &str| {
        part(
            name,
            0.5,
            &format!(
                "Normalized {axis} control point for Bezier curve. Only used when 'bezier' is enabled."
            ),
        )
    };
    let spread = json!({
        "tooltip": "Normalized distance between tracks. Tracks are spread perpendicular to the motion direction.",
        "default": 0.025, "min": 0.0, "max": 1.0, "step": 0.001,
    });
    let bezier = json!({
        "tooltip": "Enable Bezier curve path using the mid point as control point.",
        "default": false,
    });
    let mut mask = optional(link("track_mask", "MASK"));
    let tooltip = "Optional mask to indicate visible frames.";
    mask.options.insert("tooltip".to_owned(), tooltip.into());
    NodeDefinition {
        display_name: named("Generate Video Tracks"),
        inputs: vec![
            side("width", 832),
            side("height", 480),
            place("start_x", 0.0, "X", "start"),
            place("start_y", 0.0, "Y", "start"),
            place("end_x", 1.0, "X", "end"),
            place("end_y", 1.0, "Y", "end"),
            int_input("num_frames", json!({"default": 81, "min": 1, "max": 1024})),
            int_input("num_tracks", json!({"default": 5, "min": 1, "max": 100})),
            float_input("track_spread", spread),
            boolean_input("bezier", bezier),
            control("mid_x", "X"),
            control("mid_y", "Y"),
            modern_combo(
                "interpolation",
                &["linear", "ease_in", "ease_out", "ease_in_out", "constant"],
                json!({"tooltip": "Controls the timing/speed of movement along the path."}),
            ),
            mask,
        ],
        outputs: vec![output("TRACKS"), named_output("INT", "track_length")],
        ..latest(
            "GenerateTracks",
            MODULE,
            CATEGORY,
            json!({"search_aliases": ["motion paths", "camera movement", "trajectory"]}),
        )
    }
}

/// From 0 to 1 in so many steps.
fn time(frame: usize, frames: usize) -> f32 {
    let step = 1.0 / frames.saturating_sub(1).max(1) as f32;
    match frame < frames / 2 || frames == 1 {
        true => step * frame as f32,
        false => 1.0 - step * (frames - 1 - frame) as f32,
    }
}

fn generate(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let (width, height) = (
        inputs.int::<i64>("width")? as f64,
        inputs.int::<i64>("height")? as f64,
    );
    let frames = inputs.count("num_frames")?;
    let count = inputs.count("num_tracks")?;
    if frames == 0 || count == 0 {
        return Err(NodeError::value(
            "there must be at least one track and one frame",
        ));
    }
    reserve(frames, count, context)?;
    let point = |x: &str, y: &str| {
        Ok::<_, NodeError>([inputs.float(x)? * width, inputs.float(y)? * height])
    };
    let (start, end) = (point("start_x", "start_y")?, point("end_x", "end_y")?);
    let middle = point("mid_x", "mid_y")?;
    let spread = inputs.float("track_spread")? * (width + height) / 2.0;
    let is_curve = inputs.boolean("bezier")?;
    let eased: fn(f32) -> f32 = inputs.choice("interpolation", |word| {
        let eased: fn(f32) -> f32 = match word {
            "linear" => |time| time,
            "ease_in" => |time| time * time,
            "ease_out" => |time| 1.0 - (1.0 - time) * (1.0 - time),
            "ease_in_out" => |time| time * time * (3.0 - 2.0 * time),
            "constant" => |_| 0.0,
            _ => return None,
        };
        Some(eased)
    })?;
    let mut places = Vec::with_capacity(frames);
    for frame in 0..frames {
        context.check()?;
        let at = eased(time(frame, frames));
        let along = |axis: usize| match is_curve {
            true => curve(at, start[axis], middle[axis], end[axis]),
            false => {
                let way = (end[axis] - start[axis]) as f32;
                (start[axis] as f32 + way * at, way)
            }
        };
        let ((x, across), (y, down)) = (along(0), along(1));
        let (across, down) = (f64::from(across), f64::from(down));
        let length = across.hypot(down);
        // Tracks lie beside each other, across the way that they go.
        let beside = match length > 0.0 {
            true => [-down / length, across / length],
            false => [1.0, 0.0],
        };
        let track = |track: usize| {
            let offset = (track as f64 - (count as f64 - 1.0) / 2.0) * spread;
            let place = |center: f32, beside: f64| (f64::from(center) + beside * offset) as f32;
            [place(x, beside[0]), place(y, beside[1])]
        };
        places.push((0..count).map(track).collect());
    }
    let mask = maybe_mask(inputs)?;
    Ok(with_length(places, mask))
}

/// A place on a curve with one control point, and how fast it is passed.
fn curve(at: f32, start: f64, middle: f64, end: f64) -> (f32, f32) {
    let rest = 1.0 - at;
    let place = rest * rest * start as f32 + 2.0 * rest * at * middle as f32 + at * at * end as f32;
    let pace = 2.0 * rest * (middle - start) as f32 + 2.0 * at * (end - middle) as f32;
    (place, pace)
}

fn join_definition() -> NodeDefinition {
    NodeDefinition {
        inputs: vec![tracks("tracks_1"), optional(tracks("tracks_2"))],
        outputs: vec![output("TRACKS")],
        ..latest("WanMoveConcatTrack", MODULE, CATEGORY, json!({}))
    }
}

fn join(inputs: &mut Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
    let first: &Tracks = inputs.opaque("tracks_1")?;
    if !inputs.has("tracks_2") {
        return Ok(inputs.value("tracks_1")?.into());
    }
    let second: &Tracks = inputs.opaque("tracks_2")?;
    for (what, one, other) in [
        ("tracks", first.places.len(), second.places.len()),
        (
            "masks of the tracks",
            first.visible.len(),
            second.visible.len(),
        ),
    ] {
        if one != other {
            return Err(NodeError::value(format!(
                "the {what} have {one} and {other} frames; use {what} of one length"
            )));
        }
    }
    let count = |tracks: &Tracks| tracks.places.first().map_or(0, Vec::len);
    reserve(first.places.len(), count(first) + count(second), context)?;
    let joined = Tracks {
        places: beside(&first.places, &second.places),
        visible: beside(&first.visible, &second.visible),
    };
    Ok(Value::from(joined).into())
}

/// Frame by frame, the one and then the other.
fn beside<T: Clone>(first: &[Vec<T>], second: &[Vec<T>]) -> Vec<Vec<T>> {
    let frames = first.iter().zip(second);
    let joined = frames.map(|(first, second)| [first.as_slice(), second].concat());
    joined.collect()
}

fn draw_definition() -> NodeDefinition {
    let pixels = |name, default: usize, max: usize, is_advanced| {
        let mut bounds = json!({"default": default, "min": 1, "max": max});
        if is_advanced {
            bounds["advanced"] = true.into();
        }
        int_input(name, bounds)
    };
    let opacity = json!({"default": 0.75, "min": 0.0, "max": 1.0, "step": 0.01});
    NodeDefinition {
        inputs: vec![
            link("images", "IMAGE"),
            pixels("line_resolution", 24, 1024, false),
            pixels("circle_size", 12, 128, true),
            float_input("opacity", opacity),
            pixels("line_width", 16, 128, true),
            optional(tracks("tracks")),
        ],
        outputs: vec![output("IMAGE")],
        ..latest("WanMoveVisualizeTracks", MODULE, CATEGORY, json!({}))
    }
}
