//! Uploads of pictures and masks.
//!
//! Storage is flat and by content. An upload keeps the name it came under. The same bytes under the same name are one record,
//! however often they come; other bytes under a name that is taken get a number behind it, unless they are to replace it. A
//! name that is a hash finds the bytes, too.

mod names;

use accounts::Principal;
use asset_store::{
    Asset, AssetId, AssetQuery, Assets, AssetsError, Blob, BlobHash, BlobWriter, FilePath, Upload,
};
use http::Response;
use hyper_kit::Body;
use hyper_kit::multipart::{Multipart, MultipartError, MultipartLimits, Part};
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;
use v1_compat::{FileKind, ViewRequest};
use workflow_core::ImageToolsError;

use super::errors::{ApiError, field};
use super::request::Call;
use super::{reply, view};
use crate::WorkflowService;
use crate::uploads::UPLOAD_PACE;
use names::{file_name, path, place, png_name};

/// Largest upload of this family (50 MiB); the tier of an account may allow less.
pub(super) const UPLOAD_BYTES: u64 = 50 << 20;

/// Longest edge of a picture, and most pixels of one.
const MOST_EDGE: u32 = 16_384;
const MOST_PIXELS: u64 = 67_108_864;

/// How often a name is sought. Every time that it was taken meanwhile another upload of the account got one, and these are few at
/// once.
const MOST_NAMES: usize = 64;

/// What a form may have besides its file.
const BESIDES_THE_FILE_BYTES: u64 = 256 * 1024;
const MOST_FIELD_BYTES: usize = 8 * 1024;
const MOST_PARTS: usize = 64;

/// Media types by the first bytes of a file; the rest is told by its ending.
const UNKNOWN: &str = "application/octet-stream";

/// The parts of a form.
#[derive(Default)]
struct Form {
    file: Option<File>,
    kind: Option<String>,
    original: Option<String>,
    overwrite: bool,
}

/// The file of a form, on its way into the store.
struct File {
    writer: Box<dyn BlobWriter>,
    name: String,
}

/// POST /upload/image.
pub(super) async fn image(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    // Kept until the record is there.
    let _place = call.uploads.begin(call.account()).await?;
    let form = Form::read(call, body).await?;
    let kind = kind(form.kind.as_deref())?;
    let file = form.file.ok_or_else(no_file)?;
    let stored = store(call, file, kind, form.overwrite).await?;
    Ok(reply::ok(&told(&stored, kind, None)))
}

/// POST /upload/mask: the original with the alpha of what was uploaded.
pub(super) async fn mask(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let _place = call.uploads.begin(call.account()).await?;
    let form = Form::read(call, body).await?;
    let kind = kind(form.kind.as_deref())?;
    let reference = form.original.as_deref();
    let reference = reference.ok_or_else(|| {
        field(
            "original_ref",
            "a part of the form with the file that the mask is of; it is missing",
        )
    })?;
    let original = original(call, reference).await?;
    let file = form.file.ok_or_else(no_file)?;
    let name = file.name.clone();
    // Without a record nobody can read the mask itself, and a sweep takes it away.
    let mask = commit(call.service, &call.principal, file.writer).await?;
    let made = call
        .v1
        .image_tools
        .mask(view::blob(&original), mask)
        .await?;
    let name = png_name(&name);
    let mut writer = call.service.assets.begin().await?;
    writer.write(made.bytes).await.map_err(store_failed)?;
    let stored = store(call, File { writer, name }, kind, form.overwrite).await?;
    let metadata = json!({
        "is_mask": true,
        "original_hash": original.hash.to_string(),
    });
    Ok(reply::ok(&told(&stored, kind, Some(metadata))))
}

