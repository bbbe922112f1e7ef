//! Assets: records by id and by hash, and the bytes behind them. Uploads are next door.

use accounts::AccountId;
use asset_http::{ContentError, Representation};
use asset_store::{Asset, AssetId, AssetsError, BlobHash, Created, FilePath, Upload};
use http::{Response, StatusCode};
use hyper_kit::{Body, media};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize as _;
use serde_json::Value;
use uuid::Uuid;

use super::call::Call;
use super::errors::ApiError;
use super::wire::AssetBody;
use super::{idempotency, reply};
use crate::memory::Parsed;

/// Seconds that an upload may be asked to be kept: a minute to a week.
const EXPIRES_IN_S: std::ops::RangeInclusive<i64> = 60..=604_800;

/// Most tags of an asset.
const MOST_TAGS: usize = 64;

/// Most characters of a tag.
const MOST_TAG_CHARACTERS: usize = 255;

/// Separates the idempotency keys of this operation from those of others.
const OPERATION: &str = "assets/from-hash";

/// The body of `POST /assets/from-hash`. Each field is read for itself, so that a refusal can name it.
struct FromHashBody {
    hash: Value,
    file_path: Value,
    tags: Value,
    expires_in: Value,
}

/// POST /assets/from-hash: a record over bytes that the account has.
pub(crate) async fn create_from_hash(
    call: &Call<'_>,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    let headers = &call.head.headers;
    let key = idempotency::read(headers, OPERATION)?;
    media::expect_json(headers)?;
    let bytes = call.read(body).await?;
    let parsed = call.parse(&bytes, |bytes| {
        let Value::Object(mut fields) = json_text::read(bytes).map_err(ApiError::Syntax)? else {
            return Err(field("body", "an object with a `hash`"));
        };
        let mut take = |name: &str| fields.remove(name).unwrap_or_default();
        Ok(FromHashBody {
            hash: take("hash"),
            file_path: take("file_path"),
            tags: take("tags"),
            expires_in: take("expires_in"),
        })
    });
    let Parsed {
        value,
        room: _until_done,
    } = parsed.await?;
    let body = value?;

    let hash = read_hash(body.hash.as_str(), "hash")?;
    let file_path = given(&body.file_path).map(|path| read_path(path.as_str()));
    let expires_in = given(&body.expires_in).map(|seconds| read_expires_in(whole(seconds)));
    let upload = Upload {
        id: AssetId(Uuid::now_v7()),
        account: call.principal.account.clone(),
        // That of the bytes the account has takes its place.
        content_type: String::new(),
        file_path: file_path.transpose()?,
        tags: tags_of(&body.tags)?,
        expires_in: expires_in.transpose()?,
        key,
    };
    let kept = call.principal.tier.upload_retention;
    let created = call
        .service
        .assets
        .keeping(kept)
        .within(call.principal.tier.stored_bound())
        .from_hash(upload, hash, call.now)
        .await?;
    Ok(created_answer(
        call,
        &created,
        created.existing || created.replayed,
        call.now,
    ))
}

/// HEAD /assets/by-hash/{hash}: whether the operation above would find the bytes.
pub(crate) async fn has_by_hash(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let absent = ApiError::Assets(AssetsError::BlobNotFound);
    // What is no hash names no bytes.
    let Ok(hash) = call.params["hash"].parse() else {
        return Err(absent);
    };
    let account = &call.principal.account;
    if call.service.assets.has(account, hash, call.now).await? {
        Ok(reply::empty(StatusCode::OK))
    } else {
        Err(absent)
    }
}

/// GET /assets/{id}: the record, with a fresh link.
pub(crate) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let asset = find(call).await?;
    let body = AssetBody::new(&asset, &call.links, call.now);
    Ok(reply::json(StatusCode::OK, &body))
}

/// DELETE /assets/{id}: exactly 204; what is held stays, and the refusal never says what holds it.
pub(crate) async fn delete(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (assets, account) = (&call.service.assets, &call.principal.account);
    assets.delete(account, asset_id(call)?, call.now).await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// GET /assets/{id}/content: the bytes.
pub(crate) async fn content(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let asset = find(call).await?;
    let hex = asset.hash.to_hex();
    let shown = Representation {
        hash: asset.hash,
        size_bytes: asset.size_bytes,
        content_type: &asset.content_type,
        file_name: asset.file_path.as_ref().map_or(&hex, FilePath::name),
    };
    Ok(asset_http::serve(&call.service.assets, call.head, &shown).await?)
}

impl From<ContentError> for ApiError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::BadLink => Self::BadLink,
            ContentError::Unsatisfiable(content_range) => Self::Unsatisfiable(content_range),
            ContentError::Assets(error) => Self::Assets(error),
        }
    }
}

