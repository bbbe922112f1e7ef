//! Boxes that a user draws over a picture, and the prompt that is made of them.

mod preview;

use serde_json::{Map, Value as Json, json};
use workflow_core::NodeDefinition;

use super::text::check_length;
use crate::define::{
    dynamic_combo, int_input, latest, link, modern_metadata, named, named_output, optional,
    string_input, widget,
};
use crate::{Inputs, Node, NodeContext, NodeError, NodeOutput, Value};

/// Boxes drawn in the page, in pixels and as elements of a prompt, and how they lie.
#[derive(Clone, Copy, Debug)]
pub struct CreateBoundingBoxes;

impl Node for CreateBoundingBoxes {
    fn definition(&self) -> NodeDefinition {
        let side = |name| {
            int_input(
                name,
                json!({"default": 1024, "min": 64, "max": 16384, "step": 16}),
            )
        };
        let boxes = |name, socketless| {
            let options = json!({"default": [], "socketless": socketless});
            widget(name, "BOUNDING_BOXES", options)
        };
        NodeDefinition {
            display_name: named("Create Bounding Boxes"),
            inputs: vec![
                optional(link("background", "IMAGE")),
                optional(link("bboxes", "BOUNDING_BOX,ARRAY,STRING")),
                side("width"),
                side("height"),
                boxes("editor_state", false),
                optional(boxes("last_incoming", true)),
            ],
            hidden: modern_metadata(),
            outputs: vec![
                named_output("IMAGE", "preview"),
                named_output("BOUNDING_BOX", "bboxes"),
                named_output("ARRAY", "elements"),
            ],
            output_node: true,
            ..latest(
                "CreateBoundingBoxes",
                "comfy_extras.nodes_bounding_boxes",
                "utilities",
                json!({"experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let (width, height): (u32, u32) = (inputs.int("width")?, inputs.int("height")?);
        if width == 0 || height == 0 {
            return Err(NodeError::value("the canvas must have at least 1x1 pixels"));
        }
        let size = (f64::from(width), f64::from(height));
        let incoming = incoming(inputs.maybe("bboxes"), size)?;
        let applied = list(inputs.maybe("last_incoming"));
        // What is linked counts until the page has shown it; from then on what was drawn counts.
        let is_new = !incoming.is_empty() && !alike(&incoming, &applied);
        let source = match is_new {
            true => incoming.clone(),
            false => list(inputs.maybe("editor_state")),
        };
        let regions: Vec<Region> = source
            .iter()
            .filter_map(Json::as_object)
            .map(|fields| Region::of(fields, size))
            .collect::<Result<_, _>>()?;
        let background = match inputs.has("background") {
            true => Some(inputs.image("background")?),
            false => None,
        };
        let preview = preview::drawn(&regions, size, background, context)?;
        let pixels: Vec<Json> = regions.iter().map(|region| region.pixels(size)).collect();
        // One frame of boxes, or none.
        let frames = match pixels.is_empty() {
            true => json!([]),
            false => json!([pixels]),
        };
        let elements: Vec<Json> = regions.into_iter().map(Region::element).collect();
        let mut output = NodeOutput::of([
            preview.into(),
            Value::from_json(&frames),
            Value::from_json(&Json::Array(elements)),
        ]);
        output.ui.insert("dims".to_owned(), json!([width, height]));
        if !incoming.is_empty() {
            output.ui.insert("input_bboxes".to_owned(), incoming.into());
        }
        Ok(output)
    }
}

/// The prompt of the Ideogram 4 model, with the elements that boxes became.
#[derive(Clone, Copy, Debug)]
pub struct BuildJsonPromptIdeogram;

impl Node for BuildJsonPromptIdeogram {
    fn definition(&self) -> NodeDefinition {
        let short = |name| string_input(name, json!({"default": "", "multiline": false}));
        let long = |name| string_input(name, json!({"default": "", "multiline": true}));
        let styles = vec![
            ("none", vec![]),
            ("photo", vec![short("photo")]),
            ("art_style", vec![short("art_style")]),
        ];
        NodeDefinition {
            display_name: named("Build JSON Prompt (Ideogram)"),
            inputs: vec![
                link("element", "ARRAY"),
                long("high_level_description"),
                long("background"),
                dynamic_combo("style", styles, json!({})),
                short("aesthetics"),
                short("lighting"),
                short("medium"),
                widget(
                    "color_palette",
                    "COLORS",
                    json!({"default": [], "socketless": false}),
                ),
            ],
            outputs: vec![named_output("DICT", "prompt")],
            ..latest(
                "BuildJsonPromptIdeogram",
                "comfy_extras.nodes_json_prompt",
                "text",
                json!({"experimental": true}),
            )
        }
    }

    fn run(&self, mut inputs: Inputs, _context: &NodeContext) -> Result<NodeOutput, NodeError> {
        let elements = list(inputs.maybe("element"));
        let palette = match inputs.maybe("color_palette") {
            Some(Value::Json(colors)) => palette(&colors),
            _ => Vec::new(),
        };
        let text = |name: &str| inputs.text(name).map(Json::from);
        let mut caption = Map::new();
        let description = inputs.text("high_level_description")?;
        if !description.trim().is_empty() {
            caption.insert("high_level_description".to_owned(), description.into());
        }
        // The order is the one that the model was trained with.
        let fields: &[&str] = match inputs.text("style")? {
            "photo" => &["aesthetics", "lighting", "photo", "medium"],
            "art_style" => &["aesthetics", "lighting", "medium", "art_style"],
            _ => &[],
        };
        let mut style = Map::new();
        for field in fields {
            let value = match *field {
                "photo" | "art_style" => text(&format!("style.{field}"))?,
                _ => text(field)?,
            };
            style.insert((*field).to_owned(), value);
        }
        if !style.is_empty() {
            if !palette.is_empty() {
                style.insert("color_palette".to_owned(), json!(palette));
            }
            caption.insert("style_description".to_owned(), style.into());
        }
        caption.insert(
            "compositional_deconstruction".to_owned(),
            json!({"background": inputs.text("background")?, "elements": elements}),
        );
        Ok(Value::from_json(&Json::Object(caption)).into())
    }
}

/// A box as parts of the canvas, and what is in it.
#[derive(Clone, Debug)]
struct Region {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    is_text: bool,
    text: Json,
    description: Json,
    palette: Vec<String>,
}

impl Region {
    fn of(fields: &Map<String, Json>, (width, height): (f64, f64)) -> Result<Self, NodeError> {
        let side = |name: &str| match fields.get(name) {
            None => Ok(0.0),
            Some(value) => value.as_f64().ok_or_else(|| {
                NodeError::value(format!("{name} of a box must be a number, not {value}"))
            }),
        };
        let empty = Map::new();
        let told = fields.get("metadata").and_then(Json::as_object);
        let told = told.unwrap_or(&empty);
        let of = |name: &str| told.get(name).cloned().unwrap_or_else(|| json!(""));
        Ok(Self {
            left: side("x")? / width,
            top: side("y")? / height,
            width: side("width")? / width,
            height: side("height")? / height,
            is_text: told.get("type").and_then(Json::as_str) == Some("text"),
            text: of("text"),
            description: of("desc"),
            palette: told.get("palette").map_or_else(Vec::new, palette),
        })
    }

    /// The box in pixels, its sides turned to where they are none below 0.
    fn pixels(&self, (width, height): (f64, f64)) -> Json {
        let turned = |at: f64, side: f64| match side < 0.0 {
            true => (at + side, -side),
            false => (at, side),
        };
        let (x, own_width) = turned(self.left, self.width);
        let (y, own_height) = turned(self.top, self.height);
        json!({
            "x": whole(x * width),
            "y": whole(y * height),
            "width": whole(own_width * width),
            "height": whole(own_height * height),
        })
    }

    /// The element of a prompt, on a grid of 1000 places.
    fn element(self) -> Json {
        let place = |part: f64| whole(part * 1000.0).clamp(0, 1000);
        let sorted = |a: i64, b: i64| (a.min(b), a.max(b));
        let (top, bottom) = sorted(place(self.top), place(self.top + self.height));
        let (left, right) = sorted(place(self.left), place(self.left + self.width));
        let kind = if self.is_text { "text" } else { "obj" };
        let mut element = Map::new();
        element.insert("type".to_owned(), kind.into());
        element.insert("bbox".to_owned(), json!([top, left, bottom, right]));
        if self.is_text {
            element.insert("text".to_owned(), self.text);
        }
        element.insert("desc".to_owned(), self.description);
        if !self.palette.is_empty() {
            let most = self.palette.len().min(5);
            element.insert("color_palette".to_owned(), json!(self.palette[..most]));
        }
        element.into()
    }
}

/// Python's `round`: half of a whole goes to the even one.
fn whole(number: f64) -> i64 {
    number.round_ties_even() as i64
}

/// The colours of a list, or of an object's values, in capitals.
fn palette(colors: &Json) -> Vec<String> {
    let capital = |color: &Json| {
        let color = color.as_str().filter(|color| !color.is_empty());
        color.map(str::to_uppercase)
    };
    match colors {
        Json::Array(colors) => colors.iter().filter_map(capital).collect(),
        Json::Object(colors) => colors.values().filter_map(capital).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Vec::new(),
    }
}

/// The items of a value that is a list, and none of others.
fn list(value: Option<Value>) -> Vec<Json> {
    match value {
        Some(Value::Json(json)) => json.as_array().cloned().unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The boxes that are linked: boxes, elements of a prompt, or the JSON of either.
pub(super) fn incoming(value: Option<Value>, size: (f64, f64)) -> Result<Vec<Json>, NodeError> {
    let wrong = || {
        NodeError::value(
            "bboxes must be boxes (x, y, width, height), elements (with a bbox of four numbers), or the JSON of either",
        )
    };
    let json = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => {
            check_length(text.len())?;
            json_text::read_str(&text).map_err(|error| {
                NodeError::value(format!("the text in bboxes is no valid JSON: {error}"))
            })?
        }
        Some(Value::Json(json)) => (*json).clone(),
        Some(_) => return Err(wrong()),
    };
    let items = match json {
        Json::Array(items) => items,
        single @ Json::Object(_) => vec![single],
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => return Err(wrong()),
    };
    match items.first() {
        None => Ok(Vec::new()),
        // The boxes of the first picture of several.
        Some(Json::Array(frame)) => Ok(frame.iter().filter_map(normal).collect()),
        Some(first)
            if first["bbox"]
                .as_array()
                .is_some_and(|sides| sides.len() == 4) =>
        {
            let elements = items.iter().filter(|item| item.is_object());
            elements.map(|element| placed(element, size)).collect()
        }
        Some(Json::Object(first)) => {
            let sides = ["x", "y", "width", "height"];
            match sides.iter().all(|side| first.contains_key(*side)) {
                true => Ok(items.iter().filter_map(normal).collect()),
                false => Err(wrong()),
            }
        }
        Some(_) => Err(wrong()),
    }
}

/// A box with its sides and what it says of itself, and nothing else.
fn normal(item: &Json) -> Option<Json> {
    let fields = item.as_object()?;
    let side = |name: &str| fields.get(name).cloned().unwrap_or_else(|| json!(0));
    let mut normal = json!({
        "x": side("x"), "y": side("y"), "width": side("width"), "height": side("height"),
    });
    if let Some(told) = fields.get("metadata").filter(|told| told.is_object()) {
        normal["metadata"] = told.clone();
    }
    Some(normal)
}

/// The box of an element.
fn placed(element: &Json, (width, height): (f64, f64)) -> Result<Json, NodeError> {
    if width == 0.0 || height == 0.0 {
        return Err(NodeError::value(
            "elements lie on a grid, so canvas_width and canvas_height must give the size of the canvas",
        ));
    }
    let sides = element["bbox"].as_array().map_or(&[][..], Vec::as_slice);
    let sides: Vec<f64> = sides.iter().filter_map(Json::as_f64).collect();
    let [top, left, bottom, right] = sides[..] else {
        return Err(NodeError::value(
            "the bbox of an element must be four numbers: ymin, xmin, ymax, xmax",
        ));
    };
    let [top, left, bottom, right] = [top, left, bottom, right].map(|side| side / 1000.0);
    let is_text = element["type"] == "text";
    let of = |name: &str, default: Json| element.get(name).cloned().unwrap_or(default);
    Ok(json!({
        "x": whole(left.min(right) * width),
        "y": whole(top.min(bottom) * height),
        "width": whole((right - left).abs() * width),
        "height": whole((bottom - top).abs() * height),
        "metadata": {
            "type": if is_text { "text" } else { "obj" },
            "text": if is_text { of("text", json!("")) } else { json!("") },
            "desc": of("desc", json!("")),
            "palette": of("color_palette", json!([])),
        },
    }))
}

/// Whether two lists are equal; numbers by value, because the page writes whole floats without a fraction.
fn alike(one: &[Json], other: &[Json]) -> bool {
    fn same(one: &Json, other: &Json) -> bool {
        match (one, other) {
            (Json::Number(one), Json::Number(other)) => one.as_f64() == other.as_f64(),
            (Json::Array(one), Json::Array(other)) => alike(one, other),
            (Json::Object(one), Json::Object(other)) => {
                let same = |(key, value): (&String, &Json)| {
                    other.get(key).is_some_and(|other| same(value, other))
                };
                one.len() == other.len() && one.iter().all(same)
            }
            _ => one == other,
        }
    }
    let mut pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.all(|(one, other)| same(one, other))
}
