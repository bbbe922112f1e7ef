//! What v1 remembers of a submission: a small document in the job's opaque `origin` bytes.
//!
//! Jobs of other APIs have none of it and are shown all the same.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What came with a submission besides its graph, without any secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The number that the client was told.
    pub number: f64,
    /// `extra_data` as it came, secrets left out: an object as JSON, or nothing.
    pub extra_data: String,
    /// The saved workflow that the client says it is from.
    pub workflow_id: Option<String>,
}

impl Origin {
    /// As bytes to be kept with the job.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let extra_data = match self.extra_data.as_str() {
            "" => "{}",
            extra_data => extra_data,
        };
        let (number, workflow) = (json!(self.number), json!(self.workflow_id));
        format!(
            "{{\"v1\":1,\"number\":{number},\"extra_data\":{extra_data},\"workflow_id\":{workflow}}}"
        )
        .into()
    }
}

/// What was kept of a submission, as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    pub(crate) number: f64,
    /// An object, spelled as it is sent; empty where nothing was kept.
    extra_data: Bytes,
    pub(crate) workflow_id: Option<String>,
}

impl Kept {
    /// Reads what was kept; nothing of jobs that came another way.
    pub(crate) fn of(bytes: &Bytes) -> Self {
        Self::read(bytes).unwrap_or_default()
    }

    fn read(bytes: &Bytes) -> Option<Self> {
        let fields: HashMap<String, &RawValue> = serde_json::from_slice(bytes).ok()?;
        fields.get("v1")?;
        let value = |name| {
            let raw: &&RawValue = fields.get(name)?;
            serde_json::from_str::<Value>(raw.get()).ok()
        };
        let extra_data = fields.get("extra_data").map(|raw| raw.get());
        let extra_data = extra_data.filter(|raw| raw.starts_with('{'));
        let workflow_id = value("workflow_id");
        Some(Self {
            number: value("number")
                .and_then(|number| number.as_f64())
                .unwrap_or(0.0),
            extra_data: extra_data.map_or_else(Bytes::new, |raw| bytes.slice_ref(raw.as_bytes())),
            workflow_id: workflow_id.and_then(|id| id.as_str().map(str::to_owned)),
        })
    }

    /// `extra_data`, spelled as it is sent.
    pub(crate) fn extra_data(&self) -> Bytes {
        match self.extra_data.is_empty() {
            true => Bytes::from_static(b"{}"),
            false => self.extra_data.clone(),
        }
    }
}

/// The saved workflow that a submission said it is from, in what was kept of it.
#[must_use]
pub fn workflow_of(origin: &Bytes) -> Option<String> {
    Kept::of(origin).workflow_id
}

/// The words of ComfyUI for the previews of a submission.
const PREVIEW_METHODS: [&str; 5] = ["auto", "default", "latent2rgb", "none", "taesd"];

/// The previews that a submission asked for, in what was kept of it; nothing if it left them to the server.
#[must_use]
pub fn preview_method(origin: &Bytes) -> Option<&'static str> {
    let extra_data = Kept::of(origin).extra_data();
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(&extra_data).ok()?;
    let asked: String = serde_json::from_str(fields.get("preview_method")?.get()).ok()?;
    PREVIEW_METHODS.into_iter().find(|known| *known == asked)
}

/// A number as clients see it: whole ones without a point.
pub(crate) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_comfyui_choose_previews() {
        let asked = |extra_data: Value| {
            let origin = Origin {
                extra_data: extra_data.to_string(),
                ..Origin::default()
            };
            preview_method(&origin.to_bytes())
        };
        assert_eq!(asked(json!({"preview_method": "none"})), Some("none"));
        assert_eq!(asked(json!({"preview_method": "default"})), Some("default"));
        for other in [
            json!({}),
            json!({"preview_method": "x"}),
            json!({"preview_method": 1}),
        ] {
            assert_eq!(asked(other.clone()), None, "{other}");
        }
        assert_eq!(preview_method(&Bytes::from_static(b"\x00opaque")), None);
    }

    #[test]
    fn what_is_kept_reads_back_and_what_is_not_ours_is_nothing() {
        let origin = Origin {
            number: -2.5,
            extra_data: json!({"a": {"b": 1}}).to_string(),
            workflow_id: Some("w".to_owned()),
        };
        let kept = Kept::of(&origin.to_bytes());
        assert_eq!(
            (kept.number, kept.workflow_id.as_deref()),
            (-2.5, Some("w"))
        );
        assert_eq!(&kept.extra_data()[..], br#"{"a":{"b":1}}"#);
        for foreign in [&b""[..], b"\x00opaque", b"{}", b"[1]"] {
            let kept = Kept::of(&Bytes::from_static(foreign));
            assert_eq!(
                (&kept, &kept.extra_data()[..]),
                (&Kept::default(), &b"{}"[..])
            );
        }
    }
}
