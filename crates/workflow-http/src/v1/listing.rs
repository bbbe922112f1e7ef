//! Jobs with what lies beside them, as the lists of this family need them: one at a time.
//!
//! A list is a sequence of texts and jobs. What is known of a job before its turn is a few numbers; its graph, its outputs and
//! what its run told are in memory while it is sent, and count among what the account may hold.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use accounts::AccountId;
use hyper_kit::KeyedPermit;
use jiff::Timestamp;
use serde_json::Value;
use v1_compat::{JobRecord, JobWord, Parts, prompt_id};
use workflow_core::{
    Job, JobCursor, JobId, JobQuery, JobStatus, Jobs, JobsError, OutputKind, WholeJob,
};

use super::errors::ApiError;
use super::reply;
use super::request::Call;
use crate::memory::Memory;
use crate::pieces::{PIECE, Pieces};

/// Most jobs that a list looks at, newest first: as many as a person scrolls through, and as a store has at hand. Whoever
/// wants what is behind them goes on with a cursor.
const MOST_LISTED: usize = 2_000;

/// How many of them are looked at in one step, and how many outputs these have: some 400 bytes each.
const STEP: usize = 250;
const STEP_OUTPUTS: usize = 8_192;

/// About how many bytes an output takes in memory while its job is shown, as a record, as a tree and as text.
const OUTPUT_BYTES: usize = 2_048;

