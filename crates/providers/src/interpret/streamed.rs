//! What the events of a stream mean: what the call took, and whether it ended well. The bytes go to the caller meanwhile,
//! untouched.

use http::HeaderMap;
use router_core::{Charge, Failure, Ran, read_leniently};
use serde_json::Value;

use super::failure::Dialect;
use super::reply::{Document, Reply};
use super::sse::{EventParser, MAX_EVENT_BYTES};
use crate::definition::{Events, Pricing, Said, SettleOn, Step, first_match};

const NO_END: &str = "the provider ended the stream before its last event";

/// Reads a stream as it comes.
#[derive(Debug)]
pub(crate) struct StreamReader<'a> {
    parser: EventParser,
    judge: Judge<'a>,
}

/// What became of a stream whose bytes have ended.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamEnd {
    /// It is the result.
    Result(Charge),
    /// An event told a refusal or a failure.
    Told(Failure),
    /// Its last event is missing.
    Cut(Failure),
}

#[derive(Debug)]
struct Judge<'a> {
    dialect: &'a Dialect,
    events: &'a Events,
    /// What events told that the call took, where an answer that is no stream has it.
    usage: Value,
    /// The first refusal or failure that an event told.
    failure: Option<Failure>,
    had_last: bool,
}

impl<'a> StreamReader<'a> {
    /// Of a stream of these events.
    pub(crate) fn new(dialect: &'a Dialect, events: &'a Events) -> Self {
        Self {
            parser: EventParser::new(MAX_EVENT_BYTES),
            judge: Judge {
                dialect,
                events,
                usage: Value::Null,
                failure: None,
                had_last: false,
            },
        }
    }

    /// Reads what came.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let judge = &mut self.judge;
        self.parser.feed(bytes, |name, data| judge.read(name, data));
    }

    /// What the stream means, whose answer is over.
    pub(crate) fn ended(mut self) -> StreamEnd {
        let judge = &mut self.judge;
        self.parser.finish(|name, data| judge.read(name, data));
        let needs_last = judge.events.is_last("").is_some();
        if let Some(failure) = judge.failure.take() {
            return StreamEnd::Told(judge.in_stream(failure));
        }
        if needs_last && !judge.had_last {
            let cause = Failure::Failed {
                ran: Ran::Perhaps,
                message: NO_END.to_owned(),
            };
            return StreamEnd::Cut(judge.in_stream(cause));
        }
        StreamEnd::Result(Pricing::charge(judge.settled_cents()))
    }

    /// What a stream means that broke off for this cause. What an event told before counts more.
    pub(crate) fn broken(mut self, cause: Failure) -> Failure {
        let told = self.judge.failure.take();
        self.judge.in_stream(told.unwrap_or(cause))
    }
}

impl Judge<'_> {
    fn read(&mut self, name: &str, data: &[u8]) {
        if !self.events.reads(name) {
            return;
        }
        self.had_last |= self.events.is_last(name) == Some(true);
        let Some(event) = read_leniently(data) else {
            return;
        };
        self.events.add_usage(&event, &mut self.usage);
        if self.failure.is_some() {
            return;
        }
        let headers = HeaderMap::new();
        let said = Said {
            step: Step::Submit,
            status: 200,
            headers: &headers,
            document: &event,
        };
        let Some(verdict) = first_match(&self.events.guards, said) else {
            return;
        };
        let reply = Reply {
            status: 200,
            headers: Box::default(),
            retry_after: None,
            body: data.to_vec().into(),
        };
        let failure = self
            .dialect
            .work_failure(verdict, reply, &Document::Json(event));
        self.failure = Some(failure);
    }

    fn settled_cents(&self) -> Option<u64> {
        let settles = [SettleOn::Submit, SettleOn::Result];
        let pricing = &self.dialect.pricing;
        settles
            .iter()
            .find_map(|on| pricing.settled(*on, &self.usage))
    }

    /// A failure after the first byte, with what it costs.
    fn in_stream(&self, cause: Failure) -> Failure {
        let told = self.settled_cents().map(Charge::Cents);
        let charge = match &cause {
            // The catalog says that it is charged; the events may say how much.
            Failure::Policy {
                charge: Charge::AsHeld,
                ..
            } => told.unwrap_or(Charge::AsHeld),
            Failure::Policy { .. } => Charge::Cents(0),
            Failure::Refused { .. }
            | Failure::Failed { .. }
            | Failure::TimedOut { .. }
            | Failure::Account { .. }
            | Failure::Transient { .. }
            | Failure::InStream { .. } => told
                .filter(|_| self.events.bill_broken)
                .unwrap_or(Charge::Cents(0)),
        };
        Failure::InStream {
            cause: Box::new(cause),
            charge,
        }
    }
}