impl Form {
    async fn read(call: &Call<'_>, body: Body) -> Result<Self, ApiError> {
        let config = &call.service.config;
        let tier = call.principal.tier.upload_bytes;
        let limit_bytes = UPLOAD_BYTES.min(config.upload_bytes).min(tier);
        let limits = MultipartLimits {
            total_bytes: limit_bytes.saturating_add(BESIDES_THE_FILE_BYTES),
            part_bytes: limit_bytes,
            text_bytes: MOST_FIELD_BYTES,
            parts: MOST_PARTS,
            pace: UPLOAD_PACE,
        };
        let too_large = |error| {
            let is_file = |limit: u64| limit >= limit_bytes;
            if matches!(&error, ApiError::Form(MultipartError::TooLarge { limit }) if is_file(*limit))
            {
                ApiError::UploadTooLarge { limit_bytes }
            } else {
                error
            }
        };
        let parts = Multipart::new(&call.head.headers, body, limits);
        let parts = parts.map_err(ApiError::Form).map_err(too_large)?;
        Self::read_parts(call, parts).await.map_err(too_large)
    }

    async fn read_parts(call: &Call<'_>, mut parts: Multipart) -> Result<Self, ApiError> {
        let mut form = Self::default();
        while let Some(part) = parts.next_part().await? {
            let part_name = part.name().to_owned();
            match part_name.as_str() {
                "image" if form.file.is_some() => {
                    return Err(field("image", "one part of the form; it came twice"));
                }
                "image" => {
                    let name = part.file_name().unwrap_or_default().to_owned();
                    let name = file_name(&name)?;
                    let writer = bytes_of(call, part).await?;
                    form.file = Some(File { writer, name });
                }
                "type" => form.kind = Some(part.text().await?),
                "original_ref" => form.original = Some(part.text().await?),
                "overwrite" => {
                    form.overwrite = matches!(part.text().await?.as_str(), "true" | "1");
                }
                // Read away. `subfolder` has a meaning elsewhere, and none where storage is flat.
                _ => {}
            }
        }
        Ok(form)
    }
}

/// Hands the bytes of a part to the blob store as they come.
async fn bytes_of(call: &Call<'_>, mut part: Part<'_>) -> Result<Box<dyn BlobWriter>, ApiError> {
    let mut writer = call.service.assets.begin().await?;
    while let Some(chunk) = part.chunk().await? {
        if !chunk.is_empty() {
            writer.write(chunk).await.map_err(store_failed)?;
        }
    }
    Ok(writer)
}

/// Makes a record of a file, or meets the one that is there.
async fn store(
    call: &Call<'_>,
    file: File,
    kind: FileKind,
    overwrite: bool,
) -> Result<Asset, ApiError> {
    let now = call.service.clock.now();
    let assets = assets_of(call.service, &call.principal);
    let mut writer = file.writer;
    // Looked at before it becomes a record: what is refused is nowhere to be found.
    let blob = writer.finish().await.map_err(store_failed)?;
    // Storage is flat, where ComfyUI has a folder for each kind: what was sent as another kind is not to be lost.
    let mut replaces = overwrite && may_replace(call, &file.name, kind).await?;
    let mut place = place(call, &file.name, blob.hash, replaces).await?;
    let blob = match place.is_there {
        // It takes no more room.
        true => writer.commit().await.map_err(store_failed)?,
        false => commit(call.service, &call.principal, writer).await?,
    };
    let media_type = probe(call, blob).await?;
    let upload = |path| Upload {
        id: AssetId(Uuid::now_v7()),
        account: call.account().clone(),
        content_type: media_type.to_owned(),
        file_path: Some(path),
        tags: match kind {
            FileKind::Input => Vec::new(),
            FileKind::Output | FileKind::Temp => vec![kind.name().to_owned()],
        },
        expires_in: None,
        key: None,
    };
    // Another upload may take the name after it was found to be free, so whoever makes the record first has it.
    for _ in 0..MOST_NAMES {
        let path = &place.path;
        let named = upload(path.clone());
        let mut kept = assets.keep_under_free_name(blob, named, now).await;
        // What is replaced is what was looked at, and no upload of another kind that came since.
        if matches!(kept, Err(AssetsError::NameTaken))
            && replaces
            && let Some(there) = there(call, &file.name).await?
            && gives_way(&there, kind)
        {
            let replacing = upload(path.clone());
            kept = assets
                .keep_in_place_of(there.id, blob, replacing, now)
                .await;
        } else if let Ok(created) = &kept
            && let there = &created.asset
            && !kinds(there).contains(&kind)
        {
            // It is of both kinds from now on, where ComfyUI has it in both folders.
            let both = kinds(there).into_iter().chain([kind]);
            let of_both = Upload {
                tags: with_kinds(there.tags.clone(), both),
                ..upload(path.clone())
            };
            kept = assets.keep_in_place_of(there.id, blob, of_both, now).await;
        }
        match kept {
            Err(AssetsError::NameTaken) => {}
            kept => {
                let kept = kept?.asset;
                if kinds(&kept).contains(&kind) {
                    return Ok(kept);
                }
            }
        }
        replaces = overwrite && may_replace(call, &file.name, kind).await?;
        place = names::place(call, &file.name, blob.hash, replaces).await?;
    }
    Err(ApiError::Exists)
}

