//! Queued requests as their callers see them: submitted, looked at, collected, cancelled.

use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Labels, Payer, Principal};
use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

use super::execution::release_hold;
use super::prepare::{
    Judged, KEY_LIFETIME, SUBMISSION, aside, fingerprint, judged, served_by, unavailable,
};
use super::route::Route;
use super::settlement::told;
use super::{Delivery, OpenCall};
use crate::router::{Inner, Purpose};
use crate::{
    Answer, Bucket, Cancelled, Enqueued, GenerationId, KeyDigest, Model, ModelId, QueueFailure,
    QueueState, QueuedCall, QueuedRequest, Router, RouterError, Serving, limit,
};

/// Bounds of the pause that a caller is told between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How long a result that is written waits at most for its call to give its room back.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How many requests ahead make a pause a second longer.
const AHEAD_PER_SECOND: usize = 20;

/// A submitted request as its caller is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestStatus {
    /// The request.
    pub request: QueuedRequest,
    /// When to ask again; `None` once it is over.
    pub retry_after: Option<Duration>,
}

/// What came of a submission.
#[derive(Debug)]
pub struct SubmittedRequest {
    /// The request, or why there is none.
    pub result: Result<RequestStatus, RouterError>,
    /// To be told whether the caller got the answer.
    pub delivery: Delivery,
}

/// What there is to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuedResult {
    /// Nothing yet.
    Pending(RequestStatus),
    /// The result, as the waiting call would have got it.
    Answered {
        /// The result.
        answer: Answer,
        /// Who served it, if the request names its providers.
        serving: Option<Box<Serving>>,
    },
}

/// One page of an account's requests for a model, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestsPage {
    /// The requests.
    pub requests: Vec<RequestStatus>,
    /// Whether others follow.
    pub has_more: bool,
    /// The page size really used.
    pub limit: u32,
}

impl OpenCall {
    /// Takes the body and submits the call to the queue: it is on disk when this returns, and is dispatched when its account
    /// has room.
    pub async fn enqueue(self, body: Bytes) -> SubmittedRequest {
        let router = Arc::clone(&self.router);
        let id = GenerationId::from(self.record.request);
        let (key, received_at) = (self.record.key, self.record.received_at);
        let labels = self.record.labels.clone();
        let mut delivery = Delivery::open(self.router, self.record);
        let submitting = Submission {
            id,
            caller: &self.caller,
            model: &self.model,
            route: self.route.as_deref(),
            query: self.query,
            labels,
            key,
            received_at,
        };
        let submitted = submitting.submit(&router, body).await;
        let bucket = submitted.as_ref().err().map(RouterError::bucket);
        let generation = submitted.as_ref().ok().map(|status| status.request.id);
        delivery.note(
            generation,
            bucket,
            generation.is_some_and(|known| known != id),
        );
        SubmittedRequest {
            result: submitted,
            delivery,
        }
    }
}

/// A call that is to be queued.
struct Submission<'a> {
    id: GenerationId,
    caller: &'a Principal,
    model: &'a Arc<Model>,
    route: Option<&'a Route>,
    query: String,
    labels: Labels,
    key: Option<KeyDigest>,
    received_at: Timestamp,
}

