//! What runs such a model: a job of the caller's account.
//!
//! The job bears the generation's id and is submitted with a key of the generation's own, so that submitting again does
//! nothing; it is durable before the router hears that it was accepted, and its handle is good for as long as its row.

use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, Principal};
use async_trait::async_trait;
use bytes::Bytes;
use router_core::{
    Charge, Collected, Contact, Done, Failure, Handle, ModelId, Price, Provider, Ran, Submission,
    Submitted,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace_context::TraceContext;
use workflow_core::{Job, JobId, JobStatus, JobView, JobsError, Metadata};

use super::template::Template;
use super::{Workflows, answer, body, failure};

/// The pause before a job is looked at, and before it is looked at again: a look itself waits for the job's end.
const POLL_AFTER: Duration = Duration::from_millis(10);

/// How long a look waits.
const LOOK: Duration = Duration::from_secs(10);

/// The label of a job that tells which model it ran for.
const MODEL_LABEL: &str = "model";

/// A model that runs here.
#[derive(Debug)]
pub(super) struct WorkflowModel {
    template: Template,
    workflows: Arc<Workflows>,
}

/// What names a run.
#[derive(Debug, Serialize, Deserialize)]
struct Run {
    account: String,
    job: String,
    inline: bool,
    /// The node whose outputs are the result: a model may have another graph by now. Nothing in handles of older programs.
    #[serde(default)]
    output: Option<String>,
}

impl WorkflowModel {
    pub(super) fn new(template: Template, workflows: Arc<Workflows>) -> Self {
        Self {
            template,
            workflows,
        }
    }

    async fn caller(&self, account: &AccountId) -> Result<Principal, Failure> {
        let found = self.workflows.accounts.by_id(account).await;
        found.ok().flatten().ok_or_else(|| Failure::Failed {
            ran: Ran::Nothing,
            message: "the account cannot be looked up".to_owned(),
        })
    }

    /// Waits for the end of a job; `None` when it is not over yet.
    async fn ended(&self, account: &AccountId, id: JobId) -> Result<Option<Arc<Job>>, JobsError> {
        let (jobs, timer) = (&self.workflows.jobs, &self.workflows.timer);
        let (mut view, mut follower) = jobs.follow(account, id, timer.now()).await?;
        let mut patience = timer.sleep(LOOK);
        loop {
            let JobView { job, .. } = view;
            if job.status.is_terminal() {
                return Ok(Some(job));
            }
            tokio::select! {
                () = follower.changed() => {
                    follower.latest();
                }
                () = &mut patience => return Ok(None),
            }
            view = jobs.get(account, id, timer.now()).await?;
        }
    }

    async fn verdict(&self, job: &Job, run: &Run) -> Result<Done, Failure> {
        match job.status {
            JobStatus::Succeeded => {
                let own = &self.template.wiring.output.node;
                let node = run.output.as_ref().unwrap_or(own);
                let told = answer::of(&self.workflows, node, job, run.inline).await;
                let answer = told.map_err(|error| {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(job.id = %job.id, error, "the result of a model cannot be read");
                    failed("the result cannot be read")
                })?;
                Ok(Done {
                    answer,
                    charge: Charge::AsHeld,
                    task_id: Some(job.id.to_string()),
                })
            }
            JobStatus::Canceled => Err(failed("the run was canceled")),
            JobStatus::Expired => Err(Failure::TimedOut {
                ran: Ran::Perhaps,
                message: "the run did not finish in time".to_owned(),
            }),
            JobStatus::Failed | JobStatus::Queued | JobStatus::Running | JobStatus::Canceling => {
                Err(failure::of_job(job, &self.template))
            }
        }
    }
}

#[async_trait]
impl Provider for WorkflowModel {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure> {
        let Submission {
            generation,
            account,
            model,
            body,
            contact,
            // Results of workflows are documents.
            stream: _,
        } = submission;
        let caller = self.caller(&account).await?;
        let (workflows, template) = (&self.workflows, &self.template);
        let filled = body::fill(workflows, template, &caller, generation, &body).await?;
        drop(body);
        let id = JobId(generation.0);
        let mut tier = caller.tier;
        // The router counts its calls; and a job that waits for this one must not keep it from running.
        Arc::make_mut(&mut tier).concurrent_jobs = u32::MAX;
        let submission = workflow_core::Submission {
            id,
            account: account.clone(),
            tier,
            workflow: filled.workflow,
            metadata: labels(id, &model),
            secret: None,
            key: Some(body::key(generation, "")),
            origin: Bytes::new(),
            targets: Some(vec![template.wiring.output.node.clone()]),
            partial: false,
            flat_uploads: false,
            extra_pnginfo: Default::default(),
            trace: TraceContext::current(),
        };
        let submitted = workflows.jobs.submit(submission, workflows.timer.now());
        submitted.await.map_err(|error| {
            let failure = failure::of_submission(&error, template);
            if !matches!(failure, Failure::Refused { .. }) {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(generation.id = %generation, error, "the run of a model was not accepted");
            }
            failure
        })?;
        contact.written();
        Ok(Submitted::Accepted {
            handle: Run {
                account: account.as_str().to_owned(),
                job: id.to_string(),
                inline: filled.inline,
                output: Some(template.wiring.output.node.clone()),
            }
            .handle(),
            task_id: Some(id.to_string()),
            poll_after: POLL_AFTER,
        })
    }

    async fn collect(&self, handle: &Handle, _: &Contact) -> Result<Collected, Failure> {
        let (account, job, run) = Run::of(handle).ok_or_else(|| failed("the run is unknown"))?;
        let pending = Collected::Pending {
            poll_after: POLL_AFTER,
        };
        match self.ended(&account, job).await {
            Ok(None) => Ok(pending),
            Ok(Some(job)) => self.verdict(&job, &run).await.map(Collected::Done),
            Err(JobsError::NotFound) => Err(failed("the run is not kept any more")),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(job.id = %job, error, "the run of a model cannot be looked at; trying again");
                Ok(pending)
            }
        }
    }

    async fn cancel(&self, handle: &Handle) {
        let Some((account, job, _)) = Run::of(handle) else {
            return;
        };
        let now = self.workflows.timer.now();
        if let Err(error) = self.workflows.jobs.cancel(&account, job, now).await {
            let error: &dyn std::error::Error = &error;
            tracing::debug!(job.id = %job, error, "the run of a model cannot be canceled");
        }
    }

    fn price(&self, _: &Value) -> Price {
        Price::Exact {
            cents: self.template.wiring.price_cents,
        }
    }
}

/// What a run is labeled with: the model, and that nobody submitted it.
fn labels(id: JobId, model: &ModelId) -> Metadata {
    let mut labels = Job::part_labels(id);
    labels.insert(MODEL_LABEL.to_owned(), model.to_string());
    labels
}

impl Run {
    fn handle(&self) -> Handle {
        let bytes = serde_json::to_vec(self).expect("plain fields are JSON");
        Handle(bytes.into())
    }

    fn of(handle: &Handle) -> Option<(AccountId, JobId, Self)> {
        let run: Self = serde_json::from_slice(&handle.0).ok()?;
        Some((run.account.parse().ok()?, run.job.parse().ok()?, run))
    }
}

fn failed(message: &str) -> Failure {
    Failure::Failed {
        ran: Ran::Perhaps,
        message: message.to_owned(),
    }
}