/// The answer to a creation: 201, or 200 where nothing new came of it.
pub(crate) fn created_answer(
    call: &Call<'_>,
    created: &Created,
    nothing_new: bool,
    now: Timestamp,
) -> Response<Body> {
    let status = if nothing_new {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let body = AssetBody {
        created_new: Some(created.created_new),
        ..AssetBody::new(&created.asset, &call.links, now)
    };
    let mut response = reply::json(status, &body);
    if created.replayed {
        let headers = response.headers_mut();
        headers.insert(idempotency::REPLAYED, idempotency::YES);
    }
    response
}

/// Reads `blake3:<64 hex>`.
pub(crate) fn read_hash(text: Option<&str>, name: &'static str) -> Result<BlobHash, ApiError> {
    let hash = text.and_then(|text| text.parse().ok());
    hash.ok_or_else(|| field(name, "`blake3:` followed by 64 hexadecimal digits"))
}

/// Reads the name of a file.
pub(crate) fn read_path(text: Option<&str>) -> Result<FilePath, ApiError> {
    let path = text.and_then(|text| text.parse().ok());
    path.ok_or_else(|| {
        let must = "a relative path of 1 to 1024 bytes, without control characters, without a drive such as `C:`, \
                    and without parts that are empty, `.` or `..`";
        field("file_path", must)
    })
}

/// Reads how long an asset is to be kept.
pub(crate) fn read_expires_in(seconds: Option<i64>) -> Result<SignedDuration, ApiError> {
    let seconds = seconds.filter(|seconds| EXPIRES_IN_S.contains(seconds));
    let seconds = seconds
        .ok_or_else(|| field("expires_in", "a whole number of seconds from 60 to 604800"))?;
    Ok(SignedDuration::from_secs(seconds))
}

/// Checks the tags of an asset.
pub(crate) fn read_tags(tags: Vec<String>) -> Result<Vec<String>, ApiError> {
    let well = |tag: &String| {
        (1..=MOST_TAG_CHARACTERS).contains(&tag.chars().count())
            && !tag.chars().any(char::is_control)
    };
    if tags.len() <= MOST_TAGS && tags.iter().all(well) {
        Ok(tags)
    } else {
        let must = "at most 64 texts of 1 to 255 characters without control characters";
        Err(field("tags", must))
    }
}

/// A refusal that names the field.
pub(crate) fn field(name: &'static str, must: &str) -> ApiError {
    let must = must.to_owned();
    ApiError::Field { name, must }
}

/// A field that is `null` is as if it were left out.
fn given(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

/// A whole number, also when it is written `60.0`: to JSON that is the same number.
fn whole(value: &Value) -> Option<i64> {
    let spelled_as_fraction = || {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        // A number beyond the range becomes its end, which is no valid answer to anything asked here.
        Some(number as i64)
    };
    value.as_i64().or_else(spelled_as_fraction)
}

fn tags_of(value: &Value) -> Result<Vec<String>, ApiError> {
    let tags =
        Option::<Vec<String>>::deserialize(value).map_err(|_| field("tags", "a list of texts"))?;
    read_tags(tags.unwrap_or_default())
}

async fn find(call: &Call<'_>) -> Result<Asset, ApiError> {
    let account: &AccountId = &call.principal.account;
    let assets = &call.service.assets;
    Ok(assets.get(account, asset_id(call)?, call.now).await?)
}

/// The asset that the path names. What is no id is an asset that nobody has.
fn asset_id(call: &Call<'_>) -> Result<AssetId, ApiError> {
    let text = &call.params["id"];
    let id = Some(text).filter(|text| text.len() == uuid::fmt::Hyphenated::LENGTH);
    let id = id.and_then(|text| text.parse().ok());
    id.ok_or(ApiError::Assets(AssetsError::NotFound))
}
