//! A form with one file, streamed from the disk.

use std::fmt::Write as _;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use hyper_kit::{Body, STREAM_CHUNK_BYTES};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// The text fields of a form; the file comes last.
#[derive(Debug, Default)]
pub(crate) struct Form {
    boundary: String,
    head: String,
}

impl Form {
    /// A form whose parts are told apart by `boundary`, which is in none of them: it is made of the file's own hash.
    pub(crate) fn new(boundary: String) -> Self {
        Self {
            boundary,
            head: String::new(),
        }
    }

    pub(crate) fn field(&mut self, name: &str, value: &str) {
        let boundary = &self.boundary;
        let _ = write!(
            self.head,
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }

    pub(crate) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The form with the bytes of a file at its end.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) async fn with_file(mut self, path: &Path, name: &str) -> std::io::Result<Body> {
        let file = File::open(path).await?;
        // Quotes and line ends would end the header; the server takes the name from `file_path`.
        let name: String = name
            .chars()
            .map(|c| {
                if c == '"' || c == '\\' || c.is_control() {
                    '_'
                } else {
                    c
                }
            })
            .collect();
        let _ = write!(
            self.head,
            "--{}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: application/octet-stream\r\n\r\n",
            self.boundary
        );
        let tail = format!("\r\n--{}--\r\n", self.boundary);
        let chunks = stream::unfold(file, |mut file| async {
            let mut chunk = BytesMut::with_capacity(STREAM_CHUNK_BYTES);
            match file.read_buf(&mut chunk).await {
                Ok(0) => None,
                Ok(_) => Some((Ok(chunk.freeze()), file)),
                Err(error) => Some((Err(error), file)),
            }
        });
        let head = stream::iter([Ok(Bytes::from(self.head))]);
        let tail = stream::iter([Ok(Bytes::from(tail))]);
        Ok(Body::stream(head.chain(chunks).chain(tail)))
    }
}
