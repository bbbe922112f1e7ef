//! The inputs of a call, as clients see them when it fails: shapes in place of samples, long texts shortened.
//!
//! Taken down before every call, because a node may take its arguments: so nothing here is written out, copied or kept alive
//! beyond small values before it is asked for.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use workflow_core::NodeDefinition;

use crate::Value;
use images::Frame;

/// The values of a call, by the place of their input.
#[derive(Default)]
pub(super) struct Got(Vec<(usize, Vec<Sketch>)>);

/// One value.
enum Sketch {
    /// Small, or shared with the graph.
    Plain(Value),
    /// Frames: how many, and height, width and channels of the first.
    Frames(usize, (usize, usize, usize)),
    /// Only what it is.
    Type(Box<str>),
}

/// Most items of a list.
const MOST_ITEMS: usize = 64;

/// Most characters of a text.
const MOST_CHARACTERS: usize = 1024;

/// Bytes in all, about; inputs after that are left out.
const MOST_BYTES: usize = 64 << 10;

impl Got {
    /// Takes down what a call is about to get.
    pub(super) fn of(arguments: &[Option<Vec<Value>>]) -> Self {
        let given = arguments.iter().enumerate();
        let given = given.filter_map(|(input, values)| Some((input, values.as_ref()?)));
        let sketches = |values: &[Value]| values.iter().take(MOST_ITEMS).map(Sketch::of).collect();
        Self(
            given
                .map(|(input, values)| (input, sketches(values)))
                .collect(),
        )
    }

    /// Lists by input: numbers, texts and booleans as they are, everything else as a text.
    pub(super) fn to_json(&self, definition: &NodeDefinition) -> Map<String, Json> {
        let mut told = Map::new();
        let mut bytes = 0;
        for (input, sketches) in &self.0 {
            let items: Vec<Json> = sketches.iter().map(Sketch::to_json).collect();
            let items = Json::Array(items);
            bytes += items.to_string().len();
            if bytes > MOST_BYTES {
                break;
            }
            if let Some(input) = definition.inputs.get(*input) {
                told.insert(input.name.clone(), items);
            }
        }
        told
    }
}

impl Sketch {
    fn of(value: &Value) -> Self {
        let frames = |frames: &[Arc<Frame>]| {
            let shape = frames.first().map_or((0, 0, 0), |first| first.shape());
            Self::Frames(frames.len(), shape)
        };
        match value {
            Value::Image(image) => frames(image.frames()),
            Value::Mask(mask) => frames(mask.frames()),
            Value::Int(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Boolean(_)
            | Value::Json(_)
            | Value::Blocker(_) => Self::Plain(value.clone()),
            Value::File(file) => Self::Plain(Value::string(file.name())),
            Value::Opaque(opaque) => Self::Type(opaque.io_type().into()),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Frames(count, (height, width, 1)) => {
                Json::String(format!("tensor of shape [{count}, {height}, {width}]"))
            }
            Self::Frames(count, (height, width, channels)) => Json::String(format!(
                "tensor of shape [{count}, {height}, {width}, {channels}]"
            )),
            Self::Type(name) => Json::from(&**name),
            Self::Plain(Value::Int(value)) => number(*value),
            Self::Plain(Value::Float(value)) => Json::from(*value),
            Self::Plain(Value::Boolean(value)) => Json::Bool(*value),
            Self::Plain(Value::String(text)) => shortened(text),
            Self::Plain(Value::Json(json)) if json.is_null() => Json::Null,
            Self::Plain(Value::Json(json)) => shortened(&json.to_string()),
            Self::Plain(value) => Json::from(value.io_type()),
        }
    }
}

/// Every whole number that a graph can hold.
fn number(value: i128) -> Json {
    let signed = i64::try_from(value).map(Json::from);
    let unsigned = signed.or_else(|_| u64::try_from(value).map(Json::from));
    unsigned.unwrap_or_else(|_| Json::String(value.to_string()))
}

fn shortened(text: &str) -> Json {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => Json::String(format!("{}...", &text[..end])),
        None => Json::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::define::{link, modern};
    use images::{Image, Mask};

    fn told(values: &[Option<Vec<Value>>]) -> Json {
        let mut definition = modern("Test", "", "");
        let names = (0..values.len()).map(|index| link(&format!("i{index}"), "*"));
        definition.inputs = names.collect();
        Json::Object(Got::of(values).to_json(&definition))
    }

    #[test]
    fn values_are_told_in_lists_and_pictures_by_their_shape() {
        let picture = Image::single(Frame::filled(2, 3, 4, 0.5));
        let mask = Mask::new(vec![Arc::new(Frame::filled(2, 3, 1, 0.5))]).expect("one frame");
        let values = vec![
            Some(vec![picture.into()]),
            Some(vec![mask.into()]),
            None,
            Some(vec![Value::Int(5), Value::Float(1.5)]),
            Some(vec![Value::string("x"), Value::Boolean(true)]),
            Some(vec![Value::Int(i128::from(u64::MAX))]),
        ];
        let expected = json!({
            "i0": ["tensor of shape [1, 2, 3, 4]"],
            "i1": ["tensor of shape [1, 2, 3]"],
            "i3": [5, 1.5],
            "i4": ["x", true],
            "i5": [u64::MAX],
        });
        assert_eq!(told(&values), expected);
    }

    #[test]
    fn long_texts_lists_and_calls_are_shortened() {
        let text = told(&[Some(vec![Value::string("ä".repeat(5000))])]);
        let text = text["i0"][0].as_str().expect("a text");
        assert_eq!(text.chars().count(), MOST_CHARACTERS + 3);
        let list = told(&[Some(vec![Value::Int(1); 1000])]);
        assert_eq!(list["i0"].as_array().map(Vec::len), Some(MOST_ITEMS));
        let full = vec![Value::string("x".repeat(2000)); MOST_ITEMS];
        let many = told(&[Some(vec![Value::Int(1)]), Some(full)]);
        assert_eq!(many, json!({"i0": [1]}));
    }
}
