//! Family C: the older v1 API, its WebSocket, and the web page of its users.
//!
//! A view and nothing else: submissions go to the same [`workflow_core::Jobs`], everything that is shown is made by
//! `v1_compat` from jobs and from what their runs told. Most routes exist twice, below `/api` and bare. The route table is
//! here; deleting this directory and the line that mounts it takes the family away.

pub(crate) mod errors;

mod about;
mod history;
mod jobs;
mod listing;
mod log;
mod models;
mod nodes;
mod page;
mod prompt;
mod queue;
mod reply;
mod request;
mod session;
mod settings;
mod socket;
mod upload;
mod userdata;
mod view;
mod web;

use std::sync::Arc;

use accounts::Scope;
use asset_store::FileNames;
use futures_util::FutureExt;
use http::{Method, Response};
use hyper_kit::{Body, Sockets};
use identity::WebSessions;
use v1_compat::UserFiles;
use workflow_core::ImageTools;

use errors::ApiError;
use models::Spelling;
use request::Call;

pub use log::LogReaders;
pub use page::WebPage;
pub(crate) use request::{Asked, answer};
pub(crate) use web::fallback;

/// The document of this API (OpenAPI 3.1), as it is served.
pub const OPENAPI: &str = include_str!("../../../../docs/openapi/v1.json");

/// What this family calls besides what every family does.
#[derive(Clone)]
pub struct V1Service {
    /// Settings and saved workflows.
    pub user_files: Arc<dyn UserFiles>,
    /// Names of files to choose from.
    pub file_names: Arc<dyn FileNames>,
    /// Looks at pictures and makes others of them.
    pub image_tools: Arc<dyn ImageTools>,
    /// The open sockets.
    pub sockets: Sockets,
    /// The open sockets that hear of the log.
    pub log_readers: LogReaders,
    /// Who is signed in on the web page.
    pub sessions: WebSessions,
    /// The web page, where one is served.
    pub web_page: Option<WebPage>,
    /// What the server says of itself.
    pub version: &'static str,
    /// The bytes of memory that the machine has, and those that are free.
    pub memory: fn() -> (u64, u64),
}

/// Everything a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Submit,
    GetQueueInfo,
    GetJobStatus,
    ListJobs,
    GetJob,
    CancelJob,
    CancelJobs,
    GetQueue,
    ChangeQueue,
    Interrupt,
    View,
    UploadImage,
    UploadMask,
    ListNodes,
    GetNode,
    ListHistory,
    ChangeHistory,
    GetHistory,
    ListHistoryV2,
    GetHistoryV2,
    OpenSocket,
    GetFeatures,
    GetSystemStats,
    GetUsers,
    GetSettings,
    SetSettings,
    GetSetting,
    SetSetting,
    ListUserFiles,
    GetUserFile,
    SaveUserFile,
    DeleteUserFile,
    MoveUserFile,
    ListOutputFiles,
    GetPageFacts,
    ListExtensions,
    GetWords,
    SubscribeLog,
    GetRawLog,
    EmptyList,
    EmptyObject,
    ListModelFolders,
    ListModels,
    ShowModelFolders,
    ShowModels,
    PublicEmptyObject,
    ListSubgraphs,
    GetSubgraph,
    GetLog,
    GetStyle,
    GetDocument,
    SignIn,
    SignOut,
    Free,
    GetSignInPage,
}

use Operation as O;

