//! The inputs of a node: how clients see them, and what they put into a body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine_native::define::{
    boolean_input, float_input, int_input, link, modern_combo, optional, string_input,
};
use engine_native::images::Image;
use engine_native::images::codec::encode_png;
use engine_native::{Inputs, NodeContext, NodeError};
use router_core::PictureEncoding;
use serde_json::{Map, Number, Value, json};
use workflow_core::InputDefinition;

use super::problem;
use super::schema::{Field, Form, Kind, Several, put};

/// What stands for a member that is left out, where a list of choices has no word of its own for that.
pub(super) const UNSET: &str = "model default";

/// The input that changes nothing but that the model is asked again, where its body has no member of that name.
const AGAIN: &str = "ask_again";

/// What whole numbers without bounds are held to: what every partner can read.
const WHOLE: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);

/// The inputs as clients see them, required ones first.
pub(super) fn definitions(form: &Form) -> Vec<InputDefinition> {
    let mut inputs: Vec<InputDefinition> = form.fields.iter().map(definition).collect();
    if !inputs.iter().any(|input| input.name == AGAIN) {
        let tooltip = "Another number runs the model again, and bills it again; the number is not sent to the model.";
        let options = json!({"default": 0, "min": 0, "max": WHOLE.1, "tooltip": tooltip});
        inputs.push(optional(int_input(AGAIN, options)));
    }
    inputs.sort_by_key(|input| !input.required);
    inputs
}

fn definition(field: &Field) -> InputDefinition {
    let name = field.name.clone();
    let mut input = match &field.kind {
        Kind::Picture(..) => link(&name, "IMAGE"),
        Kind::Text { default } => {
            let multiline = is_long(&name);
            let default = default.as_deref().unwrap_or_default();
            string_input(&name, json!({"default": default, "multiline": multiline}))
        }
        Kind::Choice { values, default } => {
            let mut labels: Vec<String> = values.iter().map(label).collect();
            let default = match default {
                Some(default) => label(default),
                None if field.required => labels[0].clone(),
                None => {
                    labels.insert(0, UNSET.to_owned());
                    UNSET.to_owned()
                }
            };
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            modern_combo(&name, &labels, json!({"default": default}))
        }
        Kind::Whole {
            min,
            max,
            step,
            default,
        } => {
            let (min, max) = whole_bounds(&name, *min, *max);
            let preset = default.unwrap_or(0.clamp(min, max.max(min)));
            let mut options =
                json!({"default": preset, "min": min, "max": max, "step": step.unwrap_or(1)});
            if is_seed(&name) {
                options["control_after_generate"] = true.into();
            }
            let is_unset = default.is_none() && !is_seed(&name);
            int_input(&name, only_linked(options, field, is_unset))
        }
        Kind::Number {
            min,
            max,
            step,
            default,
        } => {
            let (min, max) = number_bounds(*min, *max);
            let preset = default.unwrap_or(0.0_f64.clamp(min, max.max(min)));
            let options =
                json!({"default": preset, "min": min, "max": max, "step": step.unwrap_or(0.01)});
            float_input(&name, only_linked(options, field, default.is_none()))
        }
        Kind::Truth { default } => {
            let options = json!({"default": default.unwrap_or(false)});
            boolean_input(&name, only_linked(options, field, default.is_none()))
        }
        Kind::Json => {
            let preset = if field.path.is_empty() { "{}" } else { "" };
            string_input(&name, json!({"default": preset, "multiline": true}))
        }
    };
    if !field.description.is_empty() {
        let tooltip = field.description.clone();
        input.options.insert("tooltip".to_owned(), tooltip.into());
    }
    if field.required {
        input
    } else {
        optional(input)
    }
}

/// A widget always has a value, so what the model itself decides when it is left out is an input to link.
fn only_linked(mut options: Value, field: &Field, is_unset: bool) -> Value {
    if is_unset && !field.required {
        options["forceInput"] = true.into();
    }
    options
}

/// What a member holds in a new node in which people filled in nothing; nothing if the body leaves it out.
pub(super) fn preset(field: &Field) -> Option<Value> {
    let name = &field.name;
    match &field.kind {
        Kind::Text { default } => {
            let text = default.clone().unwrap_or_default();
            (field.required || !text.is_empty()).then(|| text.into())
        }
        Kind::Choice { values, default } => {
            let first = values.first().filter(|_| field.required);
            default.as_ref().or(first).cloned()
        }
        Kind::Whole {
            min, max, default, ..
        } => {
            let (min, max) = whole_bounds(name, *min, *max);
            let is_shown = field.required || is_seed(name);
            let shown = is_shown.then(|| 0.clamp(min, max.max(min)));
            default.or(shown).map(Value::from)
        }
        Kind::Number {
            min, max, default, ..
        } => {
            let (min, max) = number_bounds(*min, *max);
            let shown = field.required.then(|| 0.0_f64.clamp(min, max.max(min)));
            default.or(shown).map(Value::from)
        }
        Kind::Truth { default } => default.or(field.required.then_some(false)).map(Value::from),
        Kind::Picture(..) | Kind::Json => None,
    }
}

