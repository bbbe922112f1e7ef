//! The body of a submission, taken apart without touching the graph.
//!
//! The graph travels as the very text that came. The secret beside it leaves the text at once and the buffer with it: what
//! goes on holds a copy of the graph alone. Fields that nobody knows are passed over, so that newer clients may send more;
//! fields that the contract reserves are refused, because their sender counts on them.

use std::collections::HashMap;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::value::RawValue;
use workflow_core::Metadata;

use super::errors::ApiError;
use super::labels;

/// Fields that stand for what is not offered yet.
const RESERVED: [&str; 2] = ["webhook_url", "inputs"];

/// The name of the secret, and the older one.
const SECRET_NAMES: [&str; 2] = ["api_key_service_org", "api_key_comfy_org"];

/// Most bytes of the secret: far more than any key, far less than a way to fill memory.
const MOST_SECRET_BYTES: usize = 4096;

/// What a submission asks for.
#[derive(Debug)]
pub(crate) struct SubmissionBody {
    /// The graph, as it came.
    pub(crate) workflow: Bytes,
    /// The labels.
    pub(crate) metadata: Metadata,
    /// The secret for partner nodes.
    pub(crate) secret: Option<SecretString>,
}

type Fields<'a> = HashMap<String, &'a RawValue>;

impl SubmissionBody {
    /// Takes a body apart.
    ///
    /// # Errors
    /// [`ApiError::Syntax`] for what is no JSON, [`ApiError::NoSubmission`] for what is and has no graph, and those of the
    /// single fields.
    pub(crate) fn read(body: &[u8]) -> Result<Self, ApiError> {
        let whole: &RawValue = serde_json::from_slice(body).map_err(ApiError::Syntax)?;
        let fields = object(whole).ok_or(ApiError::NoSubmission(
            "the body must be an object with the graph in `workflow`",
        ))?;
        if let Some(name) = RESERVED.into_iter().find(|name| fields.contains_key(*name)) {
            let must = "left out: it is reserved and does nothing yet".to_owned();
            return Err(ApiError::Field { name, must });
        }
        let workflow = fields.get("workflow").ok_or(ApiError::NoSubmission(
            "the body has no `workflow`; put the graph in API format there",
        ))?;
        let metadata = fields.get("metadata").map(|raw| labels::read(raw));
        let secret = fields.get("extra_data").map(|raw| read_secret(raw));
        Ok(Self {
            workflow: Bytes::copy_from_slice(workflow.get().as_bytes()),
            metadata: metadata.transpose()?.unwrap_or_default(),
            secret: secret.transpose()?.flatten(),
        })
    }
}

/// Why a text that passed for JSON cannot be read as a value: it nests too deeply, has a number beyond all range, or half
/// a surrogate pair. Asked only once a parser failed to read it.
pub(crate) fn unreadable(text: &[u8]) -> Option<ApiError> {
    json_text::read(text).err().map(ApiError::Syntax)
}

/// The fields of an object; of two with one name the later stands. `None` for anything else.
fn object(raw: &RawValue) -> Option<Fields<'_>> {
    serde_json::from_str(raw.get()).ok()
}

fn read_secret(raw: &RawValue) -> Result<Option<SecretString>, ApiError> {
    let refused = |must: &str| {
        let (name, must) = ("extra_data", must.to_owned());
        Err(ApiError::Field { name, must })
    };
    if raw.get() == "null" {
        return Ok(None);
    }
    let Some(fields) = object(raw) else {
        return refused("an object");
    };
    let is_key = |text: &str| {
        (1..=MOST_SECRET_BYTES).contains(&text.len())
            && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    };
    let mut secrets = Vec::new();
    for (name, value) in &fields {
        if !SECRET_NAMES.contains(&name.as_str()) {
            return refused("an object with `api_key_service_org` and nothing else");
        }
        match serde_json::from_str::<String>(value.get()) {
            Ok(text) if is_key(&text) => secrets.push(text),
            Ok(_) | Err(_) => {
                return refused(
                    "an object whose key is a text of 1 to 4096 printable ASCII characters",
                );
            }
        }
    }
    secrets.dedup();
    match secrets.len() {
        0 | 1 => Ok(secrets.pop().map(SecretString::from)),
        _ => refused("an object that names one key, or the same key twice"),
    }
}

#[cfg(test)]
mod tests;
