//! The composition that the page's editor saves in a graph. It comes from outside: what it lacks or what makes no sense is taken
//! as the editor's default, and a whole that cannot be read counts as none.

use std::sync::LazyLock;

use images::kernel::layers::{Blend, Placement};
use serde_json::{Map, Value as Json};

use super::FARTHEST;

/// A saved composition.
pub(super) struct Saved {
    /// Columns and rows.
    pub(super) canvas: (usize, usize),
    /// What the pictures were that it was made of.
    pub(super) inputs: Option<Vec<String>>,
    pub(super) background: Option<([u8; 3], f32)>,
    layers: Vec<Json>,
    order: Option<Vec<usize>>,
}

/// Whether something was saved.
pub(super) fn is_there(raw: &Json) -> bool {
    match raw {
        Json::Object(fields) => !fields.is_empty(),
        Json::String(text) => !["", "{}"].contains(&text.as_str()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => false,
    }
}

impl Saved {
    pub(super) fn of(raw: &Json) -> Option<Self> {
        let parsed;
        let state = match raw.as_str() {
            Some(text) => {
                parsed = json_text::read_str(text).ok()?;
                parsed.as_object()?
            }
            None => raw.as_object()?,
        };
        let version = state.get("version").filter(|version| !version.is_null());
        if version.is_some_and(|version| version.as_f64() != Some(1.0)) {
            return None;
        }
        let layers = state.get("layers")?.as_array()?;
        let canvas = state.get("canvas")?.as_object()?;
        let side = |name: &str| {
            let side = canvas.get(name)?.as_f64()?.round_ties_even();
            (side >= 1.0).then_some(side as usize)
        };
        let canvas = (side("w")?, side("h")?);
        if layers.is_empty() {
            return None;
        }
        let inputs = state.get("inputs").and_then(Json::as_array);
        let inputs = inputs.and_then(|inputs| {
            let texts = inputs.iter().map(|input| input.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        Some(Self {
            canvas,
            inputs: inputs.filter(|inputs| inputs.len() == layers.len()),
            background: state.get("background").and_then(background),
            order: order(state.get("order"), layers.len()),
            layers: layers.clone(),
        })
    }

    /// The layers from the lowest to the highest.
    pub(super) fn order(&self) -> Vec<usize> {
        let all = || (0..self.layers.len()).collect();
        self.order.clone().unwrap_or_else(all)
    }

    /// How a layer lies whose picture has this size; `None` if it is not shown.
    pub(super) fn placement(
        &self,
        at: usize,
        (width, height): (usize, usize),
    ) -> Option<Placement> {
        let layer = fields(self.layers.get(at));
        if !is_true(layer.get("visible"), true) {
            return None;
        }
        let place = fields(layer.get("transform"));
        let most = FARTHEST as f64;
        let side = |name: &str, natural: usize| {
            let natural = natural as f64;
            let side = number(place, name, natural);
            if side <= 0.0 { natural } else { side.min(most) }
        };
        let blend = layer.get("blend").and_then(Json::as_str);
        Some(Placement {
            x: number(place, "x", 0.0).clamp(-most, most),
            y: number(place, "y", 0.0).clamp(-most, most),
            width: side("w", width),
            height: side("h", height),
            rotation: number(place, "rotation", 0.0),
            flip_x: is_true(layer.get("flipH"), false),
            flip_y: is_true(layer.get("flipV"), false),
            opacity: number(layer, "opacity", 1.0).clamp(0.0, 1.0) as f32,
            blend: blend.and_then(Blend::named).unwrap_or(Blend::NORMAL),
        })
    }
}

/// The fields of an object; none of anything else.
fn fields(json: Option<&Json>) -> &Map<String, Json> {
    static NONE: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);
    json.and_then(Json::as_object).unwrap_or(&NONE)
}

/// The colour behind all layers, if it is shown.
fn background(entry: &Json) -> Option<([u8; 3], f32)> {
    let entry = entry.as_object()?;
    let opacity = number(entry, "opacity", 1.0).clamp(0.0, 1.0);
    let is_shown = is_true(entry.get("visible"), true) && opacity > 0.0;
    let color = entry.get("color").and_then(Json::as_str);
    let color = color.and_then(color_of).unwrap_or([u8::MAX; 3]);
    is_shown.then_some((color, opacity as f32))
}

/// `#rgb` or `#rrggbb`.
fn color_of(text: &str) -> Option<[u8; 3]> {
    let digits = text.trim().strip_prefix('#')?;
    let digits: Vec<u32> = digits
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    let color = match digits[..] {
        [r, g, b] => [r * 17, g * 17, b * 17],
        [r1, r2, g1, g2, b1, b2] => [r1 * 16 + r2, g1 * 16 + g2, b1 * 16 + b2],
        _ => return None,
    };
    Some(color.map(|level| level as u8))
}

/// An order that names every layer once.
fn order(value: Option<&Json>, count: usize) -> Option<Vec<usize>> {
    let places = value?.as_array()?.iter();
    let order: Vec<usize> = places
        .map(|place| usize::try_from(place.as_u64()?).ok())
        .collect::<Option<_>>()?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..count).then_some(order)
}

fn number(from: &Map<String, Json>, name: &str, default: f64) -> f64 {
    from.get(name).and_then(Json::as_f64).unwrap_or(default)
}

/// What Python takes for true.
fn is_true(value: Option<&Json>, default: bool) -> bool {
    match value {
        None => default,
        Some(Json::Null) => false,
        Some(Json::Bool(value)) => *value,
        Some(Json::Number(number)) => number.as_f64() != Some(0.0),
        Some(Json::String(text)) => !text.is_empty(),
        Some(Json::Array(items)) => !items.is_empty(),
        Some(Json::Object(fields)) => !fields.is_empty(),
    }
}
