//! The live stream of a job: server-sent events made from the newest snapshot whenever the client takes some.
//!
//! There is no task, queue or timer per stream beyond the one future that its connection polls. Saved first, told after:
//! what is told here stands in the rows already.

use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Scope};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, Stream, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper_kit::{Body, sse};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use workflow_core::{Follower, JobId, JobStatus, JobView, Jobs, Timer};

use super::call::Call;
use super::errors::ApiError;
use super::jobs::job_id;
use super::reply;
use super::stream_cursor::{News, StreamCursor};
use super::wire::{OutputBody, PreviewBody, ProgressBody, StatusBody};
use crate::credential::StreamCredential;
use crate::links::Links;
use crate::streams::StreamSlot;

/// How often a quiet stream says that it is alive; clients take 45 s without a byte for its end.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The shortest time between two tellings of progress or pictures.
const PACE: Duration = Duration::from_millis(500);

/// GET /jobs/{id}/events.
pub(crate) async fn follow(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let id = job_id(call)?;
    let (service, principal) = (call.service, &call.principal);
    if call.head.method == Method::HEAD {
        service.jobs.get(&principal.account, id, call.now).await?;
        let mut response = reply::empty(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        return Ok(response);
    }
    let followed = service.jobs.follow(&principal.account, id, call.now);
    let (view, mut follower) = followed.await?;
    // Only now: a job that is not there is that, however many streams are open.
    let slot = call
        .streams
        .open(&principal.account, principal.tier.streams);
    let slot = slot.ok_or(ApiError::TooManyStreams)?;
    let (cursor, first) = StreamCursor::begin(&view, &follower.latest());
    let teller = Teller {
        jobs: service.jobs.clone(),
        clock: Arc::clone(&service.clock),
        account: principal.account.clone(),
        links: call.links.clone(),
        _slot: slot,
    };
    let first = teller.spell(id, &first, Some(&view)).await;
    let telling = Telling {
        id,
        over: view.job.status.is_terminal(),
        drain: service.drain.clone(),
        teller,
        cursor,
        follower,
        first: Some(first),
        credential: StreamCredential::new(
            &service.identity,
            &call.head.headers,
            principal,
            Scope::JobsRead,
        ),
        paced_until: Instant::now() + PACE,
    };
    let events = sse::with_heartbeat(telling.into_stream(), HEARTBEAT);
    Ok(sse::sse_response(events))
}

/// One stream between two of its events.
struct Telling {
    id: JobId,
    over: bool,
    drain: CancellationToken,
    teller: Teller,
    cursor: StreamCursor,
    follower: Follower,
    first: Option<Bytes>,
    credential: StreamCredential,
    paced_until: Instant,
}

impl Telling {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut telling| async move {
            let events = telling.next().await?;
            Some((events, telling))
        })
    }

    /// The next events, as many as there are news; `None` when the stream is over, the server drains, or what the caller presented
    /// counts no more.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.over {
            let holds = tokio::select! {
                biased;
                () = self.drain.cancelled() => false,
                holds = self.credential.holds(self.teller.clock.now()) => holds,
            };
            if !holds {
                return None;
            }
            let live = self.follower.latest();
            let in_time = Instant::now() >= self.paced_until;
            let news = self.cursor.take(&live, in_time);
            if news.iter().any(is_paced) {
                self.paced_until = Instant::now() + PACE;
            }
            self.over = matches!(news.last(), Some(News::Over(_)));
            if !news.is_empty() {
                return Some(self.teller.spell(self.id, &news, None).await);
            }
            let is_behind = self.cursor.is_behind(&live);
            tokio::select! {
                () = self.follower.changed() => {}
                () = sleep_until(self.paced_until), if is_behind => {}
                () = self.credential.due() => {}
                () = self.drain.cancelled() => return None,
            }
        }
        None
    }
}

fn is_paced(news: &News) -> bool {
    match news {
        News::Progress(_) | News::Preview(_) => true,
        News::Status(_) | News::Output(_) | News::Over(_) => false,
    }
}

/// Spells news, with links that are fresh when they are told.
struct Teller {
    jobs: Jobs,
    clock: Arc<dyn Timer>,
    account: AccountId,
    links: Links,
    _slot: StreamSlot,
}

impl Teller {
    async fn spell(&self, id: JobId, news: &[News], view: Option<&JobView>) -> Bytes {
        let now = self.clock.now();
        let mut frames = BytesMut::new();
        for news in news {
            let frame = match news {
                News::Status(status) => {
                    let position = match view {
                        Some(view) => view.queue_position,
                        None => self.queue_position(id, *status).await,
                    };
                    reply::event("status", &StatusBody::live(*status, position))
                }
                News::Progress(progress) => reply::event("progress", &ProgressBody::from(progress)),
                News::Output(output) => {
                    reply::event("output", &OutputBody::new(output, id, &self.links, now))
                }
                News::Preview(preview) => reply::event("preview", &PreviewBody::from(&**preview)),
                News::Over(job) => {
                    reply::event("status", &StatusBody::terminal(job, &self.links, now))
                }
            };
            frames.extend_from_slice(&frame);
        }
        frames.freeze()
    }

    /// The place of a job that was given back to the queue. A stream is an extra: where the place cannot be told, it is not.
    async fn queue_position(&self, id: JobId, status: JobStatus) -> Option<u64> {
        if status != JobStatus::Queued {
            return None;
        }
        // On the heap, since next to no stream comes here.
        let view = self.jobs.get(&self.account, id, self.clock.now()).boxed();
        view.await.ok().and_then(|view| view.queue_position)
    }
}
