//! From the answer of a model to the outputs of a node.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use engine_native::images::codec;
use engine_native::nodes::Media;
use engine_native::{NodeContext, NodeError, NodeOutput, Slot, Value};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Uri;
use hyper_kit::{FetchError, FetchLimits, Host};
use providers::Pointer;
use router_core::{Answer, ReturnKind, Returns};
use serde_json::Value as Json;

use super::Partners;
use super::problem::unusable;

/// Most results of one call that are taken.
const MOST_RESULTS: usize = 64;

/// Results that are fetched at the same time.
const MOST_AT_ONCE: usize = 4;

/// Most bytes of one result, and how long it may take.
const LIMITS: FetchLimits = FetchLimits {
    max_bytes: 512 << 20,
    total_timeout: Duration::from_secs(300),
    idle_timeout: Duration::from_secs(30),
    redirects: 3,
};

/// As partners write base64: with padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What came, as far as it needs no computing.
#[derive(Debug)]
pub(super) enum Came {
    /// Words.
    Words(String),
    /// The files of the results.
    Files(Vec<File>),
}

/// A result's file.
#[derive(Debug)]
pub(super) enum File {
    Bytes(Bytes),
    Base64(String),
}

impl Partners {
    /// Finds what an answer holds, and fetches what it only names: at most `most_bytes` in all.
    ///
    /// # Errors
    /// If there is nothing, or it cannot be fetched. It was billed all the same.
    pub(super) async fn results(
        &self,
        returns: &Returns,
        answer: Answer,
        most_bytes: u64,
    ) -> Result<Came, NodeError> {
        let Returns { kind, from } = returns.clone();
        let is_json = is_json(&answer.content_type);
        let reading = move || -> Result<Found, NodeError> {
            if !is_json || from.is_empty() {
                return Ok(Found::Whole(answer.body));
            }
            let document = router_core::read_leniently(&answer.body)
                .ok_or_else(|| unusable("the model answered no JSON"))?;
            let pointers = from
                .into_iter()
                .filter_map(|from| Pointer::try_from(from).ok());
            let texts = pointers.flat_map(|pointer| texts(&pointer, &document));
            Ok(Found::Texts(texts.take(MOST_RESULTS).collect()))
        };
        // An answer may have tens of megabytes.
        let found = tokio::task::spawn_blocking(reading).await;
        let found = found.map_err(|_| unusable("the model's answer cannot be read"))??;
        match (kind, found) {
            (ReturnKind::Text, Found::Whole(body)) => {
                Ok(Came::Words(String::from_utf8_lossy(&body).into_owned()))
            }
            (ReturnKind::Text, Found::Texts(texts)) => Ok(Came::Words(texts.join("\n"))),
            (_, Found::Whole(body)) if !is_json => Ok(Came::Files(vec![File::Bytes(body)])),
            (_, Found::Whole(_)) => Err(nothing()),
            (_, Found::Texts(texts)) if texts.is_empty() => Err(nothing()),
            (_, Found::Texts(texts)) => {
                let each = most_bytes / texts.len() as u64;
                let fetching = texts.into_iter().map(|text| self.file(text, each));
                let files = stream::iter(fetching).buffered(MOST_AT_ONCE).try_collect();
                Ok(Came::Files(files.await?))
            }
        }
    }

    async fn file(&self, text: String, most_bytes: u64) -> Result<File, NodeError> {
        if let Some(data) = text.strip_prefix("data:") {
            let (_, data) = data.split_once(";base64,").ok_or_else(nothing)?;
            return Ok(File::Base64(data.to_owned()));
        }
        if !text.contains("://") {
            return Ok(File::Base64(text));
        }
        if !self.may_fetch(&text) {
            return Err(unusable(
                "the model's result is at an address that this server does not fetch from",
            ));
        }
        let limits = FetchLimits {
            max_bytes: LIMITS
                .max_bytes
                .min(usize::try_from(most_bytes).unwrap_or(usize::MAX)),
            ..LIMITS
        };
        match self.client.fetch(&text, limits).await {
            Ok(fetched) => Ok(File::Bytes(fetched.bytes)),
            Err(error) => Err(unfetched(&error)),
        }
    }

