//! One model behind a partner's API.

mod discreet;
mod failures;
mod gaps;
mod streaming;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Uri};
use jiff::civil::Date;
use router_core::{
    Collected, Contact, Done, Failure, GenerationId, Handle, Price, PricedMember, Provider,
    Submission, Submitted, Term, Timer, Violation,
};
use serde_json::Value;
use uuid::fmt::Hyphenated;

use crate::body_member;
use crate::definition::{Ask, Escaping, Events, Header, Polled, Send, Target, Template};
use crate::fill::Fill;
use crate::handle::TaskHandle;
use crate::interpret::{Dialect, Document, Reading, Reply, SubmitReading, Task, keep, next_look};
use crate::keys::{ChosenKey, FIRST_KEY, Outcome};
use crate::multipart;
use crate::talk::{Address, Egress, ExchangeRecorder, Outgoing, Trouble};
use failures::{failed, not_admitted, not_content, not_submitted};
use gaps::Gaps;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const TOO_LARGE: &str = "the provider's answer is larger than the router takes";
const UNREADABLE: &str = "the provider's answer cannot be interpreted";
const WRONG_ADDRESS: &str = "the provider named an address that the router does not ask";
const MISCONFIGURED: &str = "the model is not configured correctly; inform the operator";

/// A model that a partner runs.
#[derive(Clone)]
pub struct PartnerModel {
    /// The partner, for logs.
    pub(crate) partner: Arc<str>,
    /// The second segment of the id.
    pub(crate) model: Arc<str>,
    pub(crate) base_url: String,
    /// Where submissions go, if that is the same for all of them.
    pub(crate) submit_address: Option<Uri>,
    pub(crate) headers: BTreeMap<Header, Template>,
    pub(crate) values: BTreeMap<String, String>,
    /// Members that the body gets if the caller leaves them out.
    pub(crate) fill: Fill,
    pub(crate) dialect: Dialect,
    /// On which day the documentation was read that its file follows.
    pub(crate) read_on: Option<Date>,
    pub(crate) egress: Egress,
    pub(crate) timer: Arc<dyn Timer>,
}

impl PartnerModel {
    /// The same model, with everything that is said noted.
    #[must_use]
    pub fn tapped(&self, recorder: ExchangeRecorder) -> Self {
        let mut tapped = self.clone();
        tapped.egress.recorder = Some(recorder);
        tapped
    }

    /// Looks once and for all where submissions go, if nothing in that is of a submission.
    pub(crate) fn settle_address(&mut self) {
        let path = &self.dialect.call.submit.path;
        let of_model = |name: &str| match name {
            "generation" | "task" => None,
            "model" => Some(&*self.model),
            _ => self.values.get(name).map(String::as_str),
        };
        let filled = path.fill(Escaping::Path, of_model).ok();
        let url = filled.map(|path| [self.base_url.as_str(), &path].concat());
        // What cannot be filled or vetted fails with the request, and says why.
        self.submit_address = url.and_then(|url| self.egress.vet(Address::Told(url)).ok());
    }

    /// Its key is still to be chosen. `streams` are the events of a submission that asks for a stream.
    fn submission(
        &self,
        submission: Submission,
        streams: Option<&Events>,
    ) -> Result<Outgoing, Failure> {
        let nothing = BTreeMap::new();
        let (id, mut text) = (submission.generation.0, [0; Hyphenated::LENGTH]);
        let generation = id.hyphenated().encode_lower(&mut text);
        let gaps = Gaps {
            model: self,
            generation,
            task: None,
            kept: &nothing,
        };
        let submit = &self.dialect.call.submit;
        let path_of_streams = streams.and_then(|events| events.path.as_ref());
        let address = match (&self.submit_address, path_of_streams) {
            (Some(address), None) => Address::Vetted(address.clone()),
            (_, path) => {
                let path = gaps.fill(path.unwrap_or(&submit.path), Escaping::Path)?;
                Address::Told([self.base_url.as_str(), &path].concat())
            }
        };
        let headers = gaps.headers([&self.headers, &submit.headers])?;
        let own_word = self.dialect.events.as_ref();
        let body = match own_word.filter(|events| events.path.is_some()) {
            Some(events) => body_member::without(&submission.body, &events.asked_by),
            None => submission.body,
        };
        let filled = self.fill.applied(body, generation);
        let filled = filled.map_err(|message| not_content("model", message))?;
        let body = match &submit.body {
            Send::Passthrough => (filled, JSON),
            Send::Wrap(wrap) => {
                let parts = [wrap.before.as_bytes(), &filled, wrap.after.as_bytes()];
                (Bytes::from(parts.concat()), JSON)
            }
            Send::MultipartFromJson(form) => {
                let boundary = format!("easel-{generation}");
                multipart::of_json(&filled, form, &boundary)
                    .map_err(|error| not_content("form", error.to_string()))?
            }
        };
        // Of a task only its name can be asked after, which comes with the answer.
        let is_all_there_is = self.dialect.call.polled.is_none();
        Ok(Outgoing {
            key: FIRST_KEY,
            method: submit.method.into(),
            address,
            headers,
            body: Some(body),
            written: is_all_there_is.then_some(submission.contact),
            timeout: Duration::from_millis(self.dialect.call.timeouts.submit_ms),
            max_answer_bytes: self.dialect.call.max_answer_bytes,
        })
    }

