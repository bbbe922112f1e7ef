//! What a client can do, and the routes of it.

use http::Method;

/// The path below which everything is, itself below the mount path of the server.
pub const BASE: &str = "/api/v2/admin";

/// The path below which accounts manage their own webhooks.
pub const OWN_WEBHOOKS: &str = "/api/v2/webhooks";

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
    GetAsset,
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
    Webhook(OfWebhook),
    /// The same, for the webhooks of the account that the credential is of.
    OwnWebhook(OfWebhook),
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

/// What a client can do with webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfWebhook {
    ListAll,
    List,
    Add,
    Get,
    Change,
    Remove,
    Rotate,
    Test,
    Deliveries,
}

use OfDeployment as D;
use OfModel as M;
use OfWebhook as W;
use Operation as O;

/// Every route below [`BASE`] and [`OWN_WEBHOOKS`].
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
    (Method::GET, "/api/v2/admin/assets/{id}", O::GetAsset),
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
    (
        Method::GET,
        "/api/v2/admin/webhooks",
        O::Webhook(W::ListAll),
    ),
    (
        Method::GET,
        "/api/v2/admin/accounts/{id}/webhooks",
        O::Webhook(W::List),
    ),
    (
        Method::POST,
        "/api/v2/admin/accounts/{id}/webhooks",
        O::Webhook(W::Add),
    ),
    (
        Method::GET,
        "/api/v2/admin/webhooks/{id}",
        O::Webhook(W::Get),
    ),
    (
        Method::PATCH,
        "/api/v2/admin/webhooks/{id}",
        O::Webhook(W::Change),
    ),
    (
        Method::DELETE,
        "/api/v2/admin/webhooks/{id}",
        O::Webhook(W::Remove),
    ),
    (
        Method::POST,
        "/api/v2/admin/webhooks/{id}/rotate",
        O::Webhook(W::Rotate),
    ),
    (
        Method::POST,
        "/api/v2/admin/webhooks/{id}/test",
        O::Webhook(W::Test),
    ),
    (
        Method::GET,
        "/api/v2/admin/webhooks/{id}/deliveries",
        O::Webhook(W::Deliveries),
    ),
    (Method::GET, "/api/v2/webhooks", O::OwnWebhook(W::List)),
    (Method::POST, "/api/v2/webhooks", O::OwnWebhook(W::Add)),
    (Method::GET, "/api/v2/webhooks/{id}", O::OwnWebhook(W::Get)),
    (
        Method::PATCH,
        "/api/v2/webhooks/{id}",
        O::OwnWebhook(W::Change),
    ),
    (
        Method::DELETE,
        "/api/v2/webhooks/{id}",
        O::OwnWebhook(W::Remove),
    ),
    (
        Method::POST,
        "/api/v2/webhooks/{id}/rotate",
        O::OwnWebhook(W::Rotate),
    ),
    (
        Method::POST,
        "/api/v2/webhooks/{id}/test",
        O::OwnWebhook(W::Test),
    ),
    (
        Method::GET,
        "/api/v2/webhooks/{id}/deliveries",
        O::OwnWebhook(W::Deliveries),
    ),
    (Method::GET, "/api/v2/admin/settings", O::GetSettings),
];
