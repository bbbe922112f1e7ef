//! A submission whose answer comes as a stream: bytes go to the caller as they come, and are read beside that.

use std::time::Instant;

use router_core::{AnswerSink, Contact, Done, Failure, GenerationId, Submitted};

use super::failures::{failed, not_submitted};
use super::{PartnerModel, UNREADABLE};
use crate::definition::Events;
use crate::interpret::{StreamEnd, StreamReader};
use crate::keys::{ChosenKey, Outcome};
use crate::talk::Outgoing;

impl PartnerModel {
    /// Submits, and passes the stream on that answers it. A partner that answers otherwise is read as without a stream.
    pub(super) async fn stream(
        &self,
        outgoing: Outgoing,
        events: &Events,
        (mut sink, contact): (AnswerSink, &Contact),
        (generation, chosen): (GenerationId, ChosenKey),
    ) -> Result<Submitted, Failure> {
        let now = self.timer.now();
        let mut answer = match self.egress.open(outgoing, now).await {
            Ok(answer) => answer,
            Err(trouble) => {
                self.troubled(&trouble);
                return self.finish_submission(Err(trouble), (generation, &chosen));
            }
        };
        contact.answered(answer.status());
        if !answer.is_event_stream() {
            let reply = answer.whole(&self.egress, now).await;
            self.tell(&reply);
            return self.finish_submission(reply, (generation, &chosen));
        }
        answer.tell_head(&self.egress);
        sink.begin(answer.content_type());
        let mut reader = StreamReader::new(&self.dialect, events);
        let mut has_begun = false;
        let broken = loop {
            match answer.next().await {
                Ok(Some(bytes)) => {
                    has_begun |= !bytes.is_empty();
                    answer.tell_more(&self.egress, &bytes);
                    sink.pass(bytes.clone()).await;
                    reader.feed(&bytes);
                }
                Ok(None) => break None,
                Err(trouble) => break Some(trouble),
            }
        };
        answer.tell_end(&self.egress, broken.as_ref());
        if let Some(trouble) = &broken {
            self.troubled(trouble);
        }
        let outcome = match has_begun {
            true => Outcome::Served,
            false => Outcome::Failed,
        };
        self.egress
            .keys
            .record(&chosen, Some(outcome), Instant::now());
        let failure = match (broken, has_begun) {
            (Some(trouble), false) => not_submitted(&trouble),
            (None, false) => failed(UNREADABLE),
            (Some(trouble), true) => reader.broken(not_submitted(&trouble)),
            (None, true) => match reader.ended() {
                StreamEnd::Result(charge) => {
                    let (partner, model) = (&*self.partner, &*self.model);
                    tracing::debug!(partner, model, "the partner ended its stream");
                    return Ok(Submitted::Done(Done {
                        answer: sink.finish(),
                        charge,
                        task_id: None,
                    }));
                }
                StreamEnd::Told(failure) => {
                    // All of it was passed on, and the caller has read there how it failed.
                    let _ = sink.finish();
                    failure
                }
                StreamEnd::Cut(failure) => failure,
            },
        };
        Err(self.logged(self.discreet(failure)))
    }
}