    fn question(
        &self,
        ask: &Ask,
        task: &TaskHandle,
        kept: &BTreeMap<String, String>,
    ) -> Result<Outgoing, Failure> {
        let gaps = Gaps {
            model: self,
            generation: &task.generation,
            task: Some(&task.task),
            kept,
        };
        let url = match &ask.target {
            Target::Path(path) => {
                [self.base_url.as_str(), &gaps.fill(path, Escaping::Path)?].concat()
            }
            Target::Url(url) => gaps.fill(url, Escaping::Verbatim)?,
        };
        let headers = gaps.headers([&self.headers, &ask.headers])?;
        let body = match &ask.body {
            Some(body) => {
                let json = gaps.fill(body, Escaping::Json)?;
                Some((Bytes::from(json), JSON))
            }
            None => None,
        };
        Ok(Outgoing {
            key: task.key,
            method: ask.method.clone(),
            address: Address::Told(url),
            headers,
            body,
            written: None,
            timeout: Duration::from_millis(self.dialect.call.timeouts.ask_ms),
            max_answer_bytes: self.dialect.call.max_answer_bytes,
        })
    }

    fn send(&self, outgoing: Outgoing) -> impl Future<Output = Result<Reply, Trouble>> {
        let sending = self.egress.send(outgoing, self.timer.now());
        sending.inspect(|result| self.tell(result))
    }

    /// Logs what came of an exchange.
    fn tell(&self, result: &Result<Reply, Trouble>) {
        match result {
            Ok(reply) => {
                let (partner, model, status) = (&*self.partner, &*self.model, reply.status);
                tracing::debug!(partner, model, status, "the partner answered");
            }
            Err(trouble) => self.troubled(trouble),
        }
    }

    /// Logs why there is no answer, or not all of it.
    fn troubled(&self, trouble: &Trouble) {
        let (partner, model) = (&*self.partner, &*self.model);
        if let Trouble::Refused(refused) = trouble {
            let host = &*refused.host;
            tracing::error!(partner, model, host, "the address is refused");
        } else {
            tracing::warn!(partner, model, error = %trouble, "no answer of the partner");
        }
    }

    /// Failures that the operator must act on are logged: the account at the partner is the operator's, not the caller's.
    fn logged(&self, failure: Failure) -> Failure {
        let cause = if let Failure::InStream { cause, .. } = &failure {
            cause
        } else {
            &failure
        };
        if let Failure::Account { .. } = cause {
            let (partner, model) = (&*self.partner, &*self.model);
            tracing::error!(partner, model, "the partner refuses this router's account");
        }
        failure
    }

