//! Staging a file at a worker: its bytes stream through, whatever its size.

use std::time::Duration;

use asset_store::BlobStore;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use hyper_kit::Body;
use serde_json::Value;
use tokio::time::timeout;

use super::{SHORT_BYTES, WorkerClient, WorkerError, unanswered};
use crate::prompt::Staged;

/// How long an upload may take at least, and the slowest pace that is allowed beyond.
const LEAST_TIME: Duration = Duration::from_secs(30);
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

/// Why a file is not at a worker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It is not in our own store any more.
    #[error("the file could not be read from the store")]
    Unreadable,
    /// It is more than the worker takes.
    #[error("the file is larger than the worker takes; raise its --max-upload-size")]
    TooLarge,
    /// The worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

impl WorkerClient {
    /// Puts a file into the worker's folder of inputs.
    pub(crate) async fn upload(
        &self,
        blobs: &dyn BlobStore,
        file: &Staged,
    ) -> Result<(), UploadError> {
        let reader = blobs.open(&file.blob.hash, 0..file.blob.size_bytes).await;
        let reader = reader.map_err(|_| UploadError::Unreadable)?;
        // The hash is part of the name: no file of these bytes has this line.
        let boundary = format!("easel-{}", file.blob.hash.to_hex());
        let part = |name: &str, value: &str| {
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
            )
        };
        let head = format!(
            "{}{}--{boundary}\r\nContent-Disposition: form-data; name=\"image\"; filename=\"{}\"\r\nContent-Type: application/octet-stream\r\n\r\n",
            part("type", "input"),
            part("overwrite", "true"),
            file.name
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let once = |text: String| stream::once(async move { Ok(Bytes::from(text)) });
        let bytes = once(head).chain(reader.bytes).chain(once(tail));
        let path = "/upload/image";
        let request = self.request(
            "POST",
            path,
            "",
            Body::stream(bytes),
            Some(&format!("multipart/form-data; boundary={boundary}")),
        );
        let time = LEAST_TIME + Duration::from_secs(file.blob.size_bytes / SLOWEST_BYTES_PER_S);
        let (status, answer) = timeout(time, self.answer(path, request, SHORT_BYTES))
            .await
            .unwrap_or_else(|_| Err(unanswered("it took a file too slowly")))?;
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(UploadError::TooLarge);
        }
        if status != StatusCode::OK {
            let status = status.as_u16();
            return Err(WorkerError::Status { path, status }.into());
        }
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        match answer.get("name").and_then(Value::as_str) == Some(&file.name) {
            true => Ok(()),
            false => Err(WorkerError::Garbage(path).into()),
        }
    }
}
