//! Values that travel along the links of a graph.
//!
//! Cloning a value shares what it holds. Frames are counted once however many values share them, so sizes are told as parts.

mod opaque;

use std::fmt;
use std::sync::Arc;

pub use opaque::Opaque;

use crate::FileInput;
use images::{Frame, Image, Mask};

/// One value.
#[derive(Clone)]
pub enum Value {
    /// `IMAGE`: a batch of pictures.
    Image(Image),
    /// `MASK`: a batch of masks.
    Mask(Mask),
    /// `INT`: wide enough for every signed and unsigned 64-bit number.
    Int(i128),
    /// `FLOAT`.
    Float(f64),
    /// `STRING`, and the chosen word of a combo.
    String(Arc<str>),
    /// `BOOLEAN`.
    Boolean(bool),
    /// A constant of another shape: null, a list or an object.
    Json(Arc<serde_json::Value>),
    /// One of the account's files; only ever a constant.
    File(FileInput),
    /// A value of an embedder's own type.
    Opaque(Opaque),
    /// Stands for a value that will not come: nodes that get one do not run. A message is told once, where it is met first.
    Blocker(Option<Arc<str>>),
}

impl Value {
    /// A text.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// Nothing: Python's `None`.
    #[must_use]
    pub fn none() -> Self {
        Self::Json(Arc::new(serde_json::Value::Null))
    }

    /// Reads a JSON constant for what it is.
    #[must_use]
    pub fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Bool(value) => Self::Boolean(*value),
            Json::String(text) => Self::string(text.as_str()),
            Json::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(whole), _) => Self::Int(whole),
                (None, float) => Self::Float(float.unwrap_or(f64::NAN)),
            },
            Json::Null | Json::Array(_) | Json::Object(_) => Self::Json(Arc::new(json.clone())),
        }
    }

    /// The type as sockets name it.
    #[must_use]
    pub fn io_type(&self) -> &str {
        match self {
            Self::Image(_) => "IMAGE",
            Self::Mask(_) => "MASK",
            Self::Int(_) => "INT",
            Self::Float(_) => "FLOAT",
            Self::String(_) => "STRING",
            Self::Boolean(_) => "BOOLEAN",
            Self::Json(_) => "JSON",
            Self::File(_) => "FILE",
            Self::Opaque(opaque) => opaque.io_type(),
            Self::Blocker(_) => "BLOCKER",
        }
    }

    /// Calls `count(address, bytes)` for every part that other values may share with this one; plain values have none.
    pub fn each_part(&self, mut count: impl FnMut(usize, u64)) {
        let mut frames = |frames: &[Arc<Frame>]| {
            // A batch of one frame a million times holds little but the references to it.
            count(frames.as_ptr().addr(), size_of_val(frames) as u64);
            for frame in frames {
                count(Arc::as_ptr(frame).addr(), frame.size_bytes() as u64);
            }
        };
        match self {
            Self::Image(image) => frames(image.frames()),
            Self::Mask(mask) => frames(mask.frames()),
            Self::String(text) => count(text.as_ptr().addr(), text.len() as u64),
            Self::Opaque(opaque) => count(opaque.address(), opaque.size_bytes()),
            Self::Int(_)
            | Self::Float(_)
            | Self::Boolean(_)
            | Self::Json(_)
            | Self::File(_)
            | Self::Blocker(_) => {}
        }
    }

    /// Bytes that the value holds; a frame that it holds several times counts once.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let mut parts = std::collections::HashMap::new();
        self.each_part(|address, bytes| {
            parts.insert(address, bytes);
        });
        parts.into_values().sum()
    }
}

impl From<Image> for Value {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Mask> for Value {
    fn from(mask: Mask) -> Self {
        Self::Mask(mask)
    }
}

impl From<Opaque> for Value {
    fn from(opaque: Opaque) -> Self {
        Self::Opaque(opaque)
    }
}

impl fmt::Debug for Value {
    // Pictures are told by their shape: nobody wants to read their samples.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = |frames: &[Arc<Frame>]| match frames.first() {
            Some(first) => format!("{} x {:?}", frames.len(), first.shape()),
            None => "empty".to_owned(),
        };
        match self {
            Self::Image(image) => write!(f, "Image({})", shape(image.frames())),
            Self::Mask(mask) => write!(f, "Mask({})", shape(mask.frames())),
            Self::Int(value) => write!(f, "Int({value})"),
            Self::Float(value) => write!(f, "Float({value})"),
            Self::String(text) => write!(f, "String({text:?})"),
            Self::Boolean(value) => write!(f, "Boolean({value})"),
            Self::Json(json) => write!(f, "Json({json})"),
            Self::File(file) => write!(f, "File({})", file.name()),
            Self::Opaque(opaque) => write!(f, "{opaque:?}"),
            Self::Blocker(message) => write!(f, "Blocker({message:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_held_twice_counts_once() {
        let frame = Arc::new(Frame::filled(4, 4, 3, 0.0));
        let twice = Image::new(vec![Arc::clone(&frame), frame]).expect("frames of one shape");
        let references = 2 * size_of::<usize>() as u64;
        assert_eq!(Value::Image(twice).size_bytes(), 4 * 4 * 3 * 4 + references);
    }

    #[test]
    fn json_constants_are_read_for_what_they_are() {
        let read = |json: serde_json::Value| format!("{:?}", Value::from_json(&json));
        assert_eq!(
            read(serde_json::json!(u64::MAX)),
            "Int(18446744073709551615)"
        );
        assert_eq!(read(serde_json::json!(-3)), "Int(-3)");
        assert_eq!(read(serde_json::json!(1.0)), "Float(1)");
        assert_eq!(read(serde_json::json!("a")), "String(\"a\")");
        assert_eq!(read(serde_json::json!(null)), "Json(null)");
    }
}