/// Method and path of every operation; `true` for those that stand below `/api` and bare.
const TABLE: &[(Method, &str, O, bool)] = &[
    (Method::POST, "/prompt", O::Submit, true),
    (Method::GET, "/prompt", O::GetQueueInfo, true),
    (Method::GET, "/job/{id}/status", O::GetJobStatus, false),
    (Method::GET, "/jobs", O::ListJobs, false),
    (Method::POST, "/jobs/cancel", O::CancelJobs, false),
    (Method::GET, "/jobs/{id}", O::GetJob, false),
    (Method::POST, "/jobs/{id}/cancel", O::CancelJob, false),
    (Method::GET, "/queue", O::GetQueue, true),
    (Method::POST, "/queue", O::ChangeQueue, true),
    (Method::POST, "/interrupt", O::Interrupt, true),
    (Method::POST, "/free", O::Free, true),
    (Method::GET, "/view", O::View, true),
    (Method::POST, "/upload/image", O::UploadImage, true),
    (Method::POST, "/upload/mask", O::UploadMask, true),
    (Method::GET, "/object_info", O::ListNodes, true),
    (Method::GET, "/object_info/{class}", O::GetNode, true),
    (Method::GET, "/history", O::ListHistory, true),
    (Method::POST, "/history", O::ChangeHistory, true),
    (Method::GET, "/history/{id}", O::GetHistory, true),
    (Method::GET, "/history_v2", O::ListHistoryV2, false),
    (Method::GET, "/history_v2/{id}", O::GetHistoryV2, false),
    (Method::GET, "/ws", O::OpenSocket, true),
    (Method::GET, "/features", O::GetFeatures, true),
    (Method::GET, "/system_stats", O::GetSystemStats, true),
    (Method::GET, "/users", O::GetUsers, true),
    (Method::GET, "/settings", O::GetSettings, true),
    (Method::POST, "/settings", O::SetSettings, true),
    (Method::GET, "/settings/{id}", O::GetSetting, true),
    (Method::POST, "/settings/{id}", O::SetSetting, true),
    (Method::GET, "/userdata", O::ListUserFiles, true),
    (Method::GET, "/userdata/{file}", O::GetUserFile, true),
    (Method::POST, "/userdata/{file}", O::SaveUserFile, true),
    (Method::DELETE, "/userdata/{file}", O::DeleteUserFile, true),
    (
        Method::POST,
        "/userdata/{file}/move/{to}",
        O::MoveUserFile,
        true,
    ),
    (
        Method::GET,
        "/internal/files/{folder}",
        O::ListOutputFiles,
        true,
    ),
    (Method::GET, "/internal/folder_paths", O::EmptyObject, true),
    (Method::GET, "/internal/logs", O::GetLog, true),
    (Method::GET, "/internal/logs/raw", O::GetRawLog, true),
    (
        Method::PATCH,
        "/internal/logs/subscribe",
        O::SubscribeLog,
        true,
    ),
    (Method::GET, "/easel", O::GetPageFacts, false),
    (Method::GET, "/extensions", O::ListExtensions, true),
    (Method::GET, "/embeddings", O::EmptyList, true),
    (Method::GET, "/models", O::ListModelFolders, true),
    (Method::GET, "/models/{folder}", O::ListModels, true),
    (Method::GET, "/i18n", O::GetWords, true),
    (
        Method::GET,
        "/workflow_templates",
        O::PublicEmptyObject,
        true,
    ),
    (Method::GET, "/global_subgraphs", O::ListSubgraphs, true),
    (Method::GET, "/global_subgraphs/{id}", O::GetSubgraph, true),
    (
        Method::GET,
        "/node_replacements",
        O::PublicEmptyObject,
        true,
    ),
    (Method::GET, "/view_metadata/{folder}", O::EmptyObject, true),
    (Method::GET, "/experiment/models", O::ShowModelFolders, true),
    (
        Method::GET,
        "/experiment/models/{folder}",
        O::ShowModels,
        true,
    ),
    (Method::GET, "/user.css", O::GetStyle, true),
    (Method::GET, "/openapi.json", O::GetDocument, false),
    (Method::POST, "/session", O::SignIn, false),
    (Method::DELETE, "/session", O::SignOut, false),
];

/// Every route of this family.
pub(crate) fn routes() -> impl Iterator<Item = (Method, &'static str, O)> {
    // Patterns live as long as the program, as those of the other families do; they are made once.
    static PATTERNS: std::sync::LazyLock<Vec<(Method, String, O)>> =
        std::sync::LazyLock::new(|| {
            let mut patterns = Vec::new();
            for (method, path, operation, bare) in TABLE {
                patterns.push((method.clone(), format!("/api{path}"), *operation));
                if *bare {
                    patterns.push((method.clone(), (*path).to_owned(), *operation));
                }
            }
            patterns.push((Method::GET, "/signin".to_owned(), O::GetSignInPage));
            patterns
        });
    let patterns = PATTERNS.iter();
    patterns.map(|(method, path, operation)| (method.clone(), path.as_str(), *operation))
}

