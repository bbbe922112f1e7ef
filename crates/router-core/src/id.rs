//! The names of models, requests and generations.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use accounts::LedgerRef;
use uuid::Uuid;

/// Most characters of the provider segment (RouterProviderSegment).
const MAX_PROVIDER: usize = 64;

/// Most characters of the model segment (RouterModelSegment).
const MAX_MODEL: usize = 128;

/// The canonical id of a model, `{provider}/{model}` (RouterModelId). Ordered as text; cheap to clone.
///
/// Each segment is runs of `a-z 0-9` with single `.`, `_` or `-` between them, so an id is its own form in a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId {
    text: Arc<str>,
    /// Where the slash is; follows from the text, so it changes neither order nor equality.
    slash: usize,
}

/// The text names no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a model id is `provider/model`: lower-case letters and digits with single '.', '_' or '-' between them"
)]
pub struct InvalidModelId;

/// One HTTP request, as `X-Service-Request-Id` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub Uuid);

/// One piece of work at a partner: what is billed once. It bears the id of the request that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GenerationId(pub Uuid);

impl GenerationId {
    /// The entry of the ledger under which credits are held and billed.
    #[must_use]
    pub fn cause(self) -> LedgerRef {
        LedgerRef::Generation(self.0)
    }
}

impl ModelId {
    /// Joins the two segments of a path.
    ///
    /// # Errors
    /// If a segment breaks its pattern or is too long.
    pub fn new(provider: &str, model: &str) -> Result<Self, InvalidModelId> {
        if is_segment(provider, MAX_PROVIDER) && is_segment(model, MAX_MODEL) {
            Ok(Self {
                text: [provider, "/", model].concat().into(),
                slash: provider.len(),
            })
        } else {
            Err(InvalidModelId)
        }
    }

    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first segment: whose model it is.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.text[..self.slash]
    }

    /// The second segment.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.text[self.slash + 1..]
    }
}

/// Whether `text` matches `^[a-z0-9]+([._-][a-z0-9]+)*$` and has at most `longest` characters.
fn is_segment(text: &str, longest: usize) -> bool {
    let is_separator = |byte: u8| matches!(byte, b'.' | b'_' | b'-');
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut before = b'-';
    for byte in text.bytes() {
        if !is_plain(byte) && (!is_separator(byte) || is_separator(before)) {
            return false;
        }
        before = byte;
    }
    text.len() <= longest && !is_separator(before)
}

impl FromStr for ModelId {
    type Err = InvalidModelId;

    fn from_str(text: &str) -> Result<Self, InvalidModelId> {
        let (provider, model) = text.split_once('/').ok_or(InvalidModelId)?;
        Self::new(provider, model)
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelId({})", self.text)
    }
}

impl From<RequestId> for GenerationId {
    fn from(request: RequestId) -> Self {
        Self(request.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_two_segments_of_runs_and_single_separators() {
        for good in ["bfl/flux-2-pro", "a/b", "0.x_y/1-2.3", "fal/a.b_c-d"] {
            let id: ModelId = good.parse().expect(good);
            assert_eq!(format!("{}/{}", id.provider(), id.model()), good);
            assert_eq!(id.as_str(), good);
        }
        for bad in [
            "", "/", "a", "a/", "/b", "a/b/c", "A/b", "a/B", "a/b-", "a/-b", "a/b..c", "a/b._c",
            "a /b", "a/ä", "a/..", "../b", "a/%2f", "a/b\n", "a/b\0",
        ] {
            assert_eq!(bad.parse::<ModelId>(), Err(InvalidModelId), "{bad:?}");
        }
    }

    #[test]
    fn segments_have_at_most_64_and_128_characters() {
        let of = |provider: usize, model: usize| {
            ModelId::new(&"p".repeat(provider), &"m".repeat(model)).map(|id| id.as_str().len())
        };
        assert_eq!(of(64, 128), Ok(193));
        assert_eq!(of(65, 1), Err(InvalidModelId));
        assert_eq!(of(1, 129), Err(InvalidModelId));
    }
}
