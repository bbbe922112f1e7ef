//! The loop of a sender: what is due, what is under way, and what came of it.

use std::collections::HashMap;
use std::time::Duration;

use installation::Installation;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use webhooks::{
    AttemptOutcome, Attempted, Delivery, DueQuery, Lanes, Webhook, WebhookId, WebhooksError,
};

use super::attempt::{attempt, failed};
use super::{WebhookSender, is_private};

/// How long the sender waits for news at most. Messages whose pause is over make no news.
const LOOK: Duration = Duration::from_millis(500);

/// The pause after the store failed.
const RETRY: Duration = Duration::from_secs(1);

/// Webhooks of one page of what is due, and messages of each.
const PAGE: usize = 64;
const OF_EACH: usize = 8;

/// Most pages that are read before what ended meanwhile is noted.
const PAGES: usize = 16;

/// How often what is over is forgotten.
const PRUNE: Duration = Duration::from_secs(60);

/// Most deliveries that one transaction forgets.
const PRUNE_STEP: usize = 1_000;

/// How long delivered messages can be looked at, and how long messages wait for a webhook that is disabled.
const KEEP_DELIVERED: SignedDuration = SignedDuration::from_hours(3 * 24);
const KEEP_DISABLED: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How long attempts that are under way may go on after a stop.
const LEAVE: Duration = Duration::from_secs(2);

/// One turn of sending.
pub(super) struct Sending<'a> {
    sender: &'a WebhookSender,
    installation: &'a Installation,
    stop: &'a CancellationToken,
    lanes: Lanes,
    /// When it began: lanes count from here.
    began: Instant,
    running: JoinSet<Ended>,
    /// The attempts that run, and the places of their messages.
    under_way: HashMap<u64, u64>,
    /// Where the next page begins.
    after: Option<WebhookId>,
    pruned: Option<Instant>,
}

/// An attempt that is over.
struct Ended {
    attempt: u64,
    attempted: Attempted,
}

impl<'a> Sending<'a> {
    pub(super) fn new(
        sender: &'a WebhookSender,
        installation: &'a Installation,
        stop: &'a CancellationToken,
    ) -> Self {
        Self {
            sender,
            installation,
            stop,
            lanes: Lanes::new(sender.sizes),
            began: Instant::now(),
            running: JoinSet::new(),
            under_way: HashMap::new(),
            after: None,
            pruned: None,
        }
    }