    /// Begins to send a submission. What comes of it is waited for without the submission, and without what it was made into.
    fn begin_submission(
        &self,
        mut submission: Submission,
    ) -> Result<BoxFuture<'_, Result<Submitted, Failure>>, Failure> {
        let generation = submission.generation;
        let contact = submission.contact.clone();
        let stream = self.dialect.events.as_ref().zip(submission.stream.take());
        let events = stream.as_ref().map(|(events, _)| *events);
        let mut outgoing = self.submission(submission, events)?;
        let chosen = self.egress.keys.choose(random, Instant::now());
        let chosen = chosen.map_err(not_admitted)?;
        outgoing.key = chosen.number;
        if let Some((events, sink)) = stream {
            let streaming = async move {
                let told = (sink, &contact);
                self.stream(outgoing, events, told, (generation, chosen))
                    .await
            };
            return Ok(streaming.boxed());
        }
        let sending = self.send(outgoing).map(move |result| {
            if let Ok(reply) = &result {
                contact.answered(reply.status);
            }
            self.finish_submission(result, (generation, &chosen))
        });
        Ok(sending.boxed())
    }

    /// Reads what came of a submission, and counts it for the key.
    fn finish_submission(
        &self,
        result: Result<Reply, Trouble>,
        (generation, chosen): (GenerationId, &ChosenKey),
    ) -> Result<Submitted, Failure> {
        let told = outcome(result.as_ref());
        let submitted = match result {
            Ok(reply) => self.submitted(reply, (generation, chosen.number)),
            Err(trouble) => Err(not_submitted(&trouble)),
        };
        let outcome = match &submitted {
            Err(Failure::Account { .. }) => Some(Outcome::Refused),
            Ok(_) | Err(_) => told,
        };
        self.egress.keys.record(chosen, outcome, Instant::now());
        submitted
    }

    /// Reads the answer to a submission.
    fn submitted(
        &self,
        reply: Reply,
        (generation, key): (GenerationId, u8),
    ) -> Result<Submitted, Failure> {
        let reading = self.dialect.read_submit(reply);
        match reading.map_err(|failure| self.logged(self.discreet(failure)))? {
            SubmitReading::Result { reply, charge } => Ok(Submitted::Done(Done {
                answer: reply.into_answer(),
                charge,
                task_id: None,
            })),
            SubmitReading::Accepted(task) => match &self.dialect.call.polled {
                Some(polled) => self.accepted(polled, task, (generation, key)),
                None => Err(failed(UNREADABLE)),
            },
        }
    }

    /// A task that was just accepted, as it is kept.
    fn accepted(
        &self,
        polled: &Polled,
        task: Task,
        (generation, key): (GenerationId, u8),
    ) -> Result<Submitted, Failure> {
        let handle = TaskHandle::new(
            task.id,
            task.kept,
            generation.to_string(),
            task.settled_cents,
            key,
            self.timer.now(),
        );
        // Better to know now than never to get the result.
        let first = self.question(&polled.poll, &handle, &handle.kept)?;
        self.egress.vet(first.address).map_err(|refused| {
            tracing::error!(
                partner = &*self.partner,
                host = refused.host,
                "the address is refused"
            );
            failed(WRONG_ADDRESS)
        })?;
        let poll_after = next_look(&polled.pace, Duration::ZERO, None, random());
        Ok(Submitted::Accepted {
            handle: handle.to_handle().ok_or_else(|| failed(UNREADABLE))?,
            task_id: Some(handle.task),
            poll_after,
        })
    }

    /// Looks at a task once, and takes the steps to its result when it is done.
    async fn look(
        &self,
        polled: &Polled,
        task: &TaskHandle,
        contact: &Contact,
    ) -> Result<Look, Failure> {
        let question = self.question(&polled.poll, task, &task.kept)?;
        let Some(reply) = self.asked(question, contact).await? else {
            return Ok(Look::Pending(None));
        };
        if matches!(reply.status, 401..=403) {
            let (partner, status) = (&*self.partner, reply.status);
            tracing::warn!(
                partner,
                status,
                "the partner's answer does not have the state of a task"
            );
        }
        let retry_after = reply.retry_after;
        let elapsed = task.elapsed(self.timer.now());
        let (mut reply, mut document) = match self.dialect.read_poll(polled, reply, elapsed)? {
            Reading::Pending => return Ok(Look::Pending(retry_after)),
            Reading::Done(reply, document) => (reply, document),
        };
        let mut kept = task.kept.clone();
        for step in &polled.result {
            let Some(more) = keep(&step.keep, document.value()) else {
                return Err(failed(UNREADABLE));
            };
            kept.extend(more);
            let question = self.question(&step.ask, task, &kept)?;
            let Some(answer) = self.asked(question, contact).await? else {
                return Ok(Look::Pending(None));
            };
            let retry_after = answer.retry_after;
            (reply, document) = match self.dialect.read_result(polled, answer, elapsed)? {
                Reading::Pending => return Ok(Look::Pending(retry_after)),
                Reading::Done(reply, document) => (reply, document),
            };
        }
        Ok(Look::Done(reply, document))
    }

    /// Asks something that changes nothing at the partner; `None` when there is trouble that may pass.
    async fn asked(&self, question: Outgoing, contact: &Contact) -> Result<Option<Reply>, Failure> {
        match self.send(question).await {
            Ok(reply) => {
                contact.answered(reply.status);
                Ok(Some(reply))
            }
            Err(Trouble::Refused(_)) => Err(failed(WRONG_ADDRESS)),
            Err(Trouble::TooLarge(_)) => Err(failed(TOO_LARGE)),
            Err(Trouble::Encoding) => Err(failed(UNREADABLE)),
            Err(Trouble::Unsent(_) | Trouble::TimedOut | Trouble::Broken(_)) => Ok(None),
        }
    }
}

