//! What bodies and answers of a model hold besides plain values: for code that makes a form, a page or a node of it.
//!
//! A call itself looks at none of it but [`ModelForm::files`], and at that only once its partner has answered.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What a person fills in and gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelForm {
    /// What people call its partner.
    pub partner: String,
    /// The properties of the body that hold pictures, by name. Where the schema takes an array, it holds several.
    pub pictures: BTreeMap<String, PictureEncoding>,
    /// Properties that are always the same and nobody is asked for.
    pub fixed: Map<String, Value>,
    /// What an answer is.
    pub returns: Returns,
    /// Whether the model answers with server-sent events where the body asks for them.
    pub streams: bool,
    /// JSON Pointers to the addresses of files in an answer, in which `*` names every item of an array: what is kept for accounts
    /// that keep results.
    pub files: Vec<String>,
}

/// How a body holds a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureEncoding {
    /// Its base64.
    Base64,
    /// A `data:` address with its media type.
    DataUrl,
}

/// What an answer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Of what kind.
    pub kind: ReturnKind,
    /// JSON Pointers to where it is in an answer of JSON, in which `*` names every item of an array: addresses, `data:`
    /// addresses or base64; texts, if the kind is that. With none, and in an answer that is no JSON, it is the answer itself.
    pub from: Vec<String>,
}

/// A kind of result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnKind {
    /// Words, such as the answer as it is.
    #[default]
    Text,
    /// One picture or several.
    Image,
    /// One video or several.
    Video,
    /// One sound or several.
    Audio,
}