/// What is known of a job that may be listed.
#[derive(Clone, Debug)]
pub(super) struct Brief {
    pub(super) id: JobId,
    /// What the client calls it.
    pub(super) prompt_id: JobId,
    pub(super) status: JobStatus,
    pub(super) created_at: Timestamp,
    pub(super) completed_at: Option<Timestamp>,
    pub(super) execution_ms: Option<i64>,
    kinds: Vec<OutputKind>,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// This text.
    Text(Cow<'static, str>),
    /// A job at this place, counted from 1, behind a comma unless it is the first since the last text. One that was deleted
    /// meanwhile is left out.
    Job(JobId, usize),
}

/// How a job is spelled at its place.
pub(super) type Spell = fn(&JobRecord<'_>, usize) -> Parts;

/// A list on its way.
pub(super) struct Listing {
    jobs: Jobs,
    memory: Memory,
    account: AccountId,
    now: Timestamp,
    steps: std::vec::IntoIter<Step>,
    spell: Spell,
    /// Whether a job stands before the next one.
    follows: bool,
    /// What is left of the job at hand, and the room that it takes.
    at_hand: Option<(Parts, KeyedPermit<AccountId>)>,
}

impl Brief {
    pub(super) fn of(job: &Job) -> Self {
        let mut kinds: Vec<OutputKind> = Vec::new();
        for output in &job.outputs {
            if !kinds.contains(&output.kind) {
                kinds.push(output.kind);
            }
        }
        Self {
            id: job.id,
            prompt_id: prompt_id(job),
            status: job.status,
            created_at: job.created_at,
            completed_at: job.completed_at,
            execution_ms: job.execution_ms(),
            kinds,
        }
    }

    pub(super) fn word(&self) -> JobWord {
        JobWord::of(self.status)
    }

    /// Whether it made something of a kind.
    pub(super) fn made(&self, kind: OutputKind) -> bool {
        self.kinds.contains(&kind)
    }
}

impl Pieces for Listing {
    type Error = ApiError;

    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        if let Some((parts, _)) = &mut self.at_hand {
            if !parts.next(out, PIECE) {
                self.at_hand = None;
            }
            return Ok(true);
        }
        match self.steps.next() {
            None => return Ok(false),
            Some(Step::Text(text)) => {
                out.extend_from_slice(text.as_bytes());
                self.follows = false;
            }
            Some(Step::Job(id, place)) => match self.take(id, place).await {
                Ok(at_hand) => {
                    if std::mem::replace(&mut self.follows, true) {
                        out.push(b',');
                    }
                    self.at_hand = Some(at_hand);
                }
                Err(ApiError::Jobs(JobsError::NotFound)) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(true)
    }
}

impl Listing {
    /// A job, spelled, with the room that it takes.
    async fn take(
        &self,
        id: JobId,
        place: usize,
    ) -> Result<(Parts, KeyedPermit<AccountId>), ApiError> {
        let mut room = self.memory.for_answer(&self.account).await?;
        let whole = self.jobs.whole(&self.account, id, self.now).await?;
        let parts = (self.spell)(&record(&whole), place);
        room.shrink_to(size_of(&whole));
        Ok((parts, room))
    }
}

/// About how many bytes a job takes while it is shown.
fn size_of(whole: &WholeJob) -> usize {
    let (job, body) = (&whole.job, &whole.body);
    body.workflow.len() + body.origin.len() + job.outputs.len() * OUTPUT_BYTES
}

fn record(whole: &WholeJob) -> JobRecord<'_> {
    JobRecord {
        job: &whole.job,
        body: &whole.body,
        report: whole.report.as_ref(),
    }
}

impl Call<'_> {
    /// The jobs of the account that are not over, in the order of the queue. What runs as part of something else, such as a
    /// call of a model, is left out here and in [`Call::newest`]: nobody submitted it.
    pub(super) async fn in_flight(&self) -> Result<Vec<Arc<Job>>, ApiError> {
        let jobs = &self.service.jobs;
        let mut jobs = jobs.in_flight(self.account(), self.now).await?;
        jobs.retain(|job| !job.is_part());
        Ok(jobs)
    }

    /// The newest jobs of the account behind a position, newest first: those that are over, those that are not, or both; and
    /// where to go on, if these are not all.
    pub(super) async fn newest(
        &self,
        over: Option<bool>,
        after: Option<JobCursor>,
    ) -> Result<(Vec<Brief>, Option<JobCursor>), ApiError> {
        let mut query = JobQuery {
            account: self.account().clone(),
            labels: Vec::new(),
            over,
            statuses: Vec::new(),
            after,
            limit: STEP,
            outputs: STEP_OUTPUTS,
        };
        let mut newest: Vec<Brief> = Vec::new();
        let mut looked_at = 0;
        loop {
            query.limit = STEP.min(MOST_LISTED - looked_at);
            let page = self.service.jobs.list(&query, self.now).await?;
            let jobs = page.jobs.iter().filter(|view| !view.job.is_part());
            newest.extend(jobs.map(|view| Brief::of(&view.job)));
            looked_at += page.jobs.len();
            query.after = page.next;
            if page.next.is_none() || looked_at >= MOST_LISTED {
                return Ok((newest, page.next));
            }
        }
    }

    /// An answer of these steps, made while it is sent.
    pub(super) async fn listing(
        &self,
        steps: Vec<Step>,
        spell: Spell,
    ) -> Result<http::Response<hyper_kit::Body>, ApiError> {
        let listing = Listing {
            jobs: self.service.jobs.clone(),
            memory: self.memory.clone(),
            account: self.account().clone(),
            now: self.now,
            steps: steps.into_iter(),
            spell,
            follows: false,
            at_hand: None,
        };
        reply::pieces(listing).await
    }

    /// An answer of one job.
    pub(super) async fn show(
        &self,
        id: JobId,
        spell: impl FnOnce(&JobRecord<'_>) -> Parts,
    ) -> Result<http::Response<hyper_kit::Body>, ApiError> {
        let mut room = self.memory.for_answer(self.account()).await?;
        let jobs = &self.service.jobs;
        let whole = jobs.whole(self.account(), id, self.now).await?;
        let parts = spell(&record(&whole));
        room.shrink_to(size_of(&whole));
        drop(whole);
        reply::pieces(Shown { parts, _room: room }).await
    }

    /// The saved workflow that a job says it is from.
    pub(super) async fn workflow_of(&self, id: JobId) -> Result<Option<String>, ApiError> {
        let mut room = self.memory.for_answer(self.account()).await?;
        let jobs = &self.service.jobs;
        match jobs.body(self.account(), id, self.now).await {
            Ok(body) => {
                room.shrink_to(body.origin.len());
                Ok(v1_compat::workflow_of(&body.origin))
            }
            Err(JobsError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the job of this id to stop; what the client calls it, if it was still under way.
    pub(super) async fn stop(&self, id: &str) -> Result<Option<String>, ApiError> {
        let job: Arc<Job> = self.job_called(id).await?.job;
        if job.status.is_terminal() {
            return Ok(None);
        }
        let jobs = &self.service.jobs;
        jobs.cancel(self.account(), job.id, self.now).await?;
        Ok(Some(prompt_id(&job).to_string()))
    }

    /// Asks the jobs of these ids to stop; what the client calls those that were still under way. Ids that name nothing are
    /// passed over.
    pub(super) async fn stop_all(
        &self,
        ids: impl IntoIterator<Item = &str>,
    ) -> Result<Vec<String>, ApiError> {
        let mut stopped: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for id in ids {
            match self.stop(id).await {
                // One that runs is under way until it has stopped, however often it is named.
                Ok(id) => stopped.extend(id.filter(|id| seen.insert(id.clone()))),
                Err(ApiError::NotFound | ApiError::Jobs(JobsError::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stopped)
    }
}

/// One job on its way.
struct Shown {
    parts: Parts,
    _room: KeyedPermit<AccountId>,
}

impl Pieces for Shown {
    type Error = ApiError;

    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        Ok(self.parts.next(out, PIECE))
    }
}

/// Ids of jobs in a list of texts; `None` where one is no text. What is no id names nobody's job.
pub(super) fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}
