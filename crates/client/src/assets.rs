//! Assets: content-addressed uploads, and downloads that are compared with their hash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_kit::{Body, PacedBody};
use serde_json::json;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::ClientError;
use crate::jobs::segment;
use crate::multipart::Form;
use crate::transport::{Asked, Client, PACE, broken, json};
use crate::wire::Asset;

/// Bytes of a file that are hashed at once.
const HASHED_AT_ONCE: usize = 256 * 1024;

/// The time for an upload: a GiB at a megabyte a second, with room.
const UPLOAD_TIME: Duration = Duration::from_secs(3600);

/// How often a download goes on where it broke off.
const MOST_RESUMPTIONS: u32 = 5;

/// A file on its way to the server.
#[derive(Clone, Debug)]
pub struct FileToUpload {
    /// Where it is.
    pub path: PathBuf,
    /// The name under which graphs find it.
    pub file_path: String,
    /// Its media type.
    pub content_type: String,
    /// Tags.
    pub tags: Vec<String>,
    /// How long the server keeps it, in seconds.
    pub expires_in_s: Option<u64>,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// How many bytes.
    pub size_bytes: u64,
    /// `blake3:<64 hex>` of them.
    pub hash: String,
}

impl Client {
    /// Makes a file an asset. The bytes travel only if the account does not have them yet.
    ///
    /// # Errors
    /// If the file cannot be read, or the server refuses it.
    pub async fn upload(&self, file: &FileToUpload) -> Result<Asset, ClientError> {
        let hash = hash_of(&file.path).await?;
        match self.create_from_hash(file, &hash).await {
            Err(error) if error.is_status(404) => self.upload_bytes(file, &hash).await,
            known => known,
        }
    }

    async fn create_from_hash(
        &self,
        file: &FileToUpload,
        hash: &str,
    ) -> Result<Asset, ClientError> {
        let mut body = json!({"hash": hash, "file_path": file.file_path, "tags": file.tags});
        if let Some(seconds) = file.expires_in_s {
            body["expires_in"] = seconds.into();
        }
        let url = self.server().join("/api/v2/assets/from-hash");
        let asked = Asked::post_json(url, Bytes::from(body.to_string()));
        json(self.ask(asked).await?).await
    }

