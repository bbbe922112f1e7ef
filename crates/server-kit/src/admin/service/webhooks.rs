//! What operators do with webhooks. A secret is told in the answer to the request that made it, and nowhere else.

use admin_http::wire::{
    Answer, DeliveriesPage, DeliveryBody, Problem, SecretText, WebhookBody, WebhookRequest,
    WebhookSecretBody, WebhooksPage,
};
use hyper_kit::Host;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use serde_json::Value;
use uuid::Uuid;
use webhooks::{
    Delivery, DeliveryState, Event, EventKind, EventKinds, Health, SecretVersions, Webhook,
    WebhookChange, WebhookId, WebhookState, WebhookUrl, WebhooksError, signing_secret,
};

use super::{absent, account_id, fault, invalid, no_account, refused, rows};
use crate::admin::WebhookAdmin;
use crate::admin::bodies::time;
use crate::webhooks::is_private;

/// For how many seconds the secret before the newest one signs, where nothing is said: a day.
const OVERLAP_S: u32 = 86_400;

/// Most that can be asked for: seven days.
const MOST_OVERLAP_S: u32 = 7 * 86_400;

/// Carries out a request about webhooks.
pub(super) async fn perform(
    ports: &WebhookAdmin,
    request: WebhookRequest,
    now: Timestamp,
) -> Result<Answer, Problem> {
    let webhooks = &ports.webhooks;
    match request {
        WebhookRequest::List {
            account,
            after,
            limit,
        } => {
            let account = account.as_deref().map(account_id).transpose()?;
            let after = after.as_deref().map(id).transpose()?;
            let limit = rows(limit);
            let found = webhooks.list(account.as_ref(), after, limit).await;
            let found = found.map_err(|error| fault(&error))?;
            let last = found.last().map(|webhook| webhook.id.to_string());
            Ok(Answer::Webhooks(WebhooksPage {
                next_cursor: last.filter(|_| found.len() >= limit),
                webhooks: found.iter().map(webhook_body).collect(),
            }))
        }
        WebhookRequest::Get { id: text } => {
            let found = look(ports, id(&text)?).await?;
            Ok(Answer::Webhook(Box::new(webhook_body(&found))))
        }
        WebhookRequest::Add {
            account,
            url,
            events,
        } => {
            let webhook = Webhook {
                id: WebhookId(Uuid::new_v4()),
                account: account_id(&account)?,
                url: address(ports, &url)?,
                kinds: kinds(&events)?,
                secrets: SecretVersions::FIRST,
                state: WebhookState::Enabled,
                health: Health::default(),
                created_at: now,
            };
            let body = with_secret(ports, &webhook).await?;
            let added = webhooks.add(webhook.clone()).await;
            added.map_err(|error| match error {
                WebhooksError::NoAccount => no_account(&webhook.account),
                WebhooksError::TooMany => refused(&format!(
                    "{error}; remove one that is not needed, or change its events"
                )),
                WebhooksError::NoWebhook | WebhooksError::Taken | WebhooksError::Unavailable(_) => {
                    fault(&error)
                }
            })?;
            Ok(Answer::WebhookSecret(Box::new(body)))
        }
        WebhookRequest::Change {
            id: text,
            url,
            events,
            enabled,
        } => {
            let mut changes = Vec::new();
            if let Some(url) = url {
                changes.push(WebhookChange::Url(address(ports, &url)?));
            }
            if let Some(events) = events {
                changes.push(WebhookChange::Kinds(kinds(&events)?));
            }
            changes.extend(enabled.map(|enabled| match enabled {
                true => WebhookChange::Enable,
                false => WebhookChange::Disable,
            }));
            if changes.is_empty() {
                return Err(refused(
                    "nothing is to be changed; send `url`, `events` or `enabled`",
                ));
            }
            let changed = change(ports, id(&text)?, changes, now).await?;
            Ok(Answer::Webhook(Box::new(webhook_body(&changed))))
        }
        WebhookRequest::Rotate {
            id: text,
            overlap_s,
        } => {
            let overlap_s = overlap_s.unwrap_or(OVERLAP_S);
            if overlap_s > MOST_OVERLAP_S {
                return Err(refused(
                    "the secret before can sign for 7 days (604800 s) at most",
                ));
            }
            let overlap = SignedDuration::from_secs(overlap_s.into());
            let previous_until = now.checked_add(overlap).unwrap_or(Timestamp::MAX);
            let rotation = vec![WebhookChange::Rotate { previous_until }];
            let changed = change(ports, id(&text)?, rotation, now).await?;
            let body = with_secret(ports, &changed).await?;
            Ok(Answer::WebhookSecret(Box::new(body)))
        }
        WebhookRequest::Remove { id: text } => {
            let id = id(&text)?;
            webhooks.remove(id).await.map_err(of_webhook(id))?;
            Ok(Answer::Done)
        }
        WebhookRequest::Test { id: text } => {
            let webhook = look(ports, id(&text)?).await?;
            if webhook.state != WebhookState::Enabled {
                return Err(refused(
                    "the webhook is disabled, so nothing is sent to it; enable it first",
                ));
            }
            let test = Event::test(&webhook.account, webhook.id, now);
            let sent = webhooks.send(webhook.id, test).await;
            let sent = sent.map_err(of_webhook(webhook.id))?;
            Ok(Answer::Delivery(Box::new(delivery_body(&sent))))
        }
        WebhookRequest::Deliveries {
            id: text,
            before,
            limit,
        } => {
            let webhook = look(ports, id(&text)?).await?;
            let limit = rows(limit);
            let found = webhooks.deliveries(webhook.id, before, limit).await;
            let found = found.map_err(|error| fault(&error))?;
            let last = found.last().map(|delivery| delivery.place.to_string());
            Ok(Answer::Deliveries(DeliveriesPage {
                next_cursor: last.filter(|_| found.len() >= limit),
                deliveries: found.iter().map(delivery_body).collect(),
            }))
        }
    }
}

