//! Definitions on disk: what a worker had when it was seen last.
//!
//! A file is a copy of what a worker said and nothing more: one that is damaged is passed over, and written again when the
//! worker answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Shared;
use crate::definitions::Definitions;
use crate::worker::Worker;

/// Most bytes of a file that are read.
const MOST_BYTES: u64 = 256 << 20;

impl Shared {
    /// What was kept of a worker.
    pub(super) fn kept(&self, worker: &Worker) -> Option<Definitions> {
        let path = self.path(worker)?;
        if fs::metadata(&path).ok()?.len() > MOST_BYTES {
            return None;
        }
        let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let version = kept.get("version")?.as_str()?.to_owned();
        let classes = kept.get("classes")?.clone();
        Definitions::read(&version, classes).ok()
    }

    /// Keeps what a worker said.
    pub(super) fn keep(&self, worker: &Worker, definitions: &Definitions) {
        let Some(path) = self.path(worker) else {
            return;
        };
        let version = Value::from(definitions.version.as_str());
        let text = format!(
            "{{\"version\":{version},\"classes\":{}}}",
            definitions.text()
        );
        let name = worker.name.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = write(&path, &text) {
                tracing::warn!(worker = name, %error, "the definitions of a worker could not be kept");
            }
        });
    }

    /// By address: a worker under another name is another worker, one at another address too.
    fn path(&self, worker: &Worker) -> Option<PathBuf> {
        let folder = self
            .config
            .folder
            .as_ref()
            .filter(|_| worker.keeps_definitions)?;
        let address = blake3::hash(worker.url.as_str().as_bytes()).to_hex();
        Some(folder.join(format!("{}.json", &address[..32])))
    }
}

/// Whole or not at all: a cut file would be taken for no file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::read(path).is_ok_and(|kept| kept == text.as_bytes()) {
        return Ok(());
    }
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