    async fn upload_bytes(&self, file: &FileToUpload, hash: &str) -> Result<Asset, ClientError> {
        let hex = hash.trim_start_matches("blake3:");
        let mut form = Form::new(format!("easel-{hex}"));
        form.field("file_path", &file.file_path);
        form.field("content_type", &file.content_type);
        form.field("expected_hash", hash);
        for tag in &file.tags {
            form.field("tags", tag);
        }
        if let Some(seconds) = file.expires_in_s {
            form.field("expires_in", &seconds.to_string());
        }
        let content_type = HeaderValue::try_from(form.content_type());
        let content_type = content_type
            .map_err(|_| ClientError::Setting("the form has no usable boundary".to_owned()))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type);
        let body = form.with_file(&file.path, &file.file_path).await;
        let body = body.map_err(|source| unreadable(&file.path, source))?;
        let url = self.server().join("/api/v2/assets");
        let sent = self.send_stream(&url, headers, body, UPLOAD_TIME).await;
        match sent {
            Ok(answer) => json(answer).await,
            Err(error) if refuses_hash(&error) => Err(ClientError::Setting(format!(
                "{} changed while it was read; send it again once it is complete",
                file.path.display()
            ))),
            Err(error) => Err(error),
        }
    }

    /// Whether the account has these bytes on the server.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn has_bytes(&self, hash: &str) -> Result<bool, ClientError> {
        let path = format!("/api/v2/assets/by-hash/{}", segment(hash));
        let asked = Asked::of(Method::HEAD, self.server().join(&path));
        match self.ask(asked).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_status(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The record of an asset.
    ///
    /// # Errors
    /// If there is no such asset, or no answer.
    pub async fn asset(&self, id: &str) -> Result<Asset, ClientError> {
        self.get_json(self.server().join(&asset_path(id))).await
    }

    /// Deletes the record of an asset.
    ///
    /// # Errors
    /// If there is no such asset, something holds it, or there is no answer.
    pub async fn delete_asset(&self, id: &str) -> Result<(), ClientError> {
        let url = self.server().join(&asset_path(id));
        self.ask(Asked::of(Method::DELETE, url)).await.map(drop)
    }

    /// Writes the bytes of an asset to `out`, and compares them with `hash` where the server named one. A download that
    /// breaks off goes on where it was.
    ///
    /// # Errors
    /// If there is no such asset, the connection stays broken, `out` cannot be written, or the bytes are damaged.
    pub async fn download(
        &self,
        id: &str,
        hash: Option<&str>,
        out: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<Fetched, ClientError> {
        let mut hasher = blake3::Hasher::new();
        let mut have = 0_u64;
        let mut resumptions = 0;
        loop {
            match self.fetch_from(id, &mut have, &mut hasher, out).await {
                Ok(()) => break,
                Err(ClientError::Interrupted(_)) if resumptions < MOST_RESUMPTIONS => {
                    resumptions += 1;
                }
                Err(error) => return Err(error),
            }
        }
        out.flush().await.map_err(|source| unwritable(id, source))?;
        let found = format!("blake3:{}", hasher.finalize().to_hex());
        match hash {
            Some(hash) if hash.starts_with("blake3:") && !hash.eq_ignore_ascii_case(&found) => {
                Err(ClientError::Damaged(format!("asset {id}")))
            }
            Some(_) | None => Ok(Fetched {
                size_bytes: have,
                hash: found,
            }),
        }
    }

    async fn fetch_from(
        &self,
        id: &str,
        have: &mut u64,
        hasher: &mut blake3::Hasher,
        out: &mut (dyn AsyncWrite + Send + Unpin),
    ) -> Result<(), ClientError> {
        let answer = self.content(id, *have).await?;
        let skipped = match (*have, answer.status()) {
            (0, _) => 0,
            (offset, StatusCode::PARTIAL_CONTENT) if begins_at(&answer, offset) => 0,
            // A server without ranges sends everything again.
            (offset, _) => offset,
        };
        let mut left_out = skipped;
        let mut body = PacedBody::new(answer.into_body(), PACE);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(mut chunk) = frame.into_data() else {
                continue;
            };
            let known = left_out.min(chunk.len() as u64);
            left_out -= known;
            let chunk = chunk.split_off(usize::try_from(known).unwrap_or(chunk.len()));
            hasher.update(&chunk);
            let written = out.write_all(&chunk).await;
            written.map_err(|source| unwritable(id, source))?;
            *have += chunk.len() as u64;
        }
        Ok(())
    }

    /// The bytes of an asset from an offset on, wherever the server keeps them.
    async fn content(&self, id: &str, offset: u64) -> Result<Response<Body>, ClientError> {
        let url = self.server().join(&format!("{}/content", asset_path(id)));
        let mut asked = Asked::get(url.clone());
        asked.headers = HeaderMap::new();
        if offset > 0 {
            let range = HeaderValue::try_from(format!("bytes={offset}-"));
            let range = range.map_err(|_| ClientError::Damaged(format!("asset {id}")))?;
            asked.headers.insert(RANGE, range);
        }
        let headers = asked.headers.clone();
        let answer = self.ask(asked).await?;
        if !answer.status().is_redirection() {
            return Ok(answer);
        }
        let location = answer.headers().get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let location = location.ok_or_else(|| {
            ClientError::Unexpected("the server redirects to no address".to_owned())
        })?;
        self.redirected(&url, location, headers).await
    }
}

/// `blake3:<64 hex>` of a file.
async fn hash_of(path: &Path) -> Result<String, ClientError> {
    let failed = |source| unreadable(path, source);
    let mut file = File::open(path).await.map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; HASHED_AT_ONCE];
    loop {
        let read = file.read(&mut buffer).await.map_err(failed)?;
        if read == 0 {
            return Ok(format!("blake3:{}", hasher.finalize().to_hex()));
        }
        hasher.update(&buffer[..read]);
    }
}

fn begins_at(answer: &Response<Body>, offset: u64) -> bool {
    let range = answer.headers().get(CONTENT_RANGE);
    let range = range.and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {offset}-")))
}

fn refuses_hash(error: &ClientError) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|refusal| refusal.code == "hash_mismatch")
}

fn asset_path(id: &str) -> String {
    format!("/api/v2/assets/{}", segment(id))
}

fn unreadable(path: &Path, source: std::io::Error) -> ClientError {
    let path = path.to_owned();
    ClientError::File { path, source }
}

fn unwritable(id: &str, source: std::io::Error) -> ClientError {
    let path = PathBuf::from(format!("asset {id}"));
    ClientError::File { path, source }
}