/// Whether people let the page draw lots for a number.
fn is_seed(name: &str) -> bool {
    let last = name.rsplit('.').next();
    last.is_some_and(|last| last.contains("seed"))
}

fn whole_bounds(name: &str, min: Option<i64>, max: Option<i64>) -> (i64, i64) {
    let lowest = if is_seed(name) { 0 } else { WHOLE.0 };
    (min.unwrap_or(lowest), max.unwrap_or(WHOLE.1))
}

fn number_bounds(min: Option<f64>, max: Option<f64>) -> (f64, f64) {
    (min.unwrap_or(-1e9), max.unwrap_or(1e9))
}

/// Whether a text is worth several lines.
fn is_long(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    last.contains("prompt") || ["text", "prompttext", "lyrics", "script"].contains(&last.as_str())
}

/// What people choose a value by.
pub(super) fn label(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

/// The body that the inputs of a node make.
///
/// # Errors
/// If an input holds what no body can.
pub(super) fn body(
    form: &Form,
    inputs: &mut Inputs,
    context: &NodeContext,
) -> Result<Map<String, Value>, NodeError> {
    let mut body = Map::new();
    for field in &form.fields {
        let name = &field.name;
        if !inputs.has(name) {
            continue;
        }
        if let Some(value) = value(field, name, inputs, context)? {
            put(&mut body, &field.path, value);
        }
    }
    for (path, value) in &form.fixed {
        put(&mut body, path, value.clone());
    }
    Ok(body)
}

/// What an input holds; nothing if its member is to be left out.
fn value(
    field: &Field,
    name: &str,
    inputs: &mut Inputs,
    context: &NodeContext,
) -> Result<Option<Value>, NodeError> {
    Ok(match &field.kind {
        Kind::Picture(encoding, several) => {
            let image = inputs.image(name)?;
            Some(pictures(name, &image, *encoding, *several, context)?)
        }
        Kind::Text { .. } => match inputs.text(name)? {
            "" if !field.required => None,
            text => Some(text.into()),
        },
        Kind::Choice { values, .. } => {
            let chosen = inputs.text(name)?;
            let mut values = values.iter();
            values.find(|value| label(value) == chosen).cloned()
        }
        Kind::Whole { .. } => {
            let number = Number::from_i128(inputs.int(name)?);
            let number = number
                .ok_or_else(|| problem::invalid(format!("`{name}` is no number that can be sent")));
            Some(number?.into())
        }
        Kind::Number { .. } => {
            let number = Number::from_f64(inputs.float(name)?);
            let number = number
                .ok_or_else(|| problem::invalid(format!("`{name}` is no number that can be sent")));
            Some(number?.into())
        }
        Kind::Truth { .. } => Some(inputs.boolean(name)?.into()),
        Kind::Json => match inputs.text(name)?.trim() {
            "" if !field.required => None,
            text => {
                let read = json_text::read_str(text)
                    .map_err(|error| problem::invalid(format!("`{name}` is no JSON: {error}")))?;
                if field.path.is_empty() && !read.is_object() {
                    return Err(problem::invalid("the body is no JSON object"));
                }
                Some(read)
            }
        },
    })
}

/// Pictures as a body holds them.
fn pictures(
    name: &str,
    image: &Image,
    encoding: PictureEncoding,
    several: Several,
    context: &NodeContext,
) -> Result<Value, NodeError> {
    let frames = image.frames();
    if several == Several::Never && frames.len() > 1 {
        let count = frames.len();
        let message = format!("`{name}` takes one picture, and a batch of {count} came");
        return Err(problem::invalid(message));
    }
    let mut texts = Vec::with_capacity(frames.len());
    for frame in frames {
        context.check()?;
        // Eight bits a sample, a third more for base64, and both at a time.
        context.reserve(frame.size_bytes() as u64)?;
        let png = encode_png(frame, &[])?;
        let mut text = match encoding {
            PictureEncoding::Base64 => String::new(),
            PictureEncoding::DataUrl => "data:image/png;base64,".to_owned(),
        };
        STANDARD.encode_string(png, &mut text);
        texts.push(Value::String(text));
    }
    Ok(match several {
        Several::Always => texts.into(),
        Several::Maybe if texts.len() > 1 => texts.into(),
        Several::Maybe | Several::Never => texts.pop().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