    /// Sends until the stop.
    pub(super) async fn run(mut self) {
        let secret = loop {
            match self.installation.keys.installation_secret().await {
                Ok(secret) => break secret,
                Err(error) => {
                    complain(&error);
                    if self.stopped_within(RETRY).await {
                        return;
                    }
                }
            }
        };
        while !self.stop.is_cancelled() {
            let is_more = match self.once(&secret).await {
                Ok(is_more) => is_more,
                Err(error) => {
                    complain(&error);
                    if self.stopped_within(RETRY).await {
                        break;
                    }
                    true
                }
            };
            if is_more {
                continue;
            }
            let outbox = &self.installation.outbox;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                ended = self.running.join_next(), if !self.running.is_empty() => {
                    let ended: Vec<Ended> = ended.into_iter().filter_map(Result::ok).collect();
                    self.note(ended).await.unwrap_or_else(|error| complain(&error));
                }
                () = outbox.arrived() => {}
                () = sleep(LOOK) => {}
            }
        }
        self.leave().await;
    }

    /// Notes what ended, begins what is due, and forgets what is over; whether more is due than was looked at.
    async fn once(&mut self, secret: &[u8; 32]) -> Result<bool, WebhooksError> {
        self.note(Vec::new()).await?;
        let is_more = self.begin_due(secret).await?;
        let is_due = |pruned: Instant| pruned.elapsed() >= PRUNE;
        if self.pruned.is_none_or(is_due) {
            self.prune().await?;
            self.pruned = Some(Instant::now());
        }
        Ok(is_more)
    }

    /// Begins what is due, as far as there is room; whether there may be more.
    async fn begin_due(&mut self, secret: &[u8; 32]) -> Result<bool, WebhooksError> {
        let mut begun = 0;
        for _ in 0..PAGES {
            if self.lanes.is_full() {
                return Ok(false);
            }
            let query = DueQuery {
                after: self.after,
                skip: self.lanes.busy().collect(),
                under_way: self.under_way.values().copied().collect(),
                webhooks: PAGE,
                of_each: OF_EACH,
            };
            let page = self
                .installation
                .outbox
                .due(&query, Timestamp::now())
                .await?;
            for due in page.due {
                let room = self.lanes.room(&due.webhook, self.began.elapsed());
                for delivery in due.deliveries.into_iter().take(room) {
                    self.begin(secret, due.webhook.clone(), delivery);
                    begun += 1;
                }
            }
            self.after = page.next;
            if self.after.is_none() {
                return Ok(false);
            }
        }
        // Where none of these found a place, the rest is looked at when one is free.
        Ok(begun > 0)
    }

    fn begin(&mut self, secret: &[u8; 32], webhook: Webhook, delivery: Delivery) {
        let id = self.lanes.begin(&webhook, self.began.elapsed());
        self.under_way.insert(id, delivery.place);
        self.sender
            .metrics
            .under_way
            .set(whole(self.under_way.len()));
        let (sender, secret) = (self.sender.clone(), *secret);
        self.running.spawn(async move {
            let is_refused = webhook.url.as_str().starts_with("http://")
                && !is_private(&webhook.url, &sender.private_hosts);
            let outcome = match is_refused {
                true => failed(
                    "plain http is for the hosts of `webhook_private_hosts` alone; use https"
                        .to_owned(),
                ),
                false => {
                    let now = Timestamp::now();
                    attempt(&sender.client, &secret, &webhook, &delivery, now).await
                }
            };
            Ended {
                attempt: id,
                attempted: Attempted {
                    webhook: delivery.webhook,
                    place: delivery.place,
                    attempts_before: delivery.attempts,
                    outcome,
                    at: Timestamp::now(),
                },
            }
        });
    }

    /// Notes attempts that are over: these, and all others by now.
    async fn note(&mut self, mut ended: Vec<Ended>) -> Result<(), WebhooksError> {
        while let Some(next) = self.running.try_join_next() {
            ended.extend(next.ok());
        }
        if ended.is_empty() {
            return Ok(());
        }
        let now = self.began.elapsed();
        for one in &ended {
            let was_taken = matches!(one.attempted.outcome, AttemptOutcome::Delivered { .. });
            self.lanes.end(one.attempt, was_taken, now);
            let outcome = match was_taken {
                true => "delivered",
                false => "failed",
            };
            self.sender.metrics.of(outcome).inc();
        }
        let attempts = ended.iter().map(|one| one.attempted.clone()).collect();
        let noted = self.installation.outbox.note(attempts).await;
        // Until they are noted they are not due again; if they cannot be, they are sent again.
        for one in &ended {
            self.under_way.remove(&one.attempt);
        }
        self.sender
            .metrics
            .under_way
            .set(whole(self.under_way.len()));
        for webhook in noted? {
            tracing::warn!(
                webhook.id = %webhook.id,
                account = %webhook.account,
                state = ?webhook.state,
                "a webhook was disabled; see `webhook deliveries`, and enable it again with `webhook enable`"
            );
        }
        Ok(())
    }

    async fn prune(&self) -> Result<(), WebhooksError> {
        let now = Timestamp::now();
        let before = |kept| now.checked_sub(kept).unwrap_or(Timestamp::MIN);
        loop {
            let (delivered, disabled) = (before(KEEP_DELIVERED), before(KEEP_DISABLED));
            let outbox = &self.installation.outbox;
            let pruned = outbox.prune(delivered, disabled, PRUNE_STEP, now).await?;
            if pruned < PRUNE_STEP || self.stop.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Lets what is under way end, and notes it, so that little is sent again.
    async fn leave(&mut self) {
        let end = Instant::now() + LEAVE;
        let mut ended = Vec::new();
        while let Ok(Some(next)) = timeout(
            end.saturating_duration_since(Instant::now()),
            self.running.join_next(),
        )
        .await
        {
            ended.extend(next.ok());
        }
        self.running.abort_all();
        if let Err(error) = self.note(ended).await {
            complain(&error);
        }
        self.sender.metrics.under_way.set(0);
    }

    async fn stopped_within(&self, pause: Duration) -> bool {
        timeout(pause, self.stop.cancelled()).await.is_ok()
    }
}

fn complain(error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(
        error,
        "the messages to webhooks cannot be sent now; trying again"
    );
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