    /// Without TLS only from hosts that the operator vouches for; what may be asked over TLS is the client's to say.
    fn may_fetch(&self, url: &str) -> bool {
        let Ok(uri) = url.parse::<Uri>() else {
            return false;
        };
        let host = uri
            .authority()
            .and_then(|authority| Host::parse(authority.as_str()));
        match (uri.scheme_str(), host) {
            (Some("https"), Some(_)) => true,
            (Some("http"), Some(host)) => {
                self.exempt.iter().any(|exempt| exempt.same_as(&host, 80))
            }
            (_, _) => false,
        }
    }
}

/// What an answer holds before anything is fetched.
enum Found {
    /// The answer itself.
    Whole(Bytes),
    /// Texts in it.
    Texts(Vec<String>),
}

fn texts(pointer: &Pointer, document: &Json) -> Vec<String> {
    let found = pointer.all(document).into_iter();
    let texts = found
        .filter_map(Json::as_str)
        .filter(|text| !text.is_empty());
    texts.map(str::to_owned).collect()
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn nothing() -> NodeError {
    unusable("the model's answer holds no result")
}

fn unfetched(error: &FetchError) -> NodeError {
    unusable(format!("the model's result could not be fetched: {error}"))
}

impl Came {
    /// The outputs of a node whose model gives this kind.
    ///
    /// # Errors
    /// If it is something else.
    pub(super) fn outputs(
        self,
        kind: ReturnKind,
        context: &NodeContext,
    ) -> Result<NodeOutput, NodeError> {
        let files = match self {
            Self::Words(words) => return Ok(Value::string(words).into()),
            Self::Files(files) => files,
        };
        let (mut results, mut masks) = (Vec::new(), Vec::new());
        for file in files {
            context.check()?;
            let bytes = file.bytes(context)?;
            match kind {
                ReturnKind::Image => {
                    let limits = context.limits_of(&bytes)?;
                    let decoded = codec::decode(&bytes, &limits)?;
                    results.push(decoded.image.into());
                    masks.push(decoded.mask.into());
                }
                ReturnKind::Video => results.push(Media::video(bytes)?.into()),
                ReturnKind::Audio => results.push(Media::audio(bytes)?.into()),
                ReturnKind::Text => {}
            }
        }
        let mut slots = vec![Slot::List(results)];
        if kind == ReturnKind::Image {
            slots.push(Slot::List(masks));
        }
        Ok(NodeOutput {
            slots,
            ..NodeOutput::none()
        })
    }
}

impl File {
    fn bytes(self, context: &NodeContext) -> Result<Bytes, NodeError> {
        match self {
            Self::Bytes(bytes) => {
                context.reserve(bytes.len() as u64)?;
                Ok(bytes)
            }
            Self::Base64(text) => {
                context.reserve(text.len() as u64)?;
                let decoded = LENIENT.decode(text.trim());
                let decoded = decoded.map_err(|_| unusable("the model's result is no base64"))?;
                Ok(decoded.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_found_wherever_a_definition_says() {
        let document = json!({"data": [{"url": "https://a/1"}, {"url": ""}, {"b64_json": "AAAA"}, {"url": 3}]});
        let at = |text: &str| {
            let pointer = Pointer::try_from(text.to_owned()).expect("it is one");
            texts(&pointer, &document)
        };
        assert_eq!(at("/data/*/url"), ["https://a/1"]);
        assert_eq!(at("/data/*/b64_json"), ["AAAA"]);
        assert!(at("/data").is_empty());
    }

    #[test]
    fn answers_of_json_are_known_by_their_type() {
        assert!(is_json("application/json; charset=utf-8") && is_json("application/problem+json"));
        assert!(!is_json("image/png") && !is_json(""));
    }

    #[test]
    fn what_is_none_of_the_kind_is_refused() {
        let context = NodeContext::detached();
        let came = |bytes: &'static [u8]| Came::Files(vec![File::Bytes(bytes.into())]);
        for kind in [ReturnKind::Image, ReturnKind::Video, ReturnKind::Audio] {
            assert!(came(b"<html>").outputs(kind, &context).is_err(), "{kind:?}");
        }
        assert!(came(b"fLaC").outputs(ReturnKind::Audio, &context).is_ok());
        let base64 = Came::Files(vec![File::Base64("A*".to_owned())]);
        assert!(base64.outputs(ReturnKind::Audio, &context).is_err());
    }
}
