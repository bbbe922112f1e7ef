//! What a client does over v1: it submits prompts, saves user files and removes them.

use std::io;
use std::time::Instant;

use serde_json::Value;

use super::{Client, body, unexpected};
use crate::oracle::Content;
use crate::tally::Violation;
use it::http::{Connection, post_json, request};
use it::load::graphs::solid;

/// User files of a client, which it alone writes.
const FILES: u64 = 6;
/// The largest of them.
const MOST_FILE_BYTES: u64 = 40_000;

impl Client {
    pub(super) async fn prompt(
        &mut self,
        connection: &mut Connection,
    ) -> io::Result<Result<(), Violation>> {
        let graph: Value = serde_json::from_str(&solid(self.random.below(1_000_000)))?;
        let prompt = serde_json::json!({"prompt": graph["workflow"]}).to_string();
        let sent = Instant::now();
        let answer = connection
            .send(&post_json("/api/prompt", "", &prompt))
            .await?;
        if answer.status != 200 {
            return Ok(Err(unexpected("a prompt", &answer)));
        }
        Ok(body(&answer).map(|told| {
            let id = told["prompt_id"].as_str().unwrap_or_default();
            self.oracle.lock().v1.prompted(id, sent);
        }))
    }

    pub(super) async fn save(
        &mut self,
        connection: &mut Connection,
    ) -> io::Result<Result<(), Violation>> {
        let content = Content {
            seed: self.random.next(),
            size: usize::try_from(1 + self.random.below(MOST_FILE_BYTES)).unwrap_or(1),
        };
        let bytes = content.bytes();
        let path = self.path();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            target(&path),
            bytes.len()
        );
        self.oracle.lock().v1.changing(&path, Some(content));
        let answer = connection.send(&[head.as_bytes(), &bytes].concat()).await?;
        if answer.status != 200 {
            return Ok(Err(unexpected("a saved file", &answer)));
        }
        self.oracle.lock().v1.changed(&path, Some(content));
        Ok(Ok(()))
    }

    pub(super) async fn remove(
        &mut self,
        connection: &mut Connection,
    ) -> io::Result<Result<(), Violation>> {
        let path = self.path();
        if !self.oracle.lock().v1.files.contains_key(&path) {
            return Ok(Ok(()));
        }
        self.oracle.lock().v1.changing(&path, None);
        let answer = connection.send(&request("DELETE", &target(&path))).await?;
        if !matches!(answer.status, 204 | 404) {
            return Ok(Err(unexpected("a removed file", &answer)));
        }
        let judged = match answer.status {
            // It was not there, and must not have been.
            404 => self.oracle.lock().v1.file_seen(&path, 404, b""),
            _ => Ok(()),
        };
        self.oracle.lock().v1.changed(&path, None);
        Ok(judged)
    }

    /// One of its own files; what its keys begin with ends with its number.
    fn path(&mut self) -> String {
        let number = self.prefix.rsplit('-').next().unwrap_or_default();
        format!("crash-{number}-{}.bin", self.random.below(FILES))
    }
}

/// The address of a user file.
pub(crate) fn target(path: &str) -> String {
    format!("/api/userdata/{path}")
}
