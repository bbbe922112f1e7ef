//! Handing on what output nodes make: one after the other, in order, while the next is still being made.

use std::sync::Arc;

use asset_store::Blob;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use workflow_core::{
    CommitError, FrameRefused, JobOutput, OutputContent, OutputName, RunError, RunOutput,
};

use super::Run;
use crate::OutputFile;
use crate::engine::cache::KeptFile;
use crate::engine::host::Delivery;

/// Something was handed on, or could not be.
pub(super) enum Delivered {
    File(usize, Result<KeptFile, CommitError>),
    Frame(usize, Result<(), FrameRefused>),
    /// A node's files, committed by its twin before.
    Twin(usize, Result<Vec<KeptFile>, CommitError>),
}

/// Completes with the delivery under way; never if there is none. Cancel-safe.
pub(super) async fn pending(delivering: &mut Option<BoxFuture<'static, Delivered>>) -> Delivered {
    match delivering {
        Some(delivery) => {
            let delivered = delivery.await;
            *delivering = None;
            delivered
        }
        None => std::future::pending().await,
    }
}

impl Run {
    /// Begins to hand on what an output node made, or takes in that it is done.
    pub(super) fn take(&mut self, node: usize, delivery: Delivery) -> Result<(), RunError> {
        let root = self.nodes[node].root.unwrap_or(node);
        let sink = Arc::clone(&self.sink);
        if !matches!(delivery, Delivery::Over(_)) {
            // It waits no more, and came after its token.
            let _ = self.pictures.try_recv();
        }
        match delivery {
            Delivery::Over(outcome) => self.settle(node, outcome)?,
            Delivery::Frame(png, taken) => {
                let id = self.nodes[root].step.id.clone();
                let frame = async move {
                    let result = sink.frame(&id, png).await;
                    if result.is_ok() {
                        // If its maker is gone, so is the run.
                        let _ = taken.send(());
                    }
                    Delivered::Frame(node, result)
                };
                self.delivering = Some(frame.boxed());
            }
            Delivery::File(file) => {
                let shown_under = file.shown_under;
                let output = self.output(root, file);
                let commit = async move {
                    let committed = sink.commit(output).await;
                    Delivered::File(
                        node,
                        committed.map(|output| KeptFile::of(output, shown_under)),
                    )
                };
                self.delivering = Some(commit.boxed());
            }
        }
        Ok(())
    }

    /// Takes in that something was handed on.
    pub(super) fn delivered(&mut self, delivered: Delivered) -> Result<(), RunError> {
        match delivered {
            Delivered::File(node, Ok(file)) => self.nodes[node].files.push(file),
            Delivered::File(node, Err(error)) => return Err(self.uncommitted(node, &error)),
            Delivered::Frame(_, Ok(())) => {}
            Delivered::Frame(node, Err(refused)) => return Err(self.not_shown(node, refused)),
            Delivered::Twin(node, Ok(files)) => {
                self.nodes[node].files = files;
                self.release(node);
                self.give(node, Vec::new(), serde_json::Map::new())?;
            }
            Delivered::Twin(node, Err(CommitError::BlobGone)) => {
                self.nodes[node].twin = None;
                self.nodes[node].ui.clear();
                self.machine.again(node);
            }
            Delivered::Twin(node, Err(error)) => return Err(self.uncommitted(node, &error)),
        }
        Ok(())
    }

    /// Commits anew, for this job, what output nodes made in an earlier run. A file that is gone is forgotten, and its node
    /// runs again.
    pub(super) async fn deliver_again(&mut self) -> Result<(), RunError> {
        for output in self.outputs.clone() {
            let Some(known) = self.nodes[output].step.known.clone() else {
                continue;
            };
            let outputs = self.kept_outputs(output, &known.files);
            match commit_all(&*self.sink, outputs, &known.files).await {
                Ok(files) => {
                    let node = &mut self.nodes[output];
                    node.files = files;
                    node.ui = known.ui.clone();
                }
                Err(CommitError::BlobGone) => {
                    let step = &mut self.nodes[output].step;
                    step.known = None;
                    if let Some(key) = step.key {
                        self.engine.cache.remove(&key);
                    }
                }
                Err(error) => return Err(self.uncommitted(output, &error)),
            }
        }
        Ok(())
    }

    /// Begins to commit for a node what its twin made.
    pub(super) fn deliver_twin(&mut self, node: usize, twin: usize) {
        let files = self.nodes[twin].files.clone();
        let outputs = self.kept_outputs(node, &files);
        self.nodes[node].ui = self.nodes[twin].ui.clone();
        let sink = Arc::clone(&self.sink);
        let commit =
            async move { Delivered::Twin(node, commit_all(&*sink, outputs, &files).await) };
        self.delivering = Some(commit.boxed());
    }

    fn output(&mut self, root: usize, file: OutputFile) -> RunOutput {
        let index = self.nodes[root].committed;
        self.nodes[root].committed += 1;
        RunOutput {
            node_id: self.nodes[root].step.id.clone(),
            index,
            kind: file.kind,
            temp: file.temp,
            name: file.name,
            content_type: file.content_type.to_owned(),
            content: OutputContent::Bytes(file.bytes),
        }
    }

    fn kept_outputs(&self, node: usize, files: &[KeptFile]) -> Vec<RunOutput> {
        let output = |(file, index): (&KeptFile, u32)| RunOutput {
            node_id: self.nodes[node].step.id.clone(),
            index,
            kind: file.kind,
            temp: file.temp,
            name: OutputName::Fixed(file.path.clone()),
            content_type: file.content_type.clone(),
            content: OutputContent::Blob(file.blob),
        };
        files.iter().zip(0..).map(output).collect()
    }
}

async fn commit_all(
    sink: &dyn workflow_core::RunSink,
    outputs: Vec<RunOutput>,
    files: &[KeptFile],
) -> Result<Vec<KeptFile>, CommitError> {
    let mut committed = Vec::with_capacity(outputs.len());
    for (output, file) in outputs.into_iter().zip(files) {
        committed.push(KeptFile::of(sink.commit(output).await?, file.shown_under));
    }
    Ok(committed)
}

impl KeptFile {
    fn of(output: JobOutput, shown_under: Option<&'static str>) -> Self {
        Self {
            kind: output.kind,
            temp: output.temp,
            path: output.path,
            content_type: output.content_type,
            blob: Blob {
                hash: output.hash,
                size_bytes: output.size_bytes,
            },
            shown_under,
        }
    }

    /// As clients of the older API name a file.
    pub(super) fn shown(&self) -> Json {
        let path = self.path.as_str();
        let (subfolder, filename) = path.rsplit_once('/').unwrap_or(("", path));
        let kind = if self.temp { "temp" } else { "output" };
        json!({"filename": filename, "subfolder": subfolder, "type": kind})
    }
}
