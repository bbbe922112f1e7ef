//! The JSON in columns that nothing searches: each document's form, and the domain's value in it.

use std::collections::HashMap;

use asset_store::BlobHash;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_core::{
    JobError, JobErrorCode, Placement, RequirementSet, ResolvedFile, ResolvedFiles,
};

use crate::columns::{parse, unreadable};

#[derive(Serialize, Deserialize)]
pub(super) struct FileDocument {
    asset: String,
    hash: String,
    size_bytes: u64,
    name: String,
}

#[derive(Serialize, Deserialize)]
pub(super) struct PlacementDocument {
    account_room: u32,
    /// Absent in documents of earlier versions: no bound.
    #[serde(default)]
    stored_bytes: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ErrorDocument {
    code: String,
    message: String,
    node_id: Option<String>,
    class_type: Option<String>,
    exception_type: Option<String>,
    traceback: Option<String>,
    /// Absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    node_errors: Map<String, Value>,
}

/// A document as text.
pub(super) fn write(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents are maps with text for keys")
}

/// The document in a text.
pub(super) fn read<T: for<'a> Deserialize<'a>>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(unreadable)
}

pub(super) fn files(files: &ResolvedFiles) -> HashMap<&str, FileDocument> {
    let documents = files.iter().map(|(text, file)| {
        let document = FileDocument {
            asset: file.asset.to_string(),
            hash: file.hash.to_hex(),
            size_bytes: file.size_bytes,
            name: file.name.clone(),
        };
        (text.as_str(), document)
    });
    documents.collect()
}

pub(super) fn read_files(text: &str) -> rusqlite::Result<ResolvedFiles> {
    let documents: HashMap<String, FileDocument> = read(text)?;
    let files = documents.into_iter().map(|(text, document)| {
        let file = ResolvedFile {
            asset: parse(&document.asset)?,
            hash: BlobHash::from_hex(&document.hash).map_err(unreadable)?,
            size_bytes: document.size_bytes,
            name: document.name,
        };
        Ok((text, file))
    });
    files.collect()
}

impl From<&Placement> for PlacementDocument {
    fn from(placement: &Placement) -> Self {
        Self {
            account_room: placement.account_room,
            stored_bytes: placement.stored_bytes,
        }
    }
}

impl PlacementDocument {
    /// The placement of a job with this requirement set, which is kept beside the document.
    pub(super) fn with(self, requirements: RequirementSet) -> Placement {
        Placement {
            requirements,
            account_room: self.account_room,
            stored_bytes: self.stored_bytes,
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