/// The kinds that an upload was sent as, which are among its tags. One without any of them is an input.
pub(super) fn kinds(upload: &Asset) -> Vec<FileKind> {
    let is_tag = |kind: &FileKind| upload.tags.iter().any(|tag| tag == kind.name());
    let all = [FileKind::Input, FileKind::Output, FileKind::Temp];
    let kinds: Vec<FileKind> = all.into_iter().filter(is_tag).collect();
    match kinds.is_empty() {
        true => vec![FileKind::Input],
        false => kinds,
    }
}

/// Tags with those of kinds that are not among them.
fn with_kinds(mut tags: Vec<String>, kinds: impl Iterator<Item = FileKind>) -> Vec<String> {
    for name in kinds.map(FileKind::name) {
        if tags.iter().all(|tag| tag != name) {
            tags.push(name.to_owned());
        }
    }
    tags
}

/// Whether an upload of a kind may have this name in place of the one that has it.
async fn may_replace(call: &Call<'_>, name: &str, kind: FileKind) -> Result<bool, ApiError> {
    let there = there(call, name).await?;
    Ok(there.is_none_or(|there| gives_way(&there, kind)))
}

/// The upload that has a name.
async fn there(call: &Call<'_>, name: &str) -> Result<Option<Asset>, ApiError> {
    let query = AssetQuery::Upload(path(name, 0)?);
    let there = call.service.assets.find(call.account(), &query, call.now);
    Ok(there.await?)
}

/// Whether an upload of a kind may take the place of another one: an input that of any, another kind that of one that is nothing else.
fn gives_way(there: &Asset, kind: FileKind) -> bool {
    kind == FileKind::Input || kinds(there) == [kind]
}

