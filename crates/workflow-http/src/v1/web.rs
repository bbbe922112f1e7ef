//! The web page: files of a folder that an operator named, and nothing outside of it but the templates and the pages of help
//! that PyPI installs beside the page.
//!
//! The folder holds a program that anybody may download, so its files need no credential; whoever opens the page itself
//! without one is sent to sign in first.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    LOCATION, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper_kit::{Body, STREAM_CHUNK_BYTES};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use tokio::task::spawn_blocking;

use super::errors::ApiError;
use super::request::verify;
use super::{Operation, V1Service, nodes, page, reply};
use crate::WorkflowService;

/// The file of the page itself.
const PAGE: &str = "index.html";

/// Folders of packages that PyPI installs beside the page's, and how the names of the packages begin.
const PACKAGES: [(&str, &str); 2] = [
    ("templates", "comfyui_workflow_templates"),
    ("docs", "comfyui_embedded_docs"),
];

/// Most bytes of a file that is sent: the largest of the page has a few.
pub(super) const MOST_BYTES: u64 = 64 << 20;

/// Who may show the page in a frame: itself alone, so that no other page lays itself over its buttons.
const FRAMES: HeaderValue = HeaderValue::from_static("frame-ancestors 'self'");

/// The same for older browsers.
const OLDER_FRAMES: HeaderValue = HeaderValue::from_static("SAMEORIGIN");

/// Answers what no route knows: a file of the web page, where one is served.
pub(crate) async fn fallback(
    service: &WorkflowService,
    v1: &V1Service,
    head: &Parts,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let web = v1.web_page.as_ref().ok_or(ApiError::NotFound)?;
    if head.method != Method::GET && head.method != Method::HEAD {
        return Err(ApiError::NotFound);
    }
    let prefix = &service.config.address.mount_prefix;
    let path = head.uri.path().strip_prefix(prefix.as_str());
    let path = path.ok_or(ApiError::NotFound)?;
    if path.is_empty() {
        // The page asks for what is beside it: without the slash that would be beside this address.
        let query = head.uri.query().map(|query| format!("?{query}"));
        return elsewhere(&format!("{prefix}/{}", query.unwrap_or_default()));
    }
    let path = path.trim_start_matches('/');
    let is_page = path.is_empty() || path == PAGE;
    if is_page {
        let Ok(principal) = verify(Operation::GetUsers, service, v1, head, now).await else {
            return elsewhere(&format!("{prefix}/signin"));
        };
        if let Some(first) = page::visit(service, v1, &principal, head, now).await? {
            return Ok(first);
        }
    }
    if let Some(own) = page::own_file(path) {
        return Ok(own);
    }
    let path = if is_page { PAGE } else { path };
    inside(web.root(), path).ok_or(ApiError::NotFound)?;
    // What runs here is told to callers alone; a stranger gets the index as it is installed.
    let is_index = page::is_index(path);
    let caller = match is_index {
        true => verify(Operation::GetUsers, service, v1, head, now)
            .await
            .ok(),
        false => None,
    };
    let files = match &caller {
        // A list that cannot be had for a moment keeps the page from nothing.
        Some(caller) => nodes::uploads(v1, &caller.account, now).await.ok(),
        None => None,
    };
    let files = files.map(HashSet::from_iter);
    let (web, nodes, wanted) = (web.clone(), service.jobs.nodes(), path.to_owned());
    let found = spawn_blocking(move || {
        // Not every language of the page has an index of its own.
        let english = || find_in(web.root(), page::INDEX).filter(|_| is_index);
        let found = find_in(web.root(), &wanted).or_else(english);
        let template = |name: &str| {
            let found = find_in(web.root(), &format!("templates/{name}.json"))?;
            Some(found.path)
        };
        let file = found.as_ref().map(|found| found.path.as_path());
        let index = files.and_then(|files| web.index(file, template, &nodes, &files));
        (found, index)
    });
    let (found, index) = found.await.map_err(|_| ApiError::NotFound)?;
    if let Some(index) = index {
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        return Ok(reply::bytes(StatusCode::OK, json, index));
    }
    match found {
        Some(found) => send(found, is_page, head).ok_or(ApiError::NotFound),
        None => page::stand_in(path).ok_or(ApiError::NotFound),
    }
}

/// Sends a browser to another address of this server.
fn elsewhere(target: &str) -> Result<Response<Body>, ApiError> {
    let target = HeaderValue::from_str(target).map_err(|_| ApiError::NotFound)?;
    let mut response = reply::empty(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, target);
    Ok(response)
}

/// The file of this path: the first that is there of all the places where it may be.
fn find_in(root: &Path, path: &str) -> Option<Found> {
    let mut places = places(root, path).into_iter();
    places.find_map(|(root, file)| find(&root, &file))
}

/// Where a file may be: in the packages beside the page's that have files below this path, then in the folder of the page. Each
/// place is a folder and the file in it.
fn places(root: &Path, path: &str) -> Vec<(PathBuf, PathBuf)> {
    let mut folders = Vec::new();
    let mut below = path;
    if let Some((first, rest)) = path.split_once('/')
        && let Some((folder, package)) = PACKAGES.iter().find(|(folder, _)| *folder == first)
    {
        folders = packages(root, package, folder).unwrap_or_default();
        below = rest;
    }
    let place = |root: PathBuf, path| Some((root.clone(), inside(&root, path)?));
    let beside = folders
        .into_iter()
        .filter_map(|folder| place(folder, below));
    beside.chain(place(root.to_owned(), path)).collect()
}

