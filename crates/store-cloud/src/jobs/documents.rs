//! The JSON in columns that nothing searches: each document's form, and the domain's value in it.

use std::collections::HashMap;

use asset_store::BlobHash;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use workflow_core::{
    JobError, JobErrorCode, JobOutput, OutputKind, Progress, ResolvedFile, ResolvedFiles,
};

use crate::DatabaseError;
use crate::columns::{parse, unreadable};

#[derive(Serialize, Deserialize)]
struct FileDocument {
    asset: Uuid,
    hash: String,
    size_bytes: u64,
    name: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ErrorDocument {
    code: String,
    message: String,
    node_id: Option<String>,
    class_type: Option<String>,
    exception_type: Option<String>,
    traceback: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    node_errors: Map<String, Value>,
}

/// All of a progress but its fraction, which is a column: JSON may round it.
#[derive(Serialize, Deserialize)]
pub(crate) struct ProgressDocument {
    nodes_done: u32,
    nodes_total: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_node_class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OutputDocument {
    node_id: String,
    output: u32,
    kind: String,
    temp: bool,
    path: String,
    content_type: String,
    size_bytes: u64,
    asset: Uuid,
    hash: String,
}

/// A document as text.
pub(crate) fn write(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents are maps with text for keys")
}

/// The document in a text.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(unreadable)
}

pub(super) fn write_files(files: &ResolvedFiles) -> String {
    let documents = files.iter().map(|(text, file)| {
        let document = FileDocument {
            asset: file.asset.0,
            hash: file.hash.to_hex(),
            size_bytes: file.size_bytes,
            name: file.name.clone(),
        };
        (text.as_str(), document)
    });
    write(&documents.collect::<HashMap<_, _>>())
}

pub(super) fn read_files(text: &str) -> Result<ResolvedFiles, DatabaseError> {
    let documents: HashMap<String, FileDocument> = read(text)?;
    let files = documents.into_iter().map(|(text, document)| {
        let file = ResolvedFile {
            asset: asset_store::AssetId(document.asset),
            hash: BlobHash::from_hex(&document.hash).map_err(unreadable)?,
            size_bytes: document.size_bytes,
            name: document.name,
        };
        Ok((text, file))
    });
    files.collect()
}

pub(super) fn write_output(output: &JobOutput) -> String {
    write(&OutputDocument {
        node_id: output.node_id.to_string(),
        output: output.index,
        kind: output.kind.name().to_owned(),
        temp: output.temp,
        path: output.path.as_str().to_owned(),
        content_type: output.content_type.clone(),
        size_bytes: output.size_bytes,
        asset: output.asset.0,
        hash: output.hash.to_hex(),
    })
}

pub(super) fn read_output(text: &str) -> Result<JobOutput, DatabaseError> {
    let document: OutputDocument = read(text)?;
    Ok(JobOutput {
        node_id: document.node_id.as_str().into(),
        index: document.output,
        kind: OutputKind::from_name(&document.kind),
        temp: document.temp,
        path: parse(&document.path)?,
        content_type: document.content_type,
        size_bytes: document.size_bytes,
        asset: asset_store::AssetId(document.asset),
        hash: BlobHash::from_hex(&document.hash).map_err(unreadable)?,
    })
}

impl From<&Progress> for ProgressDocument {
    fn from(progress: &Progress) -> Self {
        Self {
            nodes_done: progress.nodes_done,
            nodes_total: progress.nodes_total,
            current_node: progress.current_node.as_ref().map(ToString::to_string),
            current_node_class: progress.current_node_class.clone(),
            step: progress.step,
            steps: progress.steps,
            message: progress.message.clone(),
        }
    }
}

impl ProgressDocument {
    /// The progress whose fraction is kept beside the document.
    pub(crate) fn with(self, value: f64) -> Progress {
        Progress {
            value,
            nodes_done: self.nodes_done,
            nodes_total: self.nodes_total,
            current_node: self.current_node.as_deref().map(Into::into),
            current_node_class: self.current_node_class,
            step: self.step,
            steps: self.steps,
            message: self.message,
        }
    }
}

impl From<&JobError> for ErrorDocument {
    fn from(error: &JobError) -> Self {
        Self {
            code: error.code.name().to_owned(),
            message: error.message.clone(),
            node_id: error.node_id.as_ref().map(ToString::to_string),
            class_type: error.class_type.clone(),
            exception_type: error.exception_type.clone(),
            traceback: error.traceback.as_deref().map(str::to_owned),
            node_errors: Map::clone(&error.node_errors),
        }
    }
}

impl From<ErrorDocument> for JobError {
    fn from(document: ErrorDocument) -> Self {
        Self {
            code: JobErrorCode::from_name(&document.code),
            message: document.message,
            node_id: document.node_id.as_deref().map(Into::into),
            class_type: document.class_type,
            exception_type: document.exception_type,
            traceback: document.traceback.map(Into::into),
            node_errors: Box::new(document.node_errors),
        }
    }
}