/// Keeps a file of the program as an upload of an account that has none of this name.
pub(super) async fn keep_example(
    service: &WorkflowService,
    principal: &Principal,
    name: &str,
    bytes: &'static [u8],
    now: Timestamp,
) -> Result<(), ApiError> {
    let path: FilePath = name.parse().map_err(|_| no_file())?;
    let assets = assets_of(service, principal);
    let query = AssetQuery::Upload(path.clone());
    if assets
        .find(&principal.account, &query, now)
        .await?
        .is_some()
    {
        return Ok(());
    }
    let mut writer = assets.begin().await?;
    let bytes = bytes::Bytes::from_static(bytes);
    writer.write(bytes).await.map_err(store_failed)?;
    let upload = Upload {
        id: AssetId(Uuid::now_v7()),
        account: principal.account.clone(),
        content_type: "image/png".to_owned(),
        file_path: Some(path),
        tags: Vec::new(),
        expires_in: None,
        key: None,
    };
    let blob = commit(service, principal, writer).await?;
    match assets.keep_under_free_name(blob, upload, now).await {
        // The account's own file came first, and stays the one that the name means.
        Ok(_) | Err(AssetsError::NameTaken) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Assets within what an account may store, kept for as long as its uploads are.
fn assets_of(service: &WorkflowService, principal: &Principal) -> Assets {
    let tier = &principal.tier;
    let assets = service.assets.within(tier.stored_bound());
    assets.keeping(tier.upload_retention)
}

/// Makes bytes durable, under no record yet, if the account has room for one.
async fn commit(
    service: &WorkflowService,
    principal: &Principal,
    mut writer: Box<dyn BlobWriter>,
) -> Result<Blob, ApiError> {
    let blob = writer.finish().await.map_err(store_failed)?;
    let assets = assets_of(service, principal);
    let room = assets.room(&principal.account, false).await?;
    if room.is_some_and(|room| blob.size_bytes > room) {
        let limit_bytes = principal.tier.stored_bytes;
        return Err(AssetsError::QuotaExceeded { limit_bytes }.into());
    }
    writer.commit().await.map_err(store_failed)
}

/// The media type of a file, once it is known to be no larger than pictures may be. Any file may be uploaded.
async fn probe(call: &Call<'_>, blob: Blob) -> Result<&'static str, ApiError> {
    match call.v1.image_tools.probe(blob).await {
        Ok(info) => {
            let pixels = u64::from(info.width) * u64::from(info.height);
            if info.width.max(info.height) > MOST_EDGE || pixels > MOST_PIXELS {
                return Err(ApiError::Invalid(format!(
                    "a picture may have at most {MOST_EDGE} pixels on an edge and {MOST_PIXELS} in all"
                )));
            }
            Ok(info.media_type)
        }
        Err(ImageToolsError::NotAPicture(_)) => Ok(UNKNOWN),
        Err(error) => Err(error.into()),
    }
}

/// The file that a mask is of: an object with `filename`, `subfolder` and `type`, as text.
async fn original(call: &Call<'_>, reference: &str) -> Result<Asset, ApiError> {
    let must = "a JSON object with filename, subfolder and type";
    let wrong = || field("original_ref", must);
    let value = json_text::read_str(reference).map_err(|_| wrong())?;
    let fields = value.as_object().ok_or_else(wrong)?;
    let mut query = Vec::new();
    for name in ["filename", "subfolder", "type"] {
        if let Some(value) = fields.get(name).and_then(Value::as_str) {
            query.push((name.to_owned(), value.to_owned()));
        }
    }
    let target = ViewRequest::read(&query)?.target;
    view::find(call, &target).await?.ok_or(ApiError::NotFound)
}

fn kind(text: Option<&str>) -> Result<FileKind, ApiError> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(FileKind::Input),
        Some(text) => FileKind::from_name(text).map_err(|_| field("type", "input, temp or output")),
    }
}

/// What the client is told. Storage is flat: a subfolder is taken and means nothing.
fn told(asset: &Asset, kind: FileKind, metadata: Option<Value>) -> Value {
    let mut body = json!({
        "name": asset.file_path.as_ref().map_or("", |path| path.name()),
        "subfolder": "",
        "type": kind.name(),
        "asset": {
            "id": asset.id.to_string(),
            "name": asset.file_path.as_ref().map(FilePath::as_str),
            "asset_hash": asset.hash.to_string(),
            "size": asset.size_bytes,
            "mime_type": asset.content_type,
            "tags": kinds(asset).into_iter().map(FileKind::name).collect::<Vec<_>>(),
        },
    });
    if let Some(metadata) = metadata {
        body["metadata"] = metadata;
    }
    body
}

/// The hash that a name is, whatever its ending.
pub(super) fn hash_in(path: &FilePath) -> Option<BlobHash> {
    let stem = path.as_str().split('.').next()?;
    BlobHash::from_hex(stem).ok()
}

fn no_file() -> ApiError {
    field("image", "a file with a name, in a part of the form")
}

fn store_failed(error: asset_store::BlobError) -> ApiError {
    AssetsError::Store(Box::new(error)).into()
}
