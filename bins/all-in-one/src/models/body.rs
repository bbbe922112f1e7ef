//! From the body of a call to the graph of a job.
//!
//! A picture comes as a data URL, whose bytes become an upload of the caller's that is soon forgotten, as the id of an asset
//! that the caller has, or as an `https` address, which is loaded when the job runs.

use asset_store::{AssetId, Upload};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use jiff::SignedDuration;
use router_core::{Failure, GenerationId, Ran, read_leniently};
use serde_json::{Value, json};
use uuid::Uuid;

use accounts::Principal;

use super::Workflows;
use super::failure::{Complaint, refused};
use super::template::{Template, reference};

/// How long a picture that came with a call is kept. The job holds it for as long as it needs it.
const PICTURE_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// As browsers and tools write base64: with padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is to be run.
pub(super) struct Filled {
    pub(super) workflow: Bytes,
    /// Whether pictures are wanted in the answer itself.
    pub(super) inline: bool,
}

/// A picture in a body.
enum Picture {
    Bytes(String, Vec<u8>),
    Asset(AssetId),
    Address(String),
}

/// Fills a template in with a body that keeps to the model's schema.
///
/// # Errors
/// If a picture is none, or cannot be kept.
pub(super) async fn fill(
    workflows: &Workflows,
    template: &Template,
    caller: &Principal,
    generation: GenerationId,
    body: &Bytes,
) -> Result<Filled, Failure> {
    let unreadable = || {
        refused(&[Complaint {
            field: None,
            kind: "dict_type",
            message: "the body cannot be read".to_owned(),
        }])
    };
    let Some(Value::Object(mut fields)) = read_leniently(body) else {
        return Err(unreadable());
    };
    let inline = template.wiring.output.inline.as_ref();
    let inline = inline.and_then(|name| fields.get(name)?.as_bool());

    // Every mistake is told at once, before anything is kept.
    let (mut values, mut pictures, mut complaints) = (Vec::new(), Vec::new(), Vec::new());
    for (name, field) in &template.wiring.fields {
        let value = match fields.remove(name) {
            None | Some(Value::Null) => continue,
            Some(value) => value,
        };
        if !field.picture {
            let value = literal(value);
            values.extend(field.into.iter().map(|place| (place, value.clone())));
            continue;
        }
        match picture(&value, caller.tier.upload_bytes) {
            Ok(picture) => pictures.push((name, field, picture)),
            Err(message) => complaints.push(Complaint::picture(name, message)),
        }
    }
    drop(fields);
    if !complaints.is_empty() {
        return Err(refused(&complaints));
    }
    for (name, field, picture) in pictures {
        let value = match picture {
            Picture::Address(address) => Value::String(address),
            Picture::Asset(asset) => reference(asset),
            Picture::Bytes(content_type, bytes) => {
                let key = key(generation, name);
                reference(keep(workflows, caller, content_type, bytes, key).await?)
            }
        };
        values.extend(field.into.iter().map(|place| (place, value.clone())));
    }
    Ok(Filled {
        workflow: Value::Object(template.fill(values)).to_string().into(),
        inline: inline.unwrap_or(false),
    })
}

/// The digest of a generation's own key for one of its steps: repeating the step does nothing again.
pub(super) fn key(generation: GenerationId, step: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("easel workflow model key v1");
    hasher
        .update(generation.0.as_bytes())
        .update(step.as_bytes());
    hasher.finalize().into()
}

/// A value as it is, whatever it looks like: an array would be read as a link.
fn literal(value: Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => json!({"__value__": value}),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn picture(value: &Value, most_bytes: u64) -> Result<Picture, String> {
    let how = "send a picture as a data URL, such as data:image/png;base64,..., as an https address, or as the id of an asset";
    let text = value.as_str().ok_or(how)?;
    if text.starts_with("https://") {
        return Ok(Picture::Address(text.to_owned()));
    }
    let Some(data) = text.strip_prefix("data:") else {
        let asset = text.parse().map_err(|_| how)?;
        return Ok(Picture::Asset(asset));
    };
    let (media_type, payload) = data
        .split_once(";base64,")
        .filter(|(media_type, _)| media_type.starts_with("image/"))
        .ok_or(how)?;
    if payload.len() as u64 / 4 * 3 > most_bytes.saturating_add(2) {
        return Err(format!("the picture has more than {most_bytes} bytes"));
    }
    let bytes = LENIENT
        .decode(payload)
        .map_err(|_| "the data URL is no valid base64")?;
    Ok(Picture::Bytes(media_type.to_owned(), bytes))
}

/// Keeps a picture of the caller's.
async fn keep(
    workflows: &Workflows,
    caller: &Principal,
    content_type: String,
    bytes: Vec<u8>,
    key: [u8; 32],
) -> Result<AssetId, Failure> {
    let upload = Upload {
        id: AssetId(Uuid::now_v7()),
        account: caller.account.clone(),
        content_type,
        file_path: None,
        tags: Vec::new(),
        expires_in: Some(PICTURE_LIFETIME),
        key: Some(key),
    };
    let now = workflows.timer.now();
    let kept = async {
        let mut writer = workflows.assets.begin().await?;
        let written = writer.write(Bytes::from(bytes)).await;
        written.map_err(|error| asset_store::AssetsError::Store(Box::new(error)))?;
        let within = caller.tier.stored_bound();
        let assets = workflows.assets.within(within);
        assets.finish(writer, upload, None, now).await
    };
    match kept.await {
        Ok(created) => Ok(created.asset.id),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "a picture of a call cannot be kept");
            Err(Failure::Failed {
                ran: Ran::Nothing,
                message: "the picture cannot be kept here now".to_owned(),
            })
        }
    }
}

/// Bytes as a data URL.
pub(super) fn data_url(content_type: &str, bytes: &[u8]) -> String {
    let mut url = format!("data:{content_type};base64,");
    STANDARD.encode_string(bytes, &mut url);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_a_data_url_an_asset_or_an_address() {
        let read = |text: &str| picture(&json!(text), 4);
        let url = data_url("image/png", b"abcd");
        assert!(matches!(
            read(&url).expect("a picture"),
            Picture::Bytes(kind, bytes) if kind == "image/png" && bytes == b"abcd"
        ));
        let id = Uuid::from_u128(7).to_string();
        assert!(matches!(
            read(&id).expect("an asset"),
            Picture::Asset(asset) if asset.to_string() == id
        ));
        assert!(matches!(
            read("https://example.test/a.png").expect("an address"),
            Picture::Address(_)
        ));
        for bad in [
            "",
            "photo.png",
            "http://example.test/a.png",
            "data:text/plain;base64,AAAA",
            "data:image/png,AAAA",
            "data:image/png;base64,A*AA",
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let long = data_url("image/png", &[0; 12]);
        assert!(read(&long).is_err_and(|reason| reason.contains("more than 4 bytes")));
        assert!(picture(&json!(7), 4).is_err());
    }

    #[test]
    fn an_array_in_a_body_is_no_link() {
        assert_eq!(literal(json!(["1", 0])), json!({"__value__": ["1", 0]}));
        assert_eq!(literal(json!("x")), json!("x"));
    }

    #[test]
    fn each_step_of_a_generation_has_a_key_of_its_own() {
        let of = |id, step| key(GenerationId(Uuid::from_u128(id)), step);
        assert_eq!(of(1, "image"), of(1, "image"));
        assert_ne!(of(1, "image"), of(1, "image2"));
        assert_ne!(of(1, "image"), of(2, "image"));
    }
}