impl Operation {
    /// What a credential must allow; `None` needs no credential.
    pub(crate) fn scope(self) -> Option<Scope> {
        match self {
            Self::Submit
            | Self::CancelJob
            | Self::CancelJobs
            | Self::ChangeQueue
            | Self::ChangeHistory
            | Self::Interrupt
            | Self::Free => Some(Scope::JobsWrite),
            Self::GetQueueInfo
            | Self::GetJobStatus
            | Self::ListJobs
            | Self::GetJob
            | Self::GetQueue
            | Self::ListNodes
            | Self::GetNode
            | Self::ListHistory
            | Self::GetHistory
            | Self::ListHistoryV2
            | Self::GetHistoryV2
            | Self::OpenSocket
            | Self::GetUsers
            | Self::GetSettings
            | Self::GetSetting
            | Self::ListUserFiles
            | Self::GetUserFile
            | Self::GetPageFacts
            | Self::ListExtensions
            | Self::GetWords
            | Self::SubscribeLog
            | Self::GetRawLog
            | Self::EmptyList
            | Self::EmptyObject
            | Self::ListModelFolders
            | Self::ListModels
            | Self::GetLog
            | Self::GetStyle => Some(Scope::JobsRead),
            Self::SetSettings
            | Self::SetSetting
            | Self::SaveUserFile
            | Self::DeleteUserFile
            | Self::MoveUserFile
            | Self::UploadImage
            | Self::UploadMask => Some(Scope::AssetsWrite),
            Self::View | Self::ListOutputFiles => Some(Scope::AssetsRead),
            Self::GetFeatures
            | Self::GetSystemStats
            | Self::ShowModelFolders
            | Self::ShowModels
            | Self::PublicEmptyObject
            | Self::ListSubgraphs
            | Self::GetSubgraph
            | Self::GetDocument
            | Self::SignIn
            | Self::SignOut
            | Self::GetSignInPage => None,
        }
    }
}

/// Runs an operation of a caller who may.
async fn dispatch(
    operation: Operation,
    call: &Call<'_>,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    match operation {
        // On the heap by itself: it is many times as large as the others.
        O::Submit => prompt::submit(call, body).boxed().await,
        O::GetQueueInfo => queue::info(call).await,
        O::GetJobStatus => jobs::status(call).await,
        O::ListJobs => jobs::list(call).await,
        O::GetJob => jobs::get(call).await,
        O::CancelJob => jobs::cancel(call).await,
        O::CancelJobs => jobs::cancel_many(call, body).await,
        O::GetQueue => queue::get(call).await,
        O::ChangeQueue => queue::change(call, body).await,
        O::Interrupt => queue::interrupt(call, body).await,
        O::View => view::view(call).await,
        O::UploadImage => upload::image(call, body).await,
        O::UploadMask => upload::mask(call, body).await,
        O::ListNodes => nodes::list(call).await,
        // Memory is the server's to keep and to free: nobody has any of their own.
        O::Free => Ok(request::done()),
        O::GetNode => nodes::get(call).await,
        O::ListHistory => history::list(call).await,
        O::ChangeHistory => history::change(call, body).await,
        O::GetHistory => history::get(call).await,
        O::ListHistoryV2 => history::list_v2(call).await,
        O::GetHistoryV2 => history::get_v2(call).await,
        O::OpenSocket => socket::open(call),
        O::GetUsers => Ok(about::users()),
        O::GetSettings => settings::all(call).await,
        O::SetSettings => settings::set_many(call, body).await,
        O::GetSetting => settings::get(call).await,
        O::SetSetting => settings::set(call, body).await,
        O::ListUserFiles => userdata::list(call).await,
        O::GetUserFile => userdata::get(call).await,
        O::SaveUserFile => userdata::save(call, body).await,
        O::DeleteUserFile => userdata::delete(call).await,
        O::MoveUserFile => userdata::rename(call).await,
        O::ListOutputFiles => nodes::files(call).await,
        O::GetPageFacts => page::facts(call).await,
        O::ListExtensions => Ok(page::extensions(call.v1)),
        O::GetWords => Ok(page::words(call.v1)),
        O::SubscribeLog => log::subscribe(call, body).await,
        O::GetRawLog => log::raw(call).await,
        O::EmptyList => Ok(about::empty_list()),
        O::ListModelFolders => Ok(models::folders(&call.service.jobs.nodes(), Spelling::Names)),
        O::ListModels => {
            let nodes = call.service.jobs.nodes();
            Ok(models::files(
                &nodes,
                call.param("folder")?,
                Spelling::Names,
            ))
        }
        O::EmptyObject | O::PublicEmptyObject => Ok(about::empty_object()),
        O::GetLog => log::text(call).await,
        O::GetStyle => Ok(about::style()),
        O::GetFeatures
        | O::GetSystemStats
        | O::ShowModelFolders
        | O::ShowModels
        | O::ListSubgraphs
        | O::GetSubgraph
        | O::GetDocument
        | O::SignIn
        | O::SignOut
        | O::GetSignInPage => Err(ApiError::NotFound),
    }
}

impl std::fmt::Debug for V1Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("V1Service")
            .field("web_page", &self.web_page)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