impl Submission<'_> {
    async fn submit(self, router: &Inner, body: Bytes) -> Result<RequestStatus, RouterError> {
        let (queue, account) = (&router.ports.queue, &self.caller.account);
        let now = router.ports.timer.now();
        let (model, query, text) = (Arc::clone(self.model), self.query.clone(), body.clone());
        let fingerprint = aside(router, body.len(), move || {
            fingerprint(model.id(), SUBMISSION, &query, &text)
        });
        let fingerprint = fingerprint.await?;
        if let Some(key) = self.key {
            let known = queue.known(account, key, fingerprint, now).await;
            if let Some(known) = known.map_err(unavailable)? {
                return self.answered(router, known).await;
            }
        }
        self.judge(router, &body, now).await?;
        let call = QueuedCall {
            id: self.id,
            account: account.clone(),
            model: self.model.id().clone(),
            query: self.query.clone(),
            labels: self.labels.clone(),
            api_key: self.caller.key.clone(),
            key: self.key.unwrap_or_else(|| KeyDigest::of_request(self.id)),
            received_at: self.received_at,
            expires_at: self.received_at + KEY_LIFETIME,
            body,
        };
        let bounds = router.config.queue_bounds;
        let enqueued = queue.enqueue(call, fingerprint, bounds, now).await;
        let enqueued = enqueued.map_err(unavailable)?;
        router.desk.arrived();
        self.answered(router, enqueued).await
    }

    /// Credits, schema, and whether the call could ever have room.
    async fn judge(&self, router: &Inner, body: &Bytes, now: Timestamp) -> Result<(), RouterError> {
        let judged = judged(router, self.model, self.route, body);
        let Judged {
            hold_cents,
            settlement,
            ..
        } = judged.await?;
        let account = &self.caller.account;
        let hold = u32::try_from(hold_cents).unwrap_or(u32::MAX);
        let (lasts, accounts) = (router.config.lease, &router.ports.accounts);
        let (key, limits) = (self.caller.key.as_ref(), &self.caller.tier.router);
        let payer = Payer {
            account,
            scopes: &limits.scoped_budgets.of_call(key, &self.labels),
        };
        let reserved = accounts.reserve(payer, self.id.cause(), hold, lasts, now);
        let reserved = reserved.await.map_err(RouterError::unavailable)?;
        RouterError::of_reservation(reserved)?;
        // While it waits it holds nothing: the credits are set aside when it is dispatched.
        release_hold(router, account, self.id).await;
        settlement?;
        let limit_cents = self.caller.tier.router.committed_spend_cents;
        if hold_cents > limit_cents {
            let load = router.ports.quota.load(account, now).await;
            let load = load.map_err(|error| RouterError::Unavailable(Box::new(error)))?;
            return Err(RouterError::SpendCap {
                hold_cents,
                limit_cents,
                current_cents: load.committed_cents,
            });
        }
        Ok(())
    }

    async fn answered(
        &self,
        router: &Inner,
        enqueued: Enqueued,
    ) -> Result<RequestStatus, RouterError> {
        let id = match enqueued {
            Enqueued::Waits => self.id,
            Enqueued::Known(id) => id,
            Enqueued::Conflict => return Err(RouterError::KeyConflict),
            Enqueued::Full { limit } => return Err(RouterError::BacklogFull { limit }),
        };
        let found = router.ports.queue.find(&self.caller.account, id).await;
        let found = found.map_err(unavailable)?;
        // A key whose call was not queued never has the fingerprint of a submission.
        found
            .map(|request| router.status(request))
            .ok_or(RouterError::KeyConflict)
    }
}

impl Router {
    /// How far a request is.
    ///
    /// # Errors
    /// If the caller may not look, or has no such request.
    pub async fn request_status(
        &self,
        caller: &Principal,
        model: (&str, &str),
        request: &str,
        now: Timestamp,
    ) -> Result<RequestStatus, RouterError> {
        let found = self.request(caller, model, request, now).await?;
        if found.is_forgotten(now) {
            return Err(RouterError::ResultGone);
        }
        Ok(self.0.status(found))
    }

