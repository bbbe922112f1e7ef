//! The classes that can run, with the account's own files to choose from.

use std::collections::BTreeSet;

use accounts::AccountId;
use asset_store::FilePath;
use http::Response;
use hyper_kit::Body;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use v1_compat::node_info;
use workflow_core::{FileSource, NO_FILE};

use super::errors::ApiError;
use super::request::Call;
use super::{V1Service, reply};

/// Most files that are offered for choice, the newest: no list of a web page is usable beyond that.
const MOST_FILES: usize = 2_000;

/// How the page's mask editor names its files, four for each mask. In ComfyUI they are in a folder that no menu shows.
const MASK_EDITOR: &str = "clipspace-";

/// What an account can choose from, newest first.
struct Choices {
    uploads: Vec<String>,
    outputs: Vec<String>,
}

/// GET /object_info.
pub(super) async fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let choices = Choices::read(call).await?;
    let nodes = call.service.jobs.nodes();
    let infos = nodes.iter().map(|class| {
        (
            class.class.clone(),
            node_info(class, &|source| choices.of(source)),
        )
    });
    let infos: Map<String, Value> = infos.collect();
    Ok(reply::ok(&infos.into()))
}

/// GET /object_info/{class}: an object without anything in it for a class that is not here.
pub(super) async fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let choices = Choices::read(call).await?;
    let nodes = call.service.jobs.nodes();
    let name = named(call)?;
    let mut infos = Map::new();
    if let Some(class) = nodes.get(&name) {
        let info = node_info(class, &|source| choices.of(source));
        infos.insert(name, info);
    }
    Ok(reply::ok(&infos.into()))
}

/// The class that the path names, read as it came: names of classes may have slashes, which are no part of a route.
fn named(call: &Call<'_>) -> Result<String, ApiError> {
    let part = call.head.uri.path().rsplit('/').next();
    let decoded = percent_decode_str(part.unwrap_or_default()).decode_utf8();
    let decoded = decoded.map_err(|_| ApiError::NotFound)?;
    Ok(decoded.into_owned())
}

/// GET /internal/files/{folder}: names, newest first.
pub(super) async fn files(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let choices = Choices::read(call).await?;
    let names = match call.param("folder")? {
        "output" => choices.outputs,
        "input" => choices.uploads,
        "temp" => Vec::new(),
        _ => return Err(ApiError::NotFound),
    };
    Ok(reply::ok(&names.into()))
}

/// The uploads that an account can choose from, newest first.
pub(super) async fn uploads(
    v1: &V1Service,
    account: &AccountId,
    now: Timestamp,
) -> Result<Vec<String>, ApiError> {
    let uploads = v1.file_names.named(account, false, MOST_FILES, now).await?;
    let is_top = |path: &FilePath| {
        let path = path.as_str();
        !path.contains('/') && !path.starts_with(MASK_EDITOR)
    };
    let uploads = uploads.into_iter().filter_map(|upload| upload.file_path);
    let uploads = uploads.filter(is_top).map(|path| path.to_string());
    Ok(once_each(uploads))
}

impl Choices {
    async fn read(call: &Call<'_>) -> Result<Self, ApiError> {
        let (names, account) = (&call.v1.file_names, call.account());
        let uploads = uploads(call.v1, account, call.now).await?;
        let outputs = names.named(account, true, MOST_FILES, call.now).await?;
        let outputs = outputs.into_iter().filter_map(|output| output.file_path);
        // The page looks for a file among the uploads unless its name says where it is.
        let outputs = outputs.map(|path| format!("{path} [output]"));
        Ok(Self {
            uploads,
            outputs: once_each(outputs),
        })
    }

    /// Uploads as menus have them, which ComfyUI sorts.
    fn sorted_uploads(&self) -> Vec<String> {
        let mut sorted = self.uploads.clone();
        sorted.sort_unstable();
        sorted
    }

    fn of(&self, source: FileSource) -> Vec<String> {
        match source {
            FileSource::Input => self.sorted_uploads(),
            FileSource::Output => self.outputs.clone(),
            FileSource::Optional => {
                let none = std::iter::once(NO_FILE.to_owned());
                none.chain(self.sorted_uploads()).collect()
            }
            FileSource::Recording | FileSource::Capture | FileSource::Drawing => Vec::new(),
        }
    }
}

/// Names in their order, each where it stands first.
fn once_each(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}
