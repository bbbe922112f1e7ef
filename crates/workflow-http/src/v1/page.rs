//! What this server adds to ComfyUI's web page: an extension of its own, words for what it lacks, a first graph that runs, and
//! marks on the templates that do not.
//!
//! The page itself stays as PyPI has it. Everything here goes through what the page offers to any server: its list of
//! extensions, its translations, its settings and its index of templates.

mod subgraphs;
mod templates;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use accounts::{Principal, Scope};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use hyper_kit::Body;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use workflow_core::{ComfyuiNeed, NodeCatalog, comfyui_classes};

use super::errors::ApiError;
use super::request::Call;
use super::{V1Service, reply, upload};
use crate::WorkflowService;
use subgraphs::Subgraphs;
use templates::Templates;

/// Where the page finds the extension.
const EXTENSION: &str = "/extensions/easel/easel.js";

/// The index of templates in English. It is there even without any template of the page's own, and stands for that of a language
/// whose index is not installed.
pub(super) const INDEX: &str = "templates/index.json";

/// The template that a first visit opens, its graph, and the setting by which the page knows that there was one.
const FIRST_TEMPLATE: &str = "easel-first-picture";
const FIRST_GRAPH: &[u8] = include_bytes!("page/first-picture.json");
const VISITED: &str = "Comfy.TutorialCompleted";

/// The picture that the first template loads. ComfyUI has one of this name in its input folder, and graphs count on it.
const EXAMPLE_NAME: &str = "example.png";
const EXAMPLE: &[u8] = include_bytes!("../../../../examples/photo.png");

/// Files that are part of this program, by path below the page.
const FILES: [(&str, &str, &[u8]); 3] = [
    (
        "extensions/easel/easel.js",
        "application/javascript; charset=utf-8",
        include_bytes!("page/easel.js"),
    ),
    (
        "templates/easel-first-picture.json",
        "application/json; charset=utf-8",
        FIRST_GRAPH,
    ),
    (
        "templates/easel-first-picture-1.webp",
        "image/webp",
        include_bytes!("page/first-picture.webp"),
    ),
];

/// What stands for a picture of a template whose package is not installed.
const NO_PICTURE: &[u8] = include_bytes!("page/missing.svg");

/// The page's own words speak of node packs to install, which nobody installs here.
const WORDS: &str = include_str!("page/words.json");

/// The languages of the page. A right sentence in English is better than a wrong one in another language.
const LANGUAGES: [&str; 14] = [
    "ar", "en", "es", "fa", "fr", "he", "it", "ja", "ko", "pt-BR", "ru", "tr", "zh", "zh-TW",
];

/// The web page of a server. Clones are the same.
#[derive(Clone)]
pub struct WebPage {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    console: Option<&'static str>,
    templates: Templates,
    subgraphs: Subgraphs,
}

impl WebPage {
    /// The page in a folder, on a server whose console is at the path `console` below its mount path, if it has one.
    #[must_use]
    pub fn new(root: PathBuf, console: Option<&'static str>) -> Self {
        let inner = Inner {
            root,
            console,
            templates: Templates::default(),
            subgraphs: Subgraphs::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Its folder.
    pub(super) fn root(&self) -> &Path {
        &self.inner.root
    }

    /// The index of templates in `file`, each marked with what `nodes` and the account's own `files` lack for it; `None` if it is
    /// none. `find` finds the file of a template. Reads files, so it belongs on a thread that may wait.
    pub(super) fn index(
        &self,
        file: Option<&Path>,
        find: impl Fn(&str) -> Option<PathBuf>,
        nodes: &NodeCatalog,
        files: &HashSet<String>,
    ) -> Option<Vec<u8>> {
        self.inner.templates.index(file, find, nodes, files)
    }
}

impl fmt::Debug for WebPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebPage")
            .field("root", &self.inner.root)
            .finish_non_exhaustive()
    }
}

/// GET /easel: what the extension shows.
pub(super) async fn facts(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let principal = &call.principal;
    let credits = match principal.billed {
        true => {
            let credits = call.service.accounts.credits(call.account(), call.now);
            json!({"available_cents": credits.await?.available_cents()})
        }
        false => Value::Null,
    };
    let identity = &call.service.identity;
    let session = call
        .v1
        .sessions
        .verify(identity, &call.head.headers, call.now);
    let signed_in = session.await.is_ok_and(|session| session.is_some());
    let console = call
        .v1
        .web_page
        .as_ref()
        .and_then(|page| page.inner.console);
    let nodes = call.service.jobs.nodes();
    let mut needs = Map::new();
    for (class, need) in comfyui_classes().filter(|(class, _)| nodes.get(class).is_none()) {
        let names = needs.entry(need_name(need)).or_insert_with(|| json!([]));
        if let Value::Array(names) = names {
            names.push(class.into());
        }
    }
    // Where every class is native, nothing tells them apart.
    let native = Some(call.service.jobs.native_nodes());
    let native = native.filter(|native| native.len() < nodes.len());
    let native = native.map(|native| {
        let classes = native.iter().filter(|class| !class.calls_partners());
        classes.map(|class| class.class.clone()).collect::<Vec<_>>()
    });
    Ok(reply::ok(&json!({
        "version": call.v1.version,
        "account": call.account().as_str(),
        "signed_in": signed_in,
        "subscribed": principal.subscribed,
        "credits": credits,
        "console": console,
        "needs": needs,
        "native": native,
    })))
}

fn need_name(need: ComfyuiNeed) -> &'static str {
    match need {
        ComfyuiNeed::Model => "model",
        ComfyuiNeed::Worker(_) => "worker",
    }
}