    /// How far the request is that began a generation of an account; `None` if that was not submitted to the queue, or its
    /// request is forgotten.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub async fn queue_state(
        &self,
        account: &AccountId,
        generation: GenerationId,
    ) -> Result<Option<QueueState>, RouterError> {
        let found = self.0.ports.queue.find(account, generation).await;
        let found = found.map_err(unavailable)?;
        Ok(found.map(|request| request.state))
    }

    /// The result of a request.
    ///
    /// # Errors
    /// If the caller may not look, has no such request, or it has no result.
    pub async fn request_result(
        &self,
        caller: &Principal,
        model: (&str, &str),
        request: &str,
        now: Timestamp,
    ) -> Result<QueuedResult, RouterError> {
        let found = self.request(caller, model, request, now).await?;
        if found.is_forgotten(now) {
            return Err(RouterError::ResultGone);
        }
        if let QueueState::Over(_) = found.state {
            // As who waits for a call is answered: when its room is free for the next one.
            let timer = &self.0.ports.timer;
            tokio::select! {
                () = self.0.running.has_ended(found.id) => {}
                () = timer.sleep(END_PATIENCE) => {}
            }
        }
        let bucket = match &found.state {
            QueueState::Waiting { .. } | QueueState::Running => {
                return Ok(QueuedResult::Pending(self.0.status(found)));
            }
            QueueState::Over(None) => None,
            QueueState::Over(Some(QueueFailure::Failed(bucket))) => Some(*bucket),
            QueueState::Over(Some(QueueFailure::Cancelled)) => {
                return Err(RouterError::RequestCancelled);
            }
            QueueState::Over(Some(QueueFailure::WaitedTooLong)) => {
                return Err(RouterError::WaitedTooLong);
            }
            QueueState::Over(Some(QueueFailure::NotDispatched { bucket, message })) => {
                return Err(RouterError::NotDispatched {
                    bucket: *bucket,
                    message: message.clone(),
                });
            }
        };
        let outcome = self.0.ports.queue.outcome(found.id).await;
        match (outcome.map_err(unavailable)?, bucket) {
            (Some(outcome), _) => {
                let answer = told(outcome)?;
                let serving = match found.has_query {
                    true => served_by(&self.0, found.id).await,
                    false => None,
                };
                Ok(QueuedResult::Answered { answer, serving })
            }
            (None, Some(bucket)) => Err(RouterError::NotDispatched {
                bucket,
                message: "the partner did not run the request; submit it again".to_owned(),
            }),
            (None, None) => Err(RouterError::ResultGone),
        }
    }

    /// Cancels a request: one that waits is over at once, of one that runs the partner is asked to stop.
    ///
    /// # Errors
    /// If the caller may not, or has no such request.
    pub async fn cancel_request(
        &self,
        caller: &Principal,
        model: (&str, &str),
        request: &str,
        now: Timestamp,
    ) -> Result<Cancelled, RouterError> {
        let found = self.request(caller, model, request, now).await?;
        let queue = &self.0.ports.queue;
        let cancelled = queue.cancel(&caller.account, found.id, now).await;
        let cancelled = cancelled.map_err(unavailable)?;
        let cancelled = cancelled.ok_or(RouterError::RequestNotFound)?;
        if cancelled == Cancelled::Noted {
            self.0.desk.cancel(found.id);
            if let Some(running) = self.0.running.get(found.id) {
                running.cancel();
            }
        }
        Ok(cancelled)
    }

    /// One page of the caller's requests for a model, newest first, behind the request `after`.
    ///
    /// # Errors
    /// If the caller may not look, there is no such model, or `limit` or `after` is not right.
    pub async fn requests(
        &self,
        caller: &Principal,
        (provider, model): (&str, &str),
        limits: &[&str],
        after: &[&str],
        now: Timestamp,
    ) -> Result<RequestsPage, RouterError> {
        let model = self.detail(caller, provider, model, now).await?;
        let limit = limit::parse(limits).map_err(RouterError::Malformed)?;
        let malformed = |reason: &str| RouterError::Malformed(reason.to_owned());
        let after = match after {
            [] => None,
            [id] => Some(read_id(id).ok_or_else(|| {
                malformed("`cursor` must be the `next_cursor` of a page of requests")
            })?),
            [_, _, ..] => return Err(malformed("`cursor` is given more than once")),
        };
        let wanted = limit as usize + 1;
        let queue = &self.0.ports.queue;
        let found = queue.list(&caller.account, model.id(), after, wanted).await;
        // It was of another list, or is forgotten: an empty page would look like the last one.
        let found = found.map_err(unavailable)?.ok_or_else(|| {
            malformed("the cursor is invalid or has expired; start again without it")
        });
        let mut found = found?;
        let has_more = found.len() == wanted;
        found.truncate(limit as usize);
        Ok(RequestsPage {
            requests: found.into_iter().map(|one| self.0.status(one)).collect(),
            has_more,
            limit,
        })
    }

    /// The caller's request of this id, under its own model.
    async fn request(
        &self,
        caller: &Principal,
        (provider, model): (&str, &str),
        request: &str,
        now: Timestamp,
    ) -> Result<QueuedRequest, RouterError> {
        self.0.enter(caller, Purpose::View, now).await?;
        let named = ModelId::new(provider, model).ok();
        if let (Some(id), Some(named)) = (read_id(request), &named) {
            let found = self.0.ports.queue.find(&caller.account, id).await;
            let found = found.map_err(unavailable)?;
            if let Some(found) = found.filter(|found| found.model == *named) {
                return Ok(found);
            }
        }
        self.0
            .find(caller, named.as_ref(), (provider, model), now)?;
        Err(RouterError::RequestNotFound)
    }
}

impl Inner {
    fn status(&self, request: QueuedRequest) -> RequestStatus {
        let pause = match request.state {
            QueueState::Waiting { ahead } => {
                let seconds = u64::try_from(ahead / AHEAD_PER_SECOND).unwrap_or(u64::MAX);
                Some(Duration::from_secs(seconds))
            }
            QueueState::Running => {
                let running = self.running.get(request.id);
                let told = running.and_then(|running| running.retry_after());
                Some(told.unwrap_or(LOOKS.0))
            }
            QueueState::Over(_) => None,
        };
        RequestStatus {
            retry_after: pause.map(|pause| pause.clamp(LOOKS.0, LOOKS.1)),
            request,
        }
    }
}

impl RequestStatus {
    /// The bucket of its failure, if it failed.
    #[must_use]
    pub fn bucket(&self) -> Option<Bucket> {
        match &self.request.state {
            QueueState::Over(Some(failure)) => Some(failure.bucket()),
            QueueState::Over(None) | QueueState::Waiting { .. } | QueueState::Running => None,
        }
    }
}

fn read_id(text: &str) -> Option<GenerationId> {
    Uuid::try_parse(text).ok().map(GenerationId)
}
