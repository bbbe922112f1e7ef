//! Uploads: a form whose file goes straight into the blob store while the rest of the form is still to come.
//!
//! The parts may come in any order. Nothing is visible before the whole form was read and every field of it was right: a
//! writer that is dropped leaves nothing behind.

use asset_store::{AssetId, BlobWriter, Upload};
use http::{HeaderValue, Response};
use hyper_kit::Body;
use hyper_kit::multipart::{Multipart, MultipartError, MultipartLimits, Part};
use uuid::Uuid;

use super::assets::{created_answer, field, read_expires_in, read_hash, read_path, read_tags};
use super::call::Call;
use super::errors::ApiError;
use super::idempotency;
use crate::uploads::UPLOAD_PACE;

/// Separates the idempotency keys of uploads from those of other operations.
const OPERATION: &str = "assets";

/// What a form may have besides its file: fields, boundaries and heads of parts.
const BESIDES_THE_FILE_BYTES: u64 = 256 * 1024;

/// Most bytes of one field; the longest is a path.
const MOST_FIELD_BYTES: usize = 8 * 1024;

/// Most parts of a form: every field once, and room for tags.
const MOST_PARTS: usize = 128;

/// Most characters of a media type.
const MOST_TYPE_CHARACTERS: usize = 255;

/// The parts of a form as they come.
#[derive(Default)]
struct Form {
    file: Option<Box<dyn BlobWriter>>,
    content_type: Option<String>,
    /// What the part with the file says of itself, where that is something.
    part_type: Option<String>,
    file_path: Option<String>,
    expected_hash: Option<String>,
    expires_in: Option<String>,
    tags: Vec<String>,
}

/// POST /assets: 201 for bytes that are new to the account, 200 for bytes that it has.
pub(crate) async fn upload(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let key = idempotency::read(&call.head.headers, OPERATION)?;
    call.expect_plain()?;
    let config = &call.service.config;
    let limit_bytes = config.upload_bytes.min(call.principal.tier.upload_bytes);
    let limits = MultipartLimits {
        total_bytes: limit_bytes.saturating_add(BESIDES_THE_FILE_BYTES),
        part_bytes: limit_bytes,
        text_bytes: MOST_FIELD_BYTES,
        parts: MOST_PARTS,
        pace: UPLOAD_PACE,
    };
    // Refused by the file's bound and not by that of the form, which nobody can compare a file with.
    let too_large = |error| {
        if matches!(&error, ApiError::Form(MultipartError::TooLarge { limit }) if *limit >= limit_bytes)
        {
            ApiError::UploadTooLarge { limit_bytes }
        } else {
            error
        }
    };
    let form = Multipart::new(&call.head.headers, body, limits).map_err(ApiError::Form);
    let form = form.map_err(too_large)?;
    // Kept until the record is there.
    let _place = call.uploads.begin(&call.principal.account).await?;
    let assets = call
        .service
        .assets
        .within(call.principal.tier.stored_bound());
    let room = assets.room(&call.principal.account, key.is_some()).await?;
    let form = Form::read(form, call, room).await.map_err(too_large)?;

    let missing = |name: &'static str| field(name, "a part of the form; it is missing");
    let file = form.file.ok_or_else(|| missing("file"))?;
    let content_type = form.content_type.or(form.part_type);
    let content_type = content_type.ok_or_else(|| missing("content_type"))?;
    let file_path = form.file_path.ok_or_else(|| missing("file_path"))?;
    let expected = form.expected_hash.as_deref();
    let expected = expected.map(|text| read_hash(Some(text), "expected_hash"));
    let expires_in = form.expires_in.as_deref();
    let expires_in = expires_in.map(|text| read_expires_in(text.parse().ok()));
    let upload = Upload {
        id: AssetId(Uuid::now_v7()),
        account: call.principal.account.clone(),
        content_type: read_type(content_type)?,
        file_path: Some(read_path(Some(&file_path))?),
        tags: read_tags(form.tags)?,
        expires_in: expires_in.transpose()?,
        key,
    };
    // An upload may take its time: it is kept from its end on and not from its beginning.
    let now = call.service.clock.now();
    let kept = call.principal.tier.upload_retention;
    let assets = assets.keeping(kept);
    let created = assets
        .finish(file, upload, expected.transpose()?, now)
        .await?;
    Ok(created_answer(call, &created, !created.created_new, now))
}

