//! The log of what operators did: who, what, on what, and what came of it; never a secret, and never a hash of one.

use super::{deployments, models};
use admin_http::Actor;
use admin_http::wire::{Problem, ProblemKind, Request, WebhookRequest, WorkerChange};
use webhooks::WebhookUrl;

/// A request that changes something, as the log names it.
pub(super) struct Change {
    action: &'static str,
    /// The account, key or asset.
    subject: String,
    /// What is to become of it.
    detail: String,
}

impl Change {
    /// Nothing for requests that only look.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let (action, subject, detail) = match request {
            Request::Accounts { .. }
            | Request::Account { .. }
            | Request::Entries { .. }
            | Request::Keys { .. }
            | Request::Asset { .. }
            | Request::Catalog
            | Request::Workers { .. }
            | Request::ExplainJob { .. }
            | Request::Settings => return None,
            Request::AddAccount { id, changes } => ("account.add", id.clone(), listed(changes)),
            Request::ChangeAccount { id, changes } => {
                ("account.change", id.clone(), listed(changes))
            }
            Request::Grant {
                account,
                reference,
                cents,
            } => (
                "credits.grant",
                account.clone(),
                format!("{cents} cents, reference {reference}"),
            ),
            Request::AddKey {
                account,
                id,
                scopes,
                expires_in_s,
                ..
            } => {
                let until = match expires_in_s {
                    Some(seconds) => format!("for {seconds} s"),
                    None => "without end".to_owned(),
                };
                let detail = format!("key {id} with the scopes {scopes}, {until}");
                ("key.add", account.clone(), detail)
            }
            Request::RevokeKey { id } => ("key.revoke", id.clone(), String::new()),
            Request::HoldAsset { id, held: true } => ("asset.hold", id.clone(), String::new()),
            Request::HoldAsset { id, held: false } => ("asset.release", id.clone(), String::new()),
            Request::ConfirmSweeps => ("sweeps.confirm", String::new(), String::new()),
            Request::ChangeWorker(change) => of_worker(change),
            Request::Deployment(request) => deployments::audited(request)?,
            Request::Model(request) => models::audited(request)?,
            Request::Webhook(request) => return Self::of_webhook(request),
            Request::ReloadCatalog => ("catalog.reload", String::new(), String::new()),
        };
        Some(Self {
            action,
            subject,
            detail,
        })
    }

    fn of_webhook(request: &WebhookRequest) -> Option<Self> {
        let (action, subject, detail) = match request {
            WebhookRequest::List { .. }
            | WebhookRequest::Get { .. }
            | WebhookRequest::Deliveries { .. } => return None,
            WebhookRequest::Add {
                account,
                url,
                events,
            } => (
                "webhook.add",
                account,
                format!("at {} for {events}", host_of(url)),
            ),
            WebhookRequest::Change {
                id,
                url,
                events,
                enabled,
            } => {
                let url = url.as_deref().map(|url| format!("at {}", host_of(url)));
                let events = events.as_ref().map(|events| format!("for {events}"));
                let enabled = enabled.map(|enabled| format!("enabled = {enabled}"));
                let parts = [url, events, enabled].into_iter().flatten();
                let detail = parts.collect::<Vec<_>>().join(", ");
                ("webhook.change", id, detail)
            }
            WebhookRequest::Remove { id } => ("webhook.remove", id, String::new()),
            WebhookRequest::Rotate { id, .. } => ("webhook.rotate", id, String::new()),
            WebhookRequest::Test { id } => ("webhook.test", id, String::new()),
        };
        Some(Self {
            action,
            subject: subject.clone(),
            detail,
        })
    }

    /// Writes the line. `problem` is why it was not done.
    pub(super) fn log(&self, actor: &Actor, problem: Option<&Problem>) {
        let Self {
            action,
            subject,
            detail,
        } = self;
        match problem {
            None => {
                tracing::info!(%actor, action, subject, detail, "the installation was changed")
            }
            Some(Problem { kind, message, .. }) if *kind != ProblemKind::Fault => {
                tracing::info!(%actor, action, subject, detail, reason = message, "a change of the installation is refused");
            }
            Some(Problem { message, .. }) => {
                tracing::error!(%actor, action, subject, detail, reason = message, "a change of the installation failed");
            }
        }
    }
}

fn of_worker(change: &WorkerChange) -> (&'static str, String, String) {
    match change {
        WorkerChange::Add { name, url } => {
            // An address with a password is refused, and must not be logged either.
            let place = url.rsplit('@').next().unwrap_or_default();
            let name = name.as_deref().unwrap_or(place);
            ("worker.add", name.to_owned(), format!("at {place}"))
        }
        WorkerChange::Drain {
            name,
            draining: true,
        } => ("worker.drain", name.clone(), String::new()),
        WorkerChange::Drain {
            name,
            draining: false,
        } => ("worker.resume", name.clone(), String::new()),
        WorkerChange::Remove { name } => ("worker.remove", name.clone(), String::new()),
    }
}

/// The host of an address, whose path and query may hold a secret; nothing of what is no address.
fn host_of(url: &str) -> String {
    let url = url.parse::<WebhookUrl>();
    url.map_or_else(|_| String::new(), |url| url.host().to_owned())
}

fn listed(changes: &[(String, String)]) -> String {
    let changes = changes
        .iter()
        .map(|(name, text)| format!("{name} = {text}"));
    changes.collect::<Vec<_>>().join(", ")
}