async fn look(ports: &WebhookAdmin, id: WebhookId) -> Result<Webhook, Problem> {
    let found = ports.webhooks.get(id).await;
    let found = found.map_err(|error| fault(&error))?;
    found.ok_or_else(|| no_webhook(id))
}

async fn change(
    ports: &WebhookAdmin,
    id: WebhookId,
    changes: Vec<WebhookChange>,
    now: Timestamp,
) -> Result<Webhook, Problem> {
    let changed = ports.webhooks.change(id, changes, now).await;
    changed.map_err(of_webhook(id))
}

/// A webhook with its newest secret.
async fn with_secret(
    ports: &WebhookAdmin,
    webhook: &Webhook,
) -> Result<WebhookSecretBody, Problem> {
    let installation = ports.keys.installation_secret().await;
    let installation = installation.map_err(|error| fault(&error))?;
    let secret = signing_secret(&installation, webhook.id, webhook.secrets.current);
    Ok(WebhookSecretBody {
        webhook: webhook_body(webhook),
        secret: SecretText(secret.expose_secret().to_owned()),
    })
}

fn id(text: &str) -> Result<WebhookId, Problem> {
    text.parse()
        .map_err(|_| refused(&format!("\"{text}\" is no id of a webhook; ids are UUIDs")))
}

fn kinds(text: &str) -> Result<EventKinds, Problem> {
    text.parse().map_err(|error| invalid(&error))
}

/// An address that the sender would ask. Whether it is on the public internet shows when it is asked.
fn address(ports: &WebhookAdmin, text: &str) -> Result<WebhookUrl, Problem> {
    let url: WebhookUrl = text.parse().map_err(|error| invalid(&error))?;
    if Host::parse(url.host()).is_none() {
        return Err(refused("the host of the address cannot be read"));
    }
    let hosts = ports.private_hosts.as_deref();
    if hosts.is_some_and(|hosts| url.as_str().starts_with("http://") && !is_private(&url, hosts)) {
        return Err(refused(
            "plain http is for hosts in the setting `webhook_private_hosts` alone; use an address that begins with https://, \
             or have the operator add the host with its port there",
        ));
    }
    Ok(url)
}

fn no_webhook(id: WebhookId) -> Problem {
    absent(&format!(
        "there is no webhook {id}; `webhook list` shows those there are"
    ))
}

fn of_webhook(id: WebhookId) -> impl Fn(WebhooksError) -> Problem {
    move |error| match error {
        WebhooksError::NoWebhook => no_webhook(id),
        WebhooksError::NoAccount
        | WebhooksError::TooMany
        | WebhooksError::Taken
        | WebhooksError::Unavailable(_) => fault(&error),
    }
}

fn webhook_body(webhook: &Webhook) -> WebhookBody {
    let (disabled_reason, disabled_at) = match webhook.state {
        WebhookState::Enabled => (None, None),
        WebhookState::Disabled { reason, at } => (Some(reason.name().to_owned()), Some(time(at))),
    };
    let state = match webhook.state {
        WebhookState::Enabled => "enabled",
        WebhookState::Disabled { .. } => "disabled",
    };
    WebhookBody {
        id: webhook.id.to_string(),
        account: webhook.account.to_string(),
        url: webhook.url.as_str().to_owned(),
        events: webhook
            .kinds
            .iter()
            .map(EventKind::name)
            .map(str::to_owned)
            .collect(),
        state: state.to_owned(),
        disabled_reason,
        disabled_at,
        failures: webhook.health.failures,
        failing_since: webhook.health.failing_since.map(time),
        paused_until: webhook.health.not_before.map(time),
        previous_secret_until: webhook.secrets.previous_until.map(time),
        created_at: time(webhook.created_at),
    }
}

fn delivery_body(delivery: &Delivery) -> DeliveryBody {
    let (state, next_attempt_at, delivered_at) = match delivery.state {
        DeliveryState::Waiting { next_at } => ("waiting", Some(time(next_at)), None),
        DeliveryState::Delivered { at } => ("delivered", None, Some(time(at))),
    };
    let last = delivery.last.as_ref();
    DeliveryBody {
        id: delivery.message.to_string(),
        webhook: delivery.webhook.to_string(),
        event: delivery.event.kind.name().to_owned(),
        data: serde_json::from_str(&delivery.event.data).unwrap_or(Value::Null),
        state: state.to_owned(),
        attempts: delivery.attempts,
        status: last.and_then(|last| last.status),
        error: last.and_then(|last| last.error.clone()),
        created_at: time(delivery.event.at),
        attempted_at: last.map(|last| time(last.at)),
        next_attempt_at,
        delivered_at,
    }
}