/// GET /global_subgraphs: those that are installed beside the page.
pub(super) async fn subgraphs(v1: &V1Service) -> Result<Response<Body>, ApiError> {
    let Some(page) = v1.web_page.clone() else {
        return Ok(reply::ok(&json!({})));
    };
    let read = move || page.inner.subgraphs.list(page.root());
    let list = spawn_blocking(read).await.map_err(|_| ApiError::NotFound)?;
    Ok(reply::ok(&list))
}

/// GET /global_subgraphs/{id}: one of them with its graph.
pub(super) async fn subgraph(v1: &V1Service, id: &str) -> Result<Response<Body>, ApiError> {
    let page = v1.web_page.clone().ok_or(ApiError::NotFound)?;
    let id = id.to_owned();
    let read = move || page.inner.subgraphs.get(page.root(), &id);
    let found = spawn_blocking(read).await.map_err(|_| ApiError::NotFound)?;
    found
        .map(|found| reply::ok(&found))
        .ok_or(ApiError::NotFound)
}

/// GET /extensions: ours, where there is a page.
pub(super) fn extensions(v1: &V1Service) -> Response<Body> {
    let list = v1.web_page.iter().map(|_| EXTENSION);
    reply::ok(&list.collect::<Vec<_>>().into())
}

/// GET /i18n: our words in every language of the page.
pub(super) fn words(v1: &V1Service) -> Response<Body> {
    static ALL: LazyLock<Value> = LazyLock::new(|| {
        let words: Value = serde_json::from_str(WORDS).unwrap_or_default();
        let languages = LANGUAGES.iter();
        let all = languages.map(|language| ((*language).to_owned(), words.clone()));
        Value::Object(all.collect())
    });
    match v1.web_page {
        Some(_) => reply::ok(&ALL),
        None => reply::ok(&json!({})),
    }
}

/// Settings of the page that have another default here: news of ComfyUI's releases say nothing about this server, and come
/// from an address outside of it.
pub(super) fn defaults(v1: &V1Service) -> Map<String, Value> {
    let news = ("Comfy.Notification.ShowVersionUpdates", false);
    let defaults = v1
        .web_page
        .iter()
        .map(|_| (news.0.to_owned(), news.1.into()));
    defaults.collect()
}

/// A file that is part of this program.
pub(super) fn own_file(path: &str) -> Option<Response<Body>> {
    let (_, media_type, bytes) = FILES.iter().find(|(name, ..)| *name == path)?;
    Some(part_of_program(media_type, bytes))
}

/// What stands for a file of the page that is not there: a neutral picture for one of a template.
pub(super) fn stand_in(path: &str) -> Option<Response<Body>> {
    let name = path.strip_prefix("templates/")?;
    let ending = Path::new(name).extension()?.to_str()?;
    let is_picture = ["webp", "png", "jpg", "jpeg", "svg", "gif"].contains(&ending);
    is_picture.then(|| part_of_program("image/svg+xml", NO_PICTURE))
}

/// Whether a path is that of an index of templates.
pub(super) fn is_index(path: &str) -> bool {
    templates::is_index(path)
}

fn part_of_program(media_type: &'static str, bytes: &'static [u8]) -> Response<Body> {
    let mut response = Response::new(Body::full(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Sees to the example picture of an account whose browser opens the page, and tells where its first visit goes: the page with the
/// first template open. `None` for any other visit, and where that template cannot run.
pub(super) async fn visit(
    service: &WorkflowService,
    v1: &V1Service,
    principal: &Principal,
    head: &Parts,
    now: Timestamp,
) -> Result<Option<Response<Body>>, ApiError> {
    let accepted = head
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    let browses = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    let may = principal.scopes.allow(Scope::AssetsWrite);
    let runs = || templates::runs(FIRST_GRAPH, &service.jobs.nodes());
    if !browses || !may || !runs() {
        return Ok(None);
    }
    // An account without room for it has a page all the same. It is an upload and goes when its time is over, and graphs that load
    // it stay: so every visit sees to it.
    let kept = upload::keep_example(service, principal, EXAMPLE_NAME, EXAMPLE, now);
    if kept.await.is_err() || head.uri.query().is_some() {
        return Ok(None);
    }
    let settings = v1.user_files.settings(&principal.account).await?;
    if settings.contains_key(VISITED) {
        return Ok(None);
    }
    let mut response = reply::empty(StatusCode::FOUND);
    let target = format!(
        "{}/?template={FIRST_TEMPLATE}",
        service.config.address.mount_prefix
    );
    let target = HeaderValue::from_str(&target).map_err(|_| ApiError::NotFound)?;
    let headers = response.headers_mut();
    headers.insert(LOCATION, target);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(Some(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_can_be_read() {
        let words: Value = serde_json::from_str(WORDS).expect("the words are JSON");
        assert!(words["errorCatalog"]["missingErrors"]["missing_node"].is_object());
        for (name, media_type, bytes) in FILES {
            assert!(own_file(name).is_some(), "{name}");
            if media_type.starts_with("application/json") {
                serde_json::from_slice::<Value>(bytes).expect(name);
            }
        }
        assert!(own_file("extensions/easel/other.js").is_none());
    }

    #[test]
    fn only_pictures_of_templates_have_a_stand_in() {
        assert!(stand_in("templates/a-1.webp").is_some());
        assert!(stand_in("templates/logo/bfl.png").is_some());
        for path in ["templates/a.json", "templates/a", "assets/a.png", "a.webp"] {
            assert!(stand_in(path).is_none(), "{path}");
        }
    }
}
