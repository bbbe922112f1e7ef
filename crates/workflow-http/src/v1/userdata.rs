//! Saved files of an account, workflows above all.
//!
//! A file's name is one part of the path with its slashes encoded, so it is read from the path as it came.

use asset_store::FilePath;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use v1_compat::{FileContent, FileWrite, Renamed, UserFile};

use super::errors::{ApiError, field};
use super::reply;
use super::request::Call;

/// The folder that is the server's own: what is in it is told to nobody.
const RESERVED: &str = ".easel";

/// GET /userdata?dir=...: names below a folder, relative to it.
pub(super) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let query = call.query();
    let get = |wanted: &str| {
        let found = query.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let is_on = |name| matches!(get(name), Some("true" | "1" | "True"));
    let (recurse, full, split) = (is_on("recurse"), is_on("full_info"), is_on("split"));
    let dir = get("dir").unwrap_or_default().trim_matches('/');
    let folder: Option<FilePath> = match dir {
        "" | "." => None,
        dir => Some(dir.parse().map_err(|_| field("dir", "a folder"))?),
    };
    let files = &call.v1.user_files;
    let files = files.list(call.account(), folder.as_ref()).await?;
    let prefix = folder.map_or(0, |folder| folder.as_str().len() + 1);
    let mut listed = Vec::new();
    for file in files.iter().filter(|file| !is_reserved(&file.path)) {
        let below = &file.path.as_str()[prefix..];
        if !recurse && below.contains('/') {
            continue;
        }
        // As in ComfyUI, no name that begins with a dot is listed. The page would show its file of bookmarks as a workflow.
        if below.split('/').any(|part| part.starts_with('.')) {
            continue;
        }
        listed.push(match (full, split) {
            (true, _) => info(file, below),
            (false, true) => {
                let parts = std::iter::once(below).chain(below.split('/'));
                parts.map(Value::from).collect()
            }
            (false, false) => below.into(),
        });
    }
    Ok(reply::ok(&Value::from(listed)))
}

/// GET /userdata/{file}.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let path = named(call, 1)?;
    let bytes = call.v1.user_files.read(call.account(), &path).await?;
    let bytes = match bytes {
        Some(bytes) => bytes,
        None => never_saved(path.as_str()).ok_or(ApiError::NotFound)?,
    };
    let content_type = match path.as_str().rsplit('.').next() {
        Some("json") => "application/json; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    };
    let content_type = HeaderValue::from_static(content_type);
    let mut response = reply::bytes(StatusCode::OK, content_type, bytes);
    let sandbox = HeaderValue::from_static("sandbox");
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_SECURITY_POLICY, sandbox);
    Ok(response)
}

/// What stands for a file that the page asks for before anybody saved it.
fn never_saved(path: &str) -> Option<Bytes> {
    match path {
        "user.css" => Some(Bytes::new()),
        "comfy.templates.json" => Some(Bytes::from_static(b"[]")),
        // The bookmarks of workflows.
        "workflows/.index.json" => Some(Bytes::from_static(b"{}")),
        _ => None,
    }
}

/// POST /userdata/{file}: saves it, in place of one of the same name unless that is not wanted.
pub(super) async fn save(call: &Call<'_>, body: Body) -> Result<Response<Body>, ApiError> {
    let path = named(call, 1)?;
    let (replace, full) = choices(call);
    let bytes = call.read(body).await?;
    let files = &call.v1.user_files;
    let content = match replace {
        true => FileContent::Set(bytes),
        false => FileContent::New(bytes),
    };
    let written = files.write(call.account(), &path, content, call.now);
    match written.await? {
        FileWrite::Saved(file) => Ok(told(&file, full)),
        FileWrite::Exists => Err(ApiError::Exists),
    }
}

/// DELETE /userdata/{file}.
pub(super) async fn delete(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let path = named(call, 1)?;
    match call.v1.user_files.remove(call.account(), &path).await? {
        true => Ok(reply::empty(StatusCode::NO_CONTENT)),
        false => Err(ApiError::NotFound),
    }
}

/// POST /userdata/{file}/move/{to}.
pub(super) async fn rename(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (from, to) = (named(call, 1)?, named(call, 3)?);
    let (replace, full) = choices(call);
    let files = &call.v1.user_files;
    match files.rename(call.account(), &from, &to, replace).await? {
        Renamed::Renamed(file) => Ok(told(&file, full)),
        Renamed::Absent => Err(ApiError::NotFound),
        Renamed::Exists => Err(ApiError::Exists),
    }
}

/// The file that the part of the path names which is this many behind `userdata`.
fn named(call: &Call<'_>, behind: usize) -> Result<FilePath, ApiError> {
    let mut parts = call.head.uri.path().split('/');
    let found = parts.by_ref().any(|part| part == "userdata");
    let part = parts.nth(behind - 1).filter(|_| found);
    let decoded = percent_decode_str(part.ok_or(ApiError::NotFound)?).decode_utf8();
    let decoded = decoded.map_err(|_| ApiError::NotFound)?;
    let must = "a name inside the account's folder, without `..`";
    let path: FilePath = decoded.parse().map_err(|_| field("file", must))?;
    match is_reserved(&path) {
        true => Err(field("file", must)),
        false => Ok(path),
    }
}

fn is_reserved(path: &FilePath) -> bool {
    path.as_str().split('/').next() == Some(RESERVED)
}

/// Whether a file may be replaced, and whether all is to be told of it.
fn choices(call: &Call<'_>) -> (bool, bool) {
    let query = call.query();
    let is = |wanted: &str, words: &[&str]| {
        let found = query.iter().find(|(name, _)| name == wanted);
        found.is_some_and(|(_, value)| words.contains(&value.as_str()))
    };
    let keep = is("overwrite", &["false", "0", "False"]);
    (!keep, is("full_info", &["true", "1", "True"]))
}

fn told(file: &UserFile, full: bool) -> Response<Body> {
    match full {
        true => reply::ok(&info(file, file.path.as_str())),
        false => reply::ok(&Value::from(file.path.as_str())),
    }
}

fn info(file: &UserFile, path: &str) -> Value {
    json!({
        "path": path,
        "size": file.size_bytes,
        "modified": file.modified_at.as_millisecond(),
        "created": file.created_at.as_millisecond(),
    })
}
