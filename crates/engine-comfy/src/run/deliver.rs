//! What a node made: fetched from the worker while it is hashed, and committed.

use asset_store::{FilePath, SpaceClass};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;
use workflow_core::{
    CommitError, JobError, JobErrorCode, NodeEvent, NodeId, OutputContent, OutputKind, OutputName,
    RunError, RunOutput,
};

use super::Run;
use crate::client::WorkerError;
use crate::frames::NodeRef;
use crate::history::{FileRef, content_type, files, kind, model, texts};

/// Up to this size an output is handed on in memory: the store then brings it to the disk with its row.
const SMALL_BYTES: usize = 256 << 10;

/// Most bytes of one output (64 GiB).
const MOST_BYTES: u64 = 64 << 30;

/// Longest silence within a file.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a file is fetched that breaks off.
const TRIES: u32 = 3;

/// Most bytes of a text that a node shows.
const MOST_TEXT: usize = 1 << 20;

/// A file that was fetched.
struct Fetched {
    content: OutputContent,
    content_type: &'static str,
}

/// Why a file was not fetched.
enum NotFetched {
    /// The worker does not give it.
    Worker(WorkerError),
    /// Our store does not take it.
    Store(CommitError),
}

impl Run<'_> {
    /// The node of the graph that an id of the worker means.
    pub(super) fn root_of(&self, id: &str, shown: &str) -> Option<NodeId> {
        self.translator.root(&NodeRef {
            id: id.to_owned(),
            shown: shown.to_owned(),
        })
    }

    /// Commits what the history has of a node and the socket did not tell of.
    pub(super) async fn deliver_kept(
        &mut self,
        id: &str,
        shown: &str,
        ui: Value,
    ) -> Result<(), RunError> {
        let Some(node) = self.root_of(id, shown) else {
            return Ok(());
        };
        if self.deliver(&node, &ui).await? > 0 {
            self.sink().progress(NodeEvent::Executed { node, ui });
        }
        Ok(())
    }

    /// Commits the files and texts that a node shows, each once; answers how many were new.
    pub(super) async fn deliver(&mut self, node: &NodeId, ui: &Value) -> Result<usize, RunError> {
        let mut new = 0;
        let shown = model(self.translator.class(node), ui);
        for file in files(ui).into_iter().chain(shown) {
            // What a node shows of its inputs is no output.
            if file.folder == "input" || self.delivered.contains(&(node.clone(), file.clone())) {
                continue;
            }
            let fetched = self.fetch(node, &file).await?;
            let output = RunOutput {
                node_id: node.clone(),
                index: self.next_index(node),
                kind: kind(fetched.content_type, &file),
                temp: file.folder == "temp",
                name: OutputName::Fixed(path(&file)),
                content_type: fetched.content_type.to_owned(),
                content: fetched.content,
            };
            self.commit(node, output).await?;
            self.delivered.insert((node.clone(), file));
            new += 1;
        }
        for (at, text) in texts(ui).into_iter().enumerate() {
            let told = FileRef {
                key: "text".to_owned(),
                filename: at.to_string(),
                subfolder: String::new(),
                folder: blake3::hash(text.as_bytes()).to_string(),
            };
            if text.len() > MOST_TEXT || !self.delivered.insert((node.clone(), told)) {
                continue;
            }
            let class = self.translator.class(node).to_owned();
            let output = RunOutput {
                node_id: node.clone(),
                index: self.next_index(node),
                kind: OutputKind::Text,
                temp: true,
                name: OutputName::Counted {
                    counter: plain(&class),
                    stem: plain(&class),
                    extension: "txt".to_owned(),
                },
                content_type: "text/plain; charset=utf-8".to_owned(),
                content: OutputContent::Bytes(text.into()),
            };
            self.commit(node, output).await?;
            new += 1;
        }
        Ok(new)
    }

    fn next_index(&mut self, node: &NodeId) -> u32 {
        let index = self.indices.entry(node.clone()).or_default();
        *index += 1;
        *index - 1
    }

    async fn commit(&self, node: &NodeId, output: RunOutput) -> Result<(), RunError> {
        match self.sink().commit(output).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.uncommitted(node, &error)),
        }
    }

    fn uncommitted(&self, node: &NodeId, error: &CommitError) -> RunError {
        let code = match error {
            CommitError::Superseded => {
                // The claim is over: the next claim submits a prompt of its own.
                self.worker.stray(&self.prompt);
                return RunError::Canceled(Some(node.clone()));
            }
            CommitError::StorageQuota => JobErrorCode::StorageQuotaExceeded,
            CommitError::InvalidName | CommitError::BlobGone | CommitError::Store(_) => {
                tracing::error!(job.id = %self.ticket.job, node.id = %node, error = ?error, "an output could not be stored");
                JobErrorCode::EngineError
            }
        };
        self.worker.stray(&self.prompt);
        RunError::Failed(JobError {
            node_id: Some(node.clone()),
            class_type: Some(self.translator.class(node).to_owned()),
            ..JobError::new(code, error.to_string())
        })
    }

    /// Fetches a file. A worker that announced it and does not give it has lost the job.
    async fn fetch(&self, node: &NodeId, file: &FileRef) -> Result<Fetched, RunError> {
        let mut tries_left = TRIES;
        loop {
            tries_left -= 1;
            let error = match self.fetch_once(file).await {
                Ok(fetched) => return Ok(fetched),
                Err(NotFetched::Store(error)) => return Err(self.uncommitted(node, &error)),
                Err(NotFetched::Worker(error)) => error,
            };
            let is_final = matches!(
                error,
                WorkerError::Status {
                    status: 400..500,
                    ..
                }
            );
            self.worker.failed(&error.to_string());
            if tries_left == 0 || is_final {
                tracing::warn!(worker = self.worker.name, job.id = %self.ticket.job, %error, "a worker did not give an output");
                return Err(RunError::Lost);
            }
        }
    }

    async fn fetch_once(&self, file: &FileRef) -> Result<Fetched, NotFetched> {
        let broken = |why: &str| NotFetched::Worker(WorkerError::Unanswered(why.to_owned()));
        let answer = self.worker.client.view(file).await;
        let mut body = answer.map_err(NotFetched::Worker)?.into_body();
        let mut small = BytesMut::new();
        let mut writer = None;
        let mut first = Bytes::new();
        let mut size: u64 = 0;
        loop {
            let frame = timeout(SILENCE, body.frame()).await;
            let frame = frame.map_err(|_| broken("it gave a file too slowly"))?;
            let Some(frame) = frame else {
                break;
            };
            let frame = frame.map_err(|_| broken("a file broke off"))?;
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            size += chunk.len() as u64;
            if size > MOST_BYTES {
                return Err(broken("a file has no end"));
            }
            if writer.is_none() && small.len() + chunk.len() <= SMALL_BYTES {
                small.extend_from_slice(&chunk);
                continue;
            }
            if writer.is_none() {
                let begun = self.pool.blobs.begin(SpaceClass::Kept).await;
                let mut begun = begun.map_err(store_failed)?;
                first = small.split().freeze();
                begun.write(first.clone()).await.map_err(store_failed)?;
                if first.is_empty() {
                    first = chunk.clone();
                }
                writer = Some(begun);
            }
            if let Some(writer) = &mut writer {
                writer.write(chunk).await.map_err(store_failed)?;
            }
        }
        self.worker.shared().counts.output_bytes += size;
        let Some(mut writer) = writer else {
            let bytes = small.freeze();
            return Ok(Fetched {
                content_type: content_type(&bytes, &file.filename),
                content: OutputContent::Bytes(bytes),
            });
        };
        writer.finish().await.map_err(store_failed)?;
        let blob = writer.commit().await.map_err(store_failed)?;
        Ok(Fetched {
            content_type: content_type(&first, &file.filename),
            content: OutputContent::Blob(blob),
        })
    }
}

