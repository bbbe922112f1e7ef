//! The live stream of an account: every change of its jobs, for lists that are kept up to date.
//!
//! It begins with `sync`: the reader reads the list then, and `job` events tell what changes from there on. A reader that is
//! too slow for the bounded ring of its account gets `sync` again, and reads the list again.

use std::sync::Arc;
use std::time::Duration;

use accounts::Scope;
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper_kit::{Body, sse};
use tokio_util::sync::CancellationToken;
use workflow_core::{AccountEvent, AccountFollower, AccountTold, JobView, Timer};

use super::call::Call;
use super::errors::ApiError;
use super::reply;
use super::wire::JobItemBody;
use crate::credential::StreamCredential;
use crate::links::Links;
use crate::streams::StreamSlot;

/// How often a quiet stream says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// GET /events.
pub(crate) fn follow(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let (service, principal) = (call.service, &call.principal);
    if call.head.method == Method::HEAD {
        let mut response = reply::empty(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        return Ok(response);
    }
    let slot = call
        .streams
        .open(&principal.account, principal.tier.streams);
    let telling = Telling {
        follower: service.jobs.follow_account(&principal.account),
        links: call.links.clone(),
        drain: service.drain.clone(),
        clock: Arc::clone(&service.clock),
        credential: StreamCredential::new(
            &service.identity,
            &call.head.headers,
            principal,
            Scope::JobsRead,
        ),
        _slot: slot.ok_or(ApiError::TooManyStreams)?,
    };
    let events = sse::with_heartbeat(telling.into_stream(), HEARTBEAT);
    Ok(sse::sse_response(events))
}

/// One stream between two of its events.
struct Telling {
    follower: AccountFollower,
    links: Links,
    drain: CancellationToken,
    clock: Arc<dyn Timer>,
    credential: StreamCredential,
    _slot: StreamSlot,
}

impl Telling {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut telling| async move {
            let event = telling.next().await?;
            Some((event, telling))
        })
    }

    /// The next event; `None` when the server drains, or what the caller presented counts no more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let holds = tokio::select! {
                biased;
                () = self.drain.cancelled() => false,
                holds = self.credential.holds(self.clock.now()) => holds,
            };
            if !holds {
                return None;
            }
            let told = tokio::select! {
                told = self.follower.next() => told,
                () = self.credential.due() => continue,
                () = self.drain.cancelled() => return None,
            };
            match told {
                AccountTold::Snapshot(_) => return Some(sse::event("sync", "{}")),
                AccountTold::News(news) => {
                    let AccountEvent::Saved(job) = &news.event else {
                        continue;
                    };
                    let view = JobView {
                        job: Arc::clone(job),
                        progress: job.progress.clone(),
                        queue_position: None,
                    };
                    let item = JobItemBody::without_outputs(&view, &self.links);
                    let mut item = serde_json::to_value(&item).unwrap_or_default();
                    // There may be thousands of them: who wants them reads the job.
                    item.as_object_mut().map(|fields| fields.remove("outputs"));
                    return Some(reply::event("job", &item));
                }
            }
        }
    }
}
