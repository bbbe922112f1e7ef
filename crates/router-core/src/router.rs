//! The service of family A: what a caller may ask of the router, whatever carries the question.

use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Accounts, Principal, Scope};
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::call::desk::Desk;
use crate::call::running::Registry;
use crate::catalog::is_visible;
use crate::{
    Admissions, BlockingPool, CallQueue, Calls, CursorKey, Lease, LiveCatalog, Load, Model,
    ModelId, OwnerId, QueueBounds, Quota, QuotaError, RouterError, Timer, Withheld, limit,
};

/// The model router. Clones are the same one.
#[derive(Clone)]
pub struct Router(pub(crate) Arc<Inner>);

/// What the router asks of the world.
#[derive(Clone)]
pub struct RouterPorts {
    /// The rows of keys and generations.
    pub calls: Arc<dyn Calls>,
    /// The rows of requests that wait to be dispatched.
    pub queue: Arc<dyn CallQueue>,
    /// What accounts may have in flight and ask for.
    pub quota: Arc<dyn Quota>,
    /// What admits and ends calls, over credits, quotas and rows.
    pub admissions: Arc<dyn Admissions>,
    /// Who pays.
    pub accounts: Arc<dyn Accounts>,
    /// Time for executions and their waiters.
    pub timer: Arc<dyn Timer>,
    /// Where large bodies are judged.
    pub threads: Arc<dyn BlockingPool>,
}

/// How the router behaves.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// How long a caller is kept waiting before the router answers `deadline_exceeded`.
    pub deadline: Duration,
    /// How long after it was accepted work is given up as `provider_timeout`, unless its model says otherwise.
    pub give_up_after: Duration,
    /// How long a queued request may wait to be dispatched; less than the 24 hours for which its key is kept.
    pub queue_time: Duration,
    /// How many requests may wait.
    pub queue_bounds: QueueBounds,
    /// What page cursors are made with.
    pub cursor_key: CursorKey,
    /// This router among those over the same store: an id that no other start ever has.
    pub owner: OwnerId,
    /// How long what it runs is its own if it does not renew it; [`Router::renew`] is to be called several times in it.
    pub lease: Duration,
}

impl RouterConfig {
    /// 30 seconds: the default of [`RouterConfig::lease`]. A process that pauses for less loses nothing, and what a dead one
    /// leaves waits no longer.
    pub const LEASE: Duration = Duration::from_secs(30);

    /// 1 hour: the default of [`RouterConfig::queue_time`].
    pub const QUEUE_TIME: Duration = Duration::from_secs(3600);

    /// The default of [`RouterConfig::queue_bounds`]: one account cannot take the room of all.
    pub const QUEUE_BOUNDS: QueueBounds = QueueBounds {
        of_account: 10_000,
        of_all: 200_000,
    };
}

pub(crate) struct Inner {
    pub(crate) ports: RouterPorts,
    pub(crate) config: RouterConfig,
    pub(crate) catalog: LiveCatalog,
    pub(crate) running: Registry,
    pub(crate) desk: Desk,
    /// Rings when results are to be fetched.
    pub(crate) results: Notify,
}

/// The query of a list: the values of each parameter, in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// `limit`.
    pub limit: &'a [&'a str],
    /// `cursor`.
    pub cursor: &'a [&'a str],
}

/// A page of the catalog (RouterModelListResponse).
#[derive(Debug)]
pub struct ModelPage {
    /// The models.
    pub models: Vec<Arc<Model>>,
    /// Whether others follow.
    pub has_more: bool,
    /// The cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
    /// The page size really used.
    pub limit: u32,
}

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Look at the catalog.
    View,
    /// Run a model, which needs an active subscription.
    Run,
    /// Read what was called. Which scopes that needs depends on whose record it is.
    Read,
}

impl Router {
    /// A router over this catalog.
    #[must_use]
    pub fn new(ports: RouterPorts, catalog: LiveCatalog, config: RouterConfig) -> Self {
        Self(Arc::new(Inner {
            ports,
            config,
            catalog,
            running: Registry::default(),
            desk: Desk::default(),
            results: Notify::new(),
        }))
    }

    /// The catalog that is served: to be replaced when its files change.
    #[must_use]
    pub fn catalog(&self) -> &LiveCatalog {
        &self.0.catalog
    }

