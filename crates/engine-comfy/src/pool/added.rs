//! Workers that were added while the server ran: kept in a file, so that the next start has them too.
//!
//! The file has what an operator asked for: name, address, and whether the worker is drained. Workers of the configuration are not in
//! it, apart from being drained, which a start takes back.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{ComfyPool, Shared, WorkerConfig};
use crate::worker::Worker;

/// The name of the file.
const FILE: &str = "added.json";

impl ComfyPool {
    /// Adds the workers that were added in an earlier life of the server. One that cannot be added is passed over with a line in the
    /// log.
    pub fn add_kept(&self) {
        let Some(path) = self.shared.added_path() else {
            return;
        };
        let kept = fs::read(&path).ok();
        let kept: Option<Value> = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        for entry in kept.iter().filter_map(Value::as_array).flatten() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let config = text("name").zip(text("url").and_then(|url| url.parse().ok()));
            let Some((name, url)) = config else {
                continue;
            };
            let config = WorkerConfig {
                name: name.to_owned(),
                url,
                headers: Default::default(),
                ca_pem: None,
                slots: None,
                keeps_definitions: true,
            };
            match self.add(config) {
                Ok(()) => {
                    if let Some(worker) = self.shared.worker(name) {
                        worker.set_added();
                        worker.set_draining(entry.get("drained") == Some(&Value::Bool(true)));
                    }
                }
                Err(error) => tracing::warn!(worker = name, %error, "a kept worker was not added"),
            }
        }
        self.shared.merge();
    }

    /// As [`ComfyPool::add`], and kept for the next start.
    ///
    /// # Errors
    /// If the pool cannot take it, or it cannot be kept: then it is not added.
    pub fn add_and_keep(&self, config: WorkerConfig) -> Result<(), super::AddError> {
        let name = config.name.clone();
        self.add(config)?;
        if let Some(worker) = self.shared.worker(&name) {
            worker.set_added();
        }
        if let Err(error) = self.keep_added() {
            let _ = self.remove(&name);
            return Err(super::AddError::NotKept(error));
        }
        Ok(())
    }

    /// How many jobs the workers may have together that were added while a server ran, as far as they take any.
    #[must_use]
    pub fn added_places(&self) -> u32 {
        let workers = self.shared.workers().into_iter();
        let added = workers.filter(|worker| worker.is_added() && !worker.is_draining());
        added.map(|worker| worker.slots.count()).sum()
    }

    /// Writes down the workers that were added.
    ///
    /// # Errors
    /// If the file cannot be written; it is then as it was.
    pub fn keep_added(&self) -> io::Result<()> {
        let Some(path) = self.shared.added_path() else {
            return Ok(());
        };
        let workers = self.shared.workers();
        let added = workers.iter().filter(|worker| worker.is_added());
        let entry = |worker: &Arc<Worker>| {
            json!({
                "name": worker.name,
                "url": worker.url.as_str(),
                "drained": worker.is_draining(),
            })
        };
        let text = Value::Array(added.map(entry).collect()).to_string();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &path)
    }
}

impl Shared {
    fn added_path(&self) -> Option<PathBuf> {
        Some(self.config.folder.as_ref()?.join(FILE))
    }
}
