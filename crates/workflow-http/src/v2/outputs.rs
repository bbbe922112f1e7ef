//! Jobs with thousands of outputs, spelled while they are sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use accounts::AccountId;
use hyper_kit::KeyedPermit;
use jiff::Timestamp;
use serde::Serialize;
use workflow_core::{Job, JobView};

use super::wire::{JobBody, JobItemBody, OutputBody};
use crate::links::Links;
use crate::pieces::{PIECE, Pieces};

/// What stands where the outputs of a job go; nothing else in it can be spelled so.
const NONE: &str = "\"outputs\":[]";

/// Parts of an answer: texts, and the outputs of jobs between them.
pub(super) struct Spelled {
    parts: VecDeque<Part>,
    links: Links,
    now: Timestamp,
    _room: Option<KeyedPermit<AccountId>>,
}

enum Part {
    Text(String),
    /// The outputs of a job from this one on.
    Outputs(Arc<Job>, usize),
}

impl Spelled {
    /// Nothing yet; `room` is what the jobs take that will be in it.
    pub(super) fn new(links: &Links, now: Timestamp, room: Option<KeyedPermit<AccountId>>) -> Self {
        Self {
            parts: VecDeque::new(),
            links: links.clone(),
            now,
            _room: room,
        }
    }

    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.parts.push_back(Part::Text(text.into()));
    }

    /// A job by itself.
    pub(super) fn job(&mut self, view: &JobView) {
        let body = JobBody::without_outputs(view, &self.links);
        self.around(&body, &view.job);
    }

    /// A job in a list.
    pub(super) fn item(&mut self, view: &JobView) {
        let body = JobItemBody::without_outputs(view, &self.links);
        self.around(&body, &view.job);
    }

    fn around(&mut self, body: &impl Serialize, job: &Arc<Job>) {
        let mut text = serde_json::to_string(body).expect("wire structs have only text keys");
        let place = text.find(NONE).expect("a job without outputs says so") + NONE.len() - 1;
        let behind = text.split_off(place);
        self.text(text);
        self.parts.push_back(Part::Outputs(Arc::clone(job), 0));
        self.text(behind);
    }
}

impl Pieces for Spelled {
    type Error = Infallible;

    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Infallible> {
        match self.parts.front_mut() {
            None => return Ok(false),
            Some(Part::Text(text)) => out.extend_from_slice(text.as_bytes()),
            Some(Part::Outputs(job, next)) => {
                let until = out.len() + PIECE;
                while let Some(output) = job.outputs.get(*next) {
                    if out.len() >= until {
                        return Ok(true);
                    }
                    if *next > 0 {
                        out.push(b',');
                    }
                    *next += 1;
                    let body = OutputBody::new(output, job.id, &self.links, self.now);
                    serde_json::to_writer(&mut *out, &body)
                        .expect("bytes in memory take everything");
                }
            }
        }
        self.parts.pop_front();
        Ok(true)
    }
}
