//! Webhooks over HTTP: what a call asks for, of an operator and of an account about its own.

use accounts::{Principal, Scope};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper_kit::Body;

use crate::api::{Call, read, read_number, read_optional, shown};
use crate::errors::ApiError;
use crate::query::Page;
use crate::routes::OfWebhook;
use crate::wire::{Answer, ProblemKind, Request, WebhookRequest};

impl Call {
    /// Carries out what a call asks for.
    pub(crate) async fn webhook(
        &self,
        operation: OfWebhook,
        id: String,
        head: &Parts,
        body: Body,
    ) -> Result<Response<Body>, ApiError> {
        let wish = wish(operation, id, head, body).await?;
        let answer = self.carry_out(wish).await?;
        Ok(shown(status(operation), answer))
    }

    /// The same about the webhooks of the caller's account. Another account's are as absent as none.
    pub(crate) async fn own_webhook(
        &self,
        operation: OfWebhook,
        id: Option<&str>,
        head: &Parts,
        body: Body,
    ) -> Result<Response<Body>, ApiError> {
        let Some(id) = id else {
            let account = self.account.to_string();
            return self.webhook(operation, account, head, body).await;
        };
        let id = id.to_owned();
        let look = Request::Webhook(WebhookRequest::Get { id: id.clone() });
        // Whose a webhook is never changes.
        let is_own = match self.carry_out(look).await {
            Ok(Answer::Webhook(webhook)) => webhook.account == self.account.as_str(),
            Ok(_) => false,
            Err(ApiError::Problem(problem)) if problem.kind == ProblemKind::Absent => false,
            Err(error) => return Err(error),
        };
        if !is_own {
            return Err(ApiError::NotOwnWebhook);
        }
        self.webhook(operation, id, head, body).await
    }
}

/// What a call asks for. `id` is that of the account in [`OfWebhook::List`] and [`OfWebhook::Add`], else that of the webhook.
async fn wish(
    operation: OfWebhook,
    id: String,
    head: &Parts,
    body: Body,
) -> Result<Request, ApiError> {
    let page = || Page::read(head.uri.query().unwrap_or_default());
    let wish = match operation {
        OfWebhook::ListAll | OfWebhook::List => {
            let Page { cursor, limit } = page()?;
            WebhookRequest::List {
                account: (operation == OfWebhook::List).then_some(id),
                after: cursor,
                limit,
            }
        }
        OfWebhook::Add => return read(head, body).await?.webhook(id),
        OfWebhook::Get => WebhookRequest::Get { id },
        OfWebhook::Change => return read(head, body).await?.webhook_changes(id),
        OfWebhook::Remove => WebhookRequest::Remove { id },
        OfWebhook::Rotate => return read_optional(head, body).await?.rotation(id),
        OfWebhook::Test => WebhookRequest::Test { id },
        OfWebhook::Deliveries => {
            let Page { cursor, limit } = page()?;
            let before = cursor.as_deref().map(read_number).transpose()?;
            WebhookRequest::Deliveries { id, before, limit }
        }
    };
    Ok(Request::Webhook(wish))
}

/// The status of an answer.
fn status(operation: OfWebhook) -> StatusCode {
    match operation {
        OfWebhook::Add => StatusCode::CREATED,
        OfWebhook::Test => StatusCode::ACCEPTED,
        OfWebhook::ListAll
        | OfWebhook::List
        | OfWebhook::Get
        | OfWebhook::Change
        | OfWebhook::Remove
        | OfWebhook::Rotate
        | OfWebhook::Deliveries => StatusCode::OK,
    }
}

/// Whether a credential may do this with the webhooks of its account: it may see them if it may see what they tell, and change
/// them if it may begin that. Who operates the installation may both.
pub(crate) fn may(principal: &Principal, operation: OfWebhook) -> bool {
    let scopes = match operation {
        OfWebhook::ListAll | OfWebhook::List | OfWebhook::Get | OfWebhook::Deliveries => {
            [Scope::JobsRead, Scope::RouterRun, Scope::Admin]
        }
        OfWebhook::Add
        | OfWebhook::Change
        | OfWebhook::Remove
        | OfWebhook::Rotate
        | OfWebhook::Test => [Scope::JobsWrite, Scope::RouterRun, Scope::Admin],
    };
    scopes
        .into_iter()
        .any(|scope| principal.scopes.allow(scope))
}