    /// What an account has in flight, over all routers of the installation.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn load(&self, caller: &Principal, now: Timestamp) -> Result<Load, QuotaError> {
        self.0.ports.quota.load(&caller.account, now).await
    }

    /// What an account's calls in flight have committed, in US cents.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn committed_cents(
        &self,
        account: &AccountId,
        now: Timestamp,
    ) -> Result<u64, QuotaError> {
        let load = self.0.ports.quota.load(account, now).await?;
        Ok(load.committed_cents)
    }

    /// Answers every caller that waits for a partner, because the router is about to stop: 503, and with a key when to retry.
    /// What runs goes on, and is recovered at the next start.
    pub fn dismiss_callers(&self) {
        let running = self.0.running.dismiss();
        if running > 0 {
            tracing::info!(running, "callers that still wait get 503 and try again");
        }
    }

    /// Makes the checks that come before a look at the record of calls: rate window and switch, which does not count for operators.
    ///
    /// # Errors
    /// With the first check that fails.
    pub async fn open_record(&self, caller: &Principal, now: Timestamp) -> Result<(), RouterError> {
        self.0.enter(caller, Purpose::Read, now).await
    }

    /// One page of the models that the caller may view.
    ///
    /// # Errors
    /// If the caller may not, or `limit` or `cursor` is not right.
    pub async fn list(
        &self,
        caller: &Principal,
        query: ListQuery<'_>,
        now: Timestamp,
    ) -> Result<ModelPage, RouterError> {
        self.0.enter(caller, Purpose::View, now).await?;
        let limit = limit::parse(query.limit).map_err(RouterError::Malformed)?;
        let malformed = |reason: &dyn ToString| RouterError::Malformed(reason.to_string());
        let key = &self.0.config.cursor_key;
        let after = match query.cursor {
            [] => None,
            [cursor] => Some(
                key.open(cursor, &caller.account, now)
                    .map_err(|error| malformed(&error))?,
            ),
            [_, _, ..] => return Err(malformed(&"`cursor` is given more than once")),
        };
        let visible = &caller.tier.router.entitlements;
        let catalog = self.0.catalog.current();
        let page = catalog.page(after.as_ref(), limit as usize, visible);
        let last = page.models.last().filter(|_| page.has_more);
        Ok(ModelPage {
            next_cursor: last.map(|model| key.seal(model.id(), &caller.account, now)),
            models: page.models,
            has_more: page.has_more,
            limit,
        })
    }

    /// One model, for its entry or its schema document.
    ///
    /// # Errors
    /// If the caller may not view it, or the segments name none.
    pub async fn detail(
        &self,
        caller: &Principal,
        provider: &str,
        model: &str,
        now: Timestamp,
    ) -> Result<Arc<Model>, RouterError> {
        self.0.enter(caller, Purpose::View, now).await?;
        let id = ModelId::new(provider, model).ok();
        self.0.find(caller, id.as_ref(), (provider, model), now)
    }

    /// The error for a path below the models that names none, such as one with a variant segment.
    #[must_use]
    pub fn not_found(&self, caller: &Principal, text: &str) -> RouterError {
        self.0.not_found(caller, text)
    }
}

impl Inner {
    /// What this router asks for of what it runs.
    pub(crate) fn lease(&self) -> Lease {
        Lease {
            owner: self.config.owner,
            lasts: self.config.lease,
        }
    }

    /// The checks that every request passes first, in their order: rate window, switch, scope.
    pub(crate) async fn enter(
        &self,
        caller: &Principal,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<(), RouterError> {
        let windows = &caller.tier.router.windows;
        // Most accounts have none, and then there is nothing to ask.
        if !windows.is_empty() {
            let counted = self.ports.quota.count(&caller.account, windows, now);
            let counted = counted.await;
            counted.map_err(|error| RouterError::Unavailable(Box::new(error)))??;
        }
        let is_operator = purpose == Purpose::Read && caller.scopes.allow(Scope::Admin);
        if !caller.router && !is_operator {
            return Err(RouterError::NotEnabled);
        }
        if purpose == Purpose::Read {
            return Ok(());
        }
        if !caller.scopes.allow(Scope::RouterRun) {
            return Err(RouterError::Forbidden(
                "this credential does not allow router:run".into(),
            ));
        }
        if purpose == Purpose::Run && !caller.subscribed {
            return Err(RouterError::Forbidden(
                "the subscription of this workspace is not active".into(),
            ));
        }
        Ok(())
    }

    /// The model that two segments of a path name, if they are an id and the caller may use it.
    pub(crate) fn find(
        &self,
        caller: &Principal,
        id: Option<&ModelId>,
        (provider, model): (&str, &str),
        now: Timestamp,
    ) -> Result<Arc<Model>, RouterError> {
        let found = id.and_then(|id| self.catalog.find(id, now));
        let found = match (found, id) {
            (Some(found), _) => Ok(found),
            (None, Some(id)) => Err(self.withheld(caller, id)),
            (None, None) => Err(self.not_found(caller, &format!("{provider}/{model}"))),
        };
        let is_visible = |id: &ModelId| is_visible(id, &caller.tier.router.entitlements);
        match (&found, id) {
            (Ok(_) | Err(RouterError::SwitchedOff | RouterError::Withdrawn), Some(id))
                if !is_visible(id) =>
            {
                Err(RouterError::Forbidden(
                    "this workspace is not entitled to this model".into(),
                ))
            }
            _ => found,
        }
    }

    /// What a caller is told of a model that is not offered.
    fn withheld(&self, caller: &Principal, id: &ModelId) -> RouterError {
        match self.catalog.current().withheld(id) {
            Some(Withheld::SwitchedOff(_)) => RouterError::SwitchedOff,
            Some(Withheld::Withdrawn(_)) => RouterError::Withdrawn,
            // Which variables the server reads is the operator's own.
            Some(Withheld::NoCredentials(lacks)) if caller.scopes.allow(Scope::Admin) => {
                RouterError::ModelNotFound {
                    suggestions: Vec::new(),
                    lacks: Some(lacks.clone()),
                }
            }
            Some(Withheld::NoCredentials(_)) | None => self.not_found(caller, id.as_str()),
        }
    }

    fn not_found(&self, caller: &Principal, text: &str) -> RouterError {
        let visible = &caller.tier.router.entitlements;
        RouterError::ModelNotFound {
            suggestions: self.catalog.current().suggest(text, visible),
            lacks: None,
        }
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Router")
    }
}

#[cfg(test)]
mod tests;
