//! What a client can do, and the routes of it.

use http::Method;

/// The path below which everything is, itself below the mount path of the server.
pub const BASE: &str = "/api/v2/admin";

/// Where the document is.
pub const DOCUMENT: &str = "/api/v2/admin/openapi.json";

/// What a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    GetDocument,
    ListAccounts,
    AddAccount,
    GetAccount,
    ChangeAccount,
    GetCredits,
    GrantCredits,
    ListKeys,
    AddKey,
    RevokeKey,
    HoldAsset,
    ReleaseAsset,
    ConfirmSweeps,
    GetCatalog,
    ReloadCatalog,
    ListWorkers,
    AddWorker,
    RemoveWorker,
    DrainWorker,
    ResumeWorker,
    ExplainJob,
    Deployment(OfDeployment),
    Model(OfModel),
    ListAllWebhooks,
    ListWebhooks,
    AddWebhook,
    GetWebhook,
    ChangeWebhook,
    RemoveWebhook,
    RotateWebhook,
    TestWebhook,
    ListDeliveries,
    GetSettings,
}

/// What a client can do with deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfDeployment {
    List,
    Show,
    Apply,
    Remove,
    Start,
    Stop,
    Scale,
    RollBack,
    Events,
    Logs,
}

/// What a client can do with published models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfModel {
    List,
    Show,
    Publish,
    Withdraw,
}

use OfDeployment as D;
use OfModel as M;
use Operation as O;

/// Every route below [`BASE`].
pub(crate) const ROUTES: &[(Method, &str, Operation)] = &[
    (Method::GET, DOCUMENT, O::GetDocument),
    (Method::GET, "/api/v2/admin/accounts", O::ListAccounts),
    (Method::POST, "/api/v2/admin/accounts", O::AddAccount),
    (Method::GET, "/api/v2/admin/accounts/{id}", O::GetAccount),
    (
        Method::PATCH,
        "/api/v2/admin/accounts/{id}",
        O::ChangeAccount,
    ),
    (
        Method::GET,
        "/api/v2/admin/accounts/{id}/credits",
        O::GetCredits,
    ),
    (
        Method::POST,
        "/api/v2/admin/accounts/{id}/credits",
        O::GrantCredits,
    ),
    (Method::GET, "/api/v2/admin/accounts/{id}/keys", O::ListKeys),
    (Method::POST, "/api/v2/admin/accounts/{id}/keys", O::AddKey),
    (Method::POST, "/api/v2/admin/keys/{id}/revoke", O::RevokeKey),
    (Method::PUT, "/api/v2/admin/assets/{id}/hold", O::HoldAsset),
    (
        Method::DELETE,
        "/api/v2/admin/assets/{id}/hold",
        O::ReleaseAsset,
    ),
    (
        Method::POST,
        "/api/v2/admin/sweeps/confirm",
        O::ConfirmSweeps,
    ),
    (Method::GET, "/api/v2/admin/catalog", O::GetCatalog),
    (
        Method::POST,
        "/api/v2/admin/catalog/reload",
        O::ReloadCatalog,
    ),
    (Method::GET, "/api/v2/admin/workers", O::ListWorkers),
    (Method::POST, "/api/v2/admin/workers", O::AddWorker),
    // By bodies: the name of a worker may be an address, whose slashes no part of a path can have.
    (
        Method::POST,
        "/api/v2/admin/workers/remove",
        O::RemoveWorker,
    ),
    (Method::POST, "/api/v2/admin/workers/drain", O::DrainWorker),
    (
        Method::POST,
        "/api/v2/admin/workers/resume",
        O::ResumeWorker,
    ),
    (Method::GET, "/api/v2/admin/jobs/{id}", O::ExplainJob),
    (
        Method::GET,
        "/api/v2/admin/deployments",
        O::Deployment(D::List),
    ),
    (
        Method::GET,
        "/api/v2/admin/deployments/{name}",
        O::Deployment(D::Show),
    ),
    (
        Method::PUT,
        "/api/v2/admin/deployments/{name}",
        O::Deployment(D::Apply),
    ),
    (
        Method::DELETE,
        "/api/v2/admin/deployments/{name}",
        O::Deployment(D::Remove),
    ),
    (
        Method::POST,
        "/api/v2/admin/deployments/{name}/start",
        O::Deployment(D::Start),
    ),
    (
        Method::POST,
        "/api/v2/admin/deployments/{name}/stop",
        O::Deployment(D::Stop),
    ),
    (
        Method::POST,
        "/api/v2/admin/deployments/{name}/scale",
        O::Deployment(D::Scale),
    ),
    (
        Method::POST,
        "/api/v2/admin/deployments/{name}/rollback",
        O::Deployment(D::RollBack),
    ),
    (
        Method::GET,
        "/api/v2/admin/deployments/{name}/events",
        O::Deployment(D::Events),
    ),
    (
        Method::GET,
        "/api/v2/admin/deployments/{name}/logs",
        O::Deployment(D::Logs),
    ),
    (Method::GET, "/api/v2/admin/models", O::Model(M::List)),
    (
        Method::GET,
        "/api/v2/admin/models/{provider}/{model}",
        O::Model(M::Show),
    ),
    (
        Method::PUT,
        "/api/v2/admin/models/{provider}/{model}",
        O::Model(M::Publish),
    ),
    (
        Method::DELETE,
        "/api/v2/admin/models/{provider}/{model}",
        O::Model(M::Withdraw),
    ),
    (Method::GET, "/api/v2/admin/webhooks", O::ListAllWebhooks),
    (
        Method::GET,
        "/api/v2/admin/accounts/{id}/webhooks",
        O::ListWebhooks,
    ),
    (
        Method::POST,
        "/api/v2/admin/accounts/{id}/webhooks",
        O::AddWebhook,
    ),
    (Method::GET, "/api/v2/admin/webhooks/{id}", O::GetWebhook),
    (
        Method::PATCH,
        "/api/v2/admin/webhooks/{id}",
        O::ChangeWebhook,
    ),
    (
        Method::DELETE,
        "/api/v2/admin/webhooks/{id}",
        O::RemoveWebhook,
    ),
    (
        Method::POST,
        "/api/v2/admin/webhooks/{id}/rotate",
        O::RotateWebhook,
    ),
    (
        Method::POST,
        "/api/v2/admin/webhooks/{id}/test",
        O::TestWebhook,
    ),
    (
        Method::GET,
        "/api/v2/admin/webhooks/{id}/deliveries",
        O::ListDeliveries,
    ),
    (Method::GET, "/api/v2/admin/settings", O::GetSettings),
];
