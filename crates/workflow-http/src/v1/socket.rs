//! The WebSocket: everything that happens to the account's jobs, to every socket of the account.
//!
//! A socket has no queue of its own: the ring of its account waits for it, within bounds, and whoever falls out of it gets
//! the state as it then is. Which client id a socket names makes no difference, so two sockets of one id never meet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Accounts, Scope};
use http::Response;
use hyper_kit::{Body, Conversation, Outgoing};
use serde_json::{Value, json};
use uuid::Uuid;
use v1_compat::{Frame, Projector};
use workflow_core::{AccountFollower, AccountTold, JobId, Jobs, RunReport, Timer};

use super::about;
use super::errors::ApiError;
use super::log::Feed;
use super::request::{Call, token};
use crate::credential::StreamCredential;
use crate::streams::StreamSlot;

/// Most bytes of a client's id that is given back to it.
const MOST_CLIENT_ID: usize = 256;

/// GET /ws.
pub(super) fn open(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (service, principal) = (call.service, &call.principal);
    let slot = call
        .streams
        .open(&principal.account, principal.tier.streams);
    let slot = slot.ok_or(ApiError::TooManyStreams)?;
    let query = call.query();
    let client = query.iter().find(|(name, _)| name == "clientId");
    let client = client.map(|(_, id)| id.clone());
    let client = client.filter(|id| (1..=MOST_CLIENT_ID).contains(&id.len()));
    let sid = client.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
    let headers = &call.head.headers;
    let credential = StreamCredential::new(&service.identity, headers, principal, Scope::JobsRead);
    let credential = credential.or(headers, &call.v1.sessions, token(call.head).as_deref());
    let heard = Heard {
        jobs: service.jobs.clone(),
        clock: Arc::clone(&service.clock),
        account: principal.account.clone(),
        billed: principal.billed.then(|| Arc::clone(&service.accounts)),
        follower: service.jobs.follow_account(&principal.account),
        projector: Projector::new(),
        log: Feed::new(&call.v1.log_readers, call, &sid),
        sid: Some(sid),
        snapshot: None,
        upload_bytes: service.config.upload_bytes,
        greeted: false,
        to_say: VecDeque::new(),
        credential,
        _slot: slot,
    };
    Ok(call.v1.sockets.accept(call.head, heard)?)
}

/// One socket between two of its messages.
struct Heard {
    jobs: Jobs,
    clock: Arc<dyn Timer>,
    account: AccountId,
    /// Tells what the account has, where it is billed.
    billed: Option<Arc<dyn Accounts>>,
    follower: AccountFollower,
    projector: Projector,
    log: Feed,
    /// Sent once, with the first message; before that nothing is said.
    sid: Option<String>,
    /// What runs told so far, until the rows that belong to it are read.
    snapshot: Option<Vec<(JobId, RunReport)>>,
    /// The largest upload, as the flags tell it: most sockets never ask for them.
    upload_bytes: u64,
    /// Whether the client said its first word.
    greeted: bool,
    /// Made and not yet taken: the messages of one piece of news.
    to_say: VecDeque<Outgoing>,
    credential: StreamCredential,
    _slot: StreamSlot,
}

impl Conversation for Heard {
    async fn next(&mut self) -> Option<Outgoing> {
        // Whatever is taken from the ring is kept here first: this may be dropped at every `await` and is called again.
        loop {
            if self.snapshot.is_some() {
                // The snapshot first, the rows after: what changes in between is told as news.
                let now = self.clock.now();
                let jobs = match self.jobs.in_flight(&self.account, now).await {
                    Ok(jobs) => jobs,
                    Err(error) => {
                        tracing::warn!(%error, "a socket was closed because the queue cannot be read");
                        return None;
                    }
                };
                let (reports, sid) = (self.snapshot.take().unwrap_or_default(), self.sid.take());
                let frames = self.projector.begin(&jobs, reports, sid.as_deref());
                // An answer to the client's first word waits behind the first message.
                let waiting = std::mem::take(&mut self.to_say);
                self.to_say = frames.into_iter().map(outgoing).chain(waiting).collect();
            }
            if self.sid.is_none()
                && let Some(said) = self.to_say.pop_front()
            {
                return Some(said);
            }
            if let Some(accounts) = self
                .billed
                .as_ref()
                .filter(|_| self.projector.asks_credits())
            {
                let credits = accounts.credits(&self.account, self.clock.now()).await;
                // Nothing is told of what cannot be read: the run itself meets that.
                let available = credits.map_or(i64::MAX, |credits| credits.available_cents());
                let told = self.projector.credits(available);
                self.to_say.extend(told.into_iter().map(outgoing));
                continue;
            }
            let tells_in = self.projector.tells_at().map(|at| {
                let wait = at.duration_since(self.clock.now());
                Duration::try_from(wait).unwrap_or_default()
            });
            let sleep = async {
                match tells_in {
                    Some(wait) => self.clock.sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let told = tokio::select! {
                biased;
                told = self.follower.next() => told,
                () = sleep => {
                    let frames = self.projector.waiting(self.clock.now());
                    self.to_say.extend(frames.into_iter().map(outgoing));
                    continue;
                }
            };
            match told {
                AccountTold::Snapshot(reports) => self.snapshot = Some(reports),
                AccountTold::News(news) => {
                    let ended = self.projector.ended_by(&news);
                    let frames = self.projector.news(&news);
                    self.to_say.extend(frames.into_iter().map(outgoing));
                    let line = ended.and_then(|job| self.log.ended(job, self.clock.now()));
                    let line = line.map(|line| Outgoing::Text(line.into()));
                    self.to_say.extend(line);
                }
            }
        }
    }

    async fn may_stay(&mut self) -> bool {
        self.credential.counts(self.clock.now()).await
    }

    fn hear(&mut self, text: &str) {
        // What is no object does not count as a first word, and nothing else is listened to.
        let Ok(Value::Object(message)) = json_text::read_str(text) else {
            return;
        };
        let first = !std::mem::replace(&mut self.greeted, true);
        if !first || message.get("type").and_then(Value::as_str) != Some("feature_flags") {
            return;
        }
        self.log.is_of_a_page();
        let wants = message
            .get("data")
            .and_then(|data| data.get("supports_preview_metadata"));
        self.projector
            .set_metadata(wants == Some(&Value::Bool(true)));
        let flags = about::flags(self.upload_bytes);
        let answer = json!({"type": "feature_flags", "data": flags});
        self.to_say
            .push_back(Outgoing::Text(answer.to_string().into()));
    }
}

fn outgoing(frame: Frame) -> Outgoing {
    match frame {
        Frame::Text(text) => Outgoing::Text(text.into()),
        Frame::Binary { head, rest } => Outgoing::Binary(head, rest),
    }
}