fn store_failed(error: asset_store::BlobError) -> NotFetched {
    NotFetched::Store(CommitError::Store(Box::new(error)))
}

/// The name that the worker gave a file; without its folder if that is no name here.
fn path(file: &FileRef) -> FilePath {
    let folder = file.subfolder.replace('\\', "/");
    let folder = folder.trim_matches('/');
    let whole = match folder.is_empty() {
        true => file.filename.clone(),
        false => format!("{folder}/{}", file.filename),
    };
    let plain = plain(&file.filename);
    [whole, file.filename.clone(), plain]
        .iter()
        .find_map(|name| name.parse().ok())
        .unwrap_or_else(|| "output".parse().expect("a word is a file path"))
}

/// A text that is a file name anywhere.
fn plain(text: &str) -> String {
    let plain = text.chars().map(|c| {
        if c.is_alphanumeric() || ".-_ ".contains(c) {
            c
        } else {
            '_'
        }
    });
    plain.take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_and_leads_nowhere_else() {
        for (folder, name, expected) in [
            ("", "a_00001_.png", "a_00001_.png"),
            ("x/y", "a.png", "x/y/a.png"),
            ("x\\y", "a.png", "x/y/a.png"),
            ("../../etc", "passwd", "passwd"),
            ("", "../../etc/passwd", ".._.._etc_passwd"),
            ("", "", "output"),
        ] {
            let file = FileRef {
                key: "images".to_owned(),
                filename: name.to_owned(),
                subfolder: folder.to_owned(),
                folder: "output".to_owned(),
            };
            assert_eq!(path(&file).as_str(), expected);
        }
    }
}