impl Form {
    /// Reads a form whose file may have so many bytes.
    async fn read(
        mut parts: Multipart,
        call: &Call<'_>,
        room: Option<u64>,
    ) -> Result<Self, ApiError> {
        let mut form = Self::default();
        while let Some(part) = parts.next_part().await? {
            let name = part.name().to_owned();
            match name.as_str() {
                // Refused before its bytes are taken.
                "file" if form.file.is_some() => return Err(twice("file")),
                "file" => {
                    form.part_type = part.content_type().filter(is_known).map(str::to_owned);
                    form.file = Some(store(part, call, room).await?);
                }
                "content_type" => {
                    once(
                        &mut form.content_type,
                        text(part, "content_type").await?,
                        "content_type",
                    )?;
                }
                "file_path" => once(
                    &mut form.file_path,
                    text(part, "file_path").await?,
                    "file_path",
                )?,
                "expected_hash" => {
                    once(
                        &mut form.expected_hash,
                        text(part, "expected_hash").await?,
                        "expected_hash",
                    )?;
                }
                "expires_in" => once(
                    &mut form.expires_in,
                    text(part, "expires_in").await?,
                    "expires_in",
                )?,
                "tags" => form.tags.push(text(part, "tags").await?),
                // Read away: a newer client may send more.
                _ => {}
            }
        }
        Ok(form)
    }
}

/// The text of a field. One that is too long is wrong itself, however large the upload is.
async fn text(part: Part<'_>, name: &'static str) -> Result<String, ApiError> {
    match part.text().await {
        Err(MultipartError::TooLarge { limit }) if limit == MOST_FIELD_BYTES as u64 => {
            Err(field(name, &format!("a text of at most {limit} bytes")))
        }
        text => Ok(text?),
    }
}

/// Hands the bytes of a part to the blob store as they come, as far as there is room for them.
async fn store(
    mut part: Part<'_>,
    call: &Call<'_>,
    room: Option<u64>,
) -> Result<Box<dyn BlobWriter>, ApiError> {
    let mut writer = call.service.assets.begin().await?;
    let mut taken = 0;
    while let Some(chunk) = part.chunk().await? {
        // A part may come with chunks of nothing, of which a store need not know what to make.
        if chunk.is_empty() {
            continue;
        }
        taken += chunk.len() as u64;
        if room.is_some_and(|room| taken > room) {
            let limit_bytes = call.principal.tier.stored_bytes;
            return Err(asset_store::AssetsError::QuotaExceeded { limit_bytes }.into());
        }
        writer.write(chunk).await.map_err(store_failed)?;
    }
    Ok(writer)
}

/// Whether a part's media type says something: clients name this one where they know none.
fn is_known(part_type: &&str) -> bool {
    let essence = part_type.split(';').next().unwrap_or_default();
    !essence
        .trim()
        .eq_ignore_ascii_case("application/octet-stream")
}

fn store_failed(error: asset_store::BlobError) -> ApiError {
    asset_store::AssetsError::Store(Box::new(error)).into()
}

fn once<T>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), ApiError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(twice(name)),
    }
}

fn twice(name: &'static str) -> ApiError {
    field(name, "one part of the form; it came twice")
}

/// Reads a media type: it is sent back as a header, so it must be able to be one.
fn read_type(text: String) -> Result<String, ApiError> {
    let token = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(known)
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let well = essence
        .split_once('/')
        .is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    let sendable = HeaderValue::from_str(&text).is_ok() && text.is_ascii();
    if well && sendable && text.len() <= MOST_TYPE_CHARACTERS {
        Ok(text)
    } else {
        let must = "a media type such as `image/png`, of at most 255 characters";
        Err(field("content_type", must))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_can_be_sent_back() {
        for good in [
            "image/png",
            "text/plain; charset=utf-8",
            "application/vnd.x+json",
            "IMAGE/JPEG",
        ] {
            assert_eq!(read_type(good.to_owned()).ok().as_deref(), Some(good));
        }
        let long = format!("image/{}", "x".repeat(250));
        for bad in [
            "",
            "png",
            "image/",
            "/png",
            "image/p ng",
            "image/png\r\nx: y",
            "image/é",
            &long,
        ] {
            assert!(read_type(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