/// The folders of this name in packages whose name begins so, in the order of the packages' names.
pub(super) fn packages(root: &Path, package: &str, folder: &str) -> Option<Vec<PathBuf>> {
    let root = root.canonicalize().ok()?;
    let installed = root.parent()?.parent()?.read_dir().ok()?;
    let mut packages: Vec<PathBuf> = installed
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let name = name.to_str()?;
            // What pip knows of a package is in a folder with a hyphen in its name.
            let is_one = name.starts_with(package) && !name.contains('-');
            is_one.then(|| entry.path().join(folder))
        })
        .collect();
    packages.sort();
    Some(packages)
}

/// A file of the page.
struct Found {
    /// The path as it was asked for.
    asked: PathBuf,
    /// Where it leads, without symbolic links.
    path: PathBuf,
    /// Its first bytes; all of a small one.
    start: Vec<u8>,
    metadata: Metadata,
}

/// Opens a file and reads its first bytes; `None` for what is no file of the folder. A symbolic link may lead to another
/// place in the folder and not out of it.
fn find(root: &Path, asked: &Path) -> Option<Found> {
    let path = asked.canonicalize().ok()?;
    if !path.starts_with(root.canonicalize().ok()?) {
        return None;
    }
    let file = File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return None;
    }
    let mut start = Vec::new();
    let mut first = file.take(STREAM_CHUNK_BYTES as u64);
    first.read_to_end(&mut start).ok()?;
    Some(Found {
        asked: asked.to_owned(),
        path,
        start,
        metadata,
    })
}

/// The bytes of a file in pieces. It is opened for each of them, because clients may take their time.
fn pieces(found: Found) -> Body {
    let length = found.metadata.len();
    if found.start.len() as u64 >= length {
        return Body::full(found.start);
    }
    let path: Arc<Path> = found.path.into();
    let first = Some((0, Some(found.start)));
    Body::stream(stream::unfold(first, move |next| {
        let path = Arc::clone(&path);
        async move {
            let (from, known) = next.filter(|(from, _)| *from < length)?;
            let piece = match known {
                Some(piece) => Ok(piece),
                None => spawn_blocking(move || piece(&path, from, length))
                    .await
                    .unwrap_or_else(|gone| Err(io::Error::other(gone))),
            };
            // A file that became shorter breaks off: no part is taken for the whole.
            let piece = piece.and_then(|piece| match piece.is_empty() {
                true => Err(io::ErrorKind::UnexpectedEof.into()),
                false => Ok(piece),
            });
            let after = piece
                .as_ref()
                .ok()
                .map(|piece| (from + piece.len() as u64, None));
            Some((piece.map(Bytes::from), after))
        }
    }))
}

/// Bytes of a file of this length from here on.
fn piece(path: &Path, from: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let wanted = (length - from).min(STREAM_CHUNK_BYTES as u64);
    let mut bytes = Vec::new();
    file.take(wanted).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path of a file below the root; `None` for whatever might lead elsewhere.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    let well = !decoded.contains(['\\', '\0']) && !decoded.starts_with('/');
    let relative = Path::new(decoded.as_ref());
    let plain = |component| matches!(component, Component::Normal(name) if !hidden(name));
    (well && relative.components().all(plain)).then(|| root.join(relative))
}

/// Files that no page has, and some folders do.
fn hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

fn send(found: Found, is_page: bool, head: &Parts) -> Option<Response<Body>> {
    let (path, metadata) = (found.asked.clone(), found.metadata.clone());
    let changed = metadata.modified().ok()?;
    let changed = changed.duration_since(std::time::UNIX_EPOCH).ok()?;
    let tag = format!("\"{:x}-{:x}\"", changed.as_millis(), metadata.len());
    let known = head.headers.get(IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_known {
        true => reply::empty(StatusCode::NOT_MODIFIED),
        false => {
            let body = match head.method == Method::GET {
                true => pieces(found),
                false => Body::empty(),
            };
            let mut response = Response::new(body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(&path)));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(metadata.len()));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, FRAMES);
    headers.insert(X_FRAME_OPTIONS, OLDER_FRAMES);
    headers.insert(ETAG, HeaderValue::from_str(&tag).ok()?);
    // Names of assets tell their versions; the page itself may change under its name.
    let is_asset = path.components().any(|part| part.as_os_str() == "assets");
    let keep = match is_asset && !is_page {
        true => "public, max-age=86400",
        false => "no-cache",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(keep));
    Some(response)
}

fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().and_then(|ending| ending.to_str());
    match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "application/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let root = Path::new("/srv/page");
        let well = inside(root, "assets/a%20b.js");
        assert_eq!(well, Some(PathBuf::from("/srv/page/assets/a b.js")));
        for path in [
            "../x",
            "a/../../x",
            "%2e%2e/x",
            "..%2fx",
            "%2fetc/passwd",
            "/etc/passwd",
            "a\\..\\x",
            "a%00",
            ".git/config",
            "a/.env",
            "%ff",
        ] {
            assert_eq!(inside(root, path), None, "{path}");
        }
    }
}