/// What one look found.
enum Look {
    /// Ask again, perhaps not before this.
    Pending(Option<Duration>),
    /// The result.
    Done(Reply, Document),
}

#[async_trait]
impl Provider for PartnerModel {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure> {
        self.begin_submission(submission)?.await
    }

    async fn collect(&self, handle: &Handle, contact: &Contact) -> Result<Collected, Failure> {
        let task = TaskHandle::from_handle(handle).ok_or_else(|| failed(UNREADABLE))?;
        let polled = self.dialect.call.polled.as_ref();
        let polled = polled.ok_or_else(|| failed(MISCONFIGURED))?;
        let look = self.look(polled, &task, contact).await;
        match look.map_err(|failure| self.discreet(failure))? {
            Look::Pending(retry_after) => {
                let elapsed = task.elapsed(self.timer.now());
                let poll_after = next_look(&polled.pace, elapsed, retry_after, random());
                Ok(Collected::Pending { poll_after })
            }
            Look::Done(reply, document) => Ok(Collected::Done(Done {
                charge: self.dialect.charge(task.settled_cents, &document),
                answer: reply.into_answer(),
                task_id: Some(task.task),
            })),
        }
    }

    async fn cancel(&self, handle: &Handle) {
        let polled = self.dialect.call.polled.as_ref();
        let cancel = polled.and_then(|polled| polled.cancel.as_ref());
        let (Some(cancel), Some(task)) = (cancel, TaskHandle::from_handle(handle)) else {
            return;
        };
        if let Ok(question) = self.question(cancel, &task, &task.kept) {
            // A best effort: what became of it was logged.
            let _ = self.send(question).await;
        }
    }

    fn refuses(&self, body: &[u8]) -> Vec<Violation> {
        let mut refused = self.fill.violations(body);
        if let Send::MultipartFromJson(form) = &self.dialect.call.submit.body {
            refused.extend(multipart::violations(body, form));
        }
        refused
    }

    fn price(&self, body: &Value) -> Price {
        self.dialect.pricing.quote(body)
    }

    fn priced_by(&self) -> Option<Term<Arc<dyn PricedMember>>> {
        self.dialect.pricing.calculation()
    }

    fn streams(&self, body: &Value) -> bool {
        let events = self.dialect.events.as_ref();
        events.is_some_and(|events| events.are_asked_for(body))
    }

    fn priced_as_of(&self) -> Option<Date> {
        self.read_on
    }
}

impl std::fmt::Debug for PartnerModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartnerModel({}/{})", self.partner, self.model)
    }
}

/// What an answer to a submission says of its key, whatever is read in it; `None` where nothing was sent for a reason of our own.
fn outcome(result: Result<&Reply, &Trouble>) -> Option<Outcome> {
    match result {
        Ok(reply) => Some(match reply.status {
            429 => Outcome::Busy(reply.retry_after),
            500.. => Outcome::Failed,
            _ => Outcome::Served,
        }),
        Err(Trouble::Unsent(_) | Trouble::TimedOut | Trouble::Broken(_)) => Some(Outcome::Failed),
        // It served something.
        Err(Trouble::TooLarge(_) | Trouble::Encoding) => Some(Outcome::Served),
        Err(Trouble::Refused(_)) => None,
    }
}

/// A number from 0 to below 1, for chance alone.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
