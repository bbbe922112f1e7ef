//! Deployments of workers: how they are made from an installation, as the API finds them, and as commands see them.

use std::sync::Arc;

use async_trait::async_trait;
use engine_comfy::{DeploymentReport, Deployments, DeploymentsError};
use hyper_kit::error_chain;
use installation::{Turns, Work};
use jiff::Timestamp;
use server_kit::admin::{
    DefinitionBody, DeploymentAdmin, DeploymentBody, DeploymentRequest, DeploymentWorkerBody,
    EventBody, Problem, ProblemKind, RevisionBody, SecretSource, VariableBody, WorkerLogBody,
};
use server_kit::turns::in_turn;
use tokio_util::sync::CancellationToken;
use workflow_core::Jobs;
use workflow_core::deployment::{
    Bounds, Definition, Deployment, DeploymentChange, DeploymentName, EnvironmentValue,
    RevisionNumber, WorkerCommand, WorkerSource,
};
use workflow_http::DeploymentJobs;

use crate::workers::room;

/// The deployments as the API finds them.
pub(crate) struct BaseAddresses {
    pub(crate) jobs: Jobs,
    pub(crate) deployments: Deployments,
    /// Jobs of an account that run at once if nothing else was given to it.
    pub(crate) room: u32,
}

impl DeploymentJobs for BaseAddresses {
    fn jobs(&self, name: &str) -> Option<Jobs> {
        let (engines, places) = self.deployments.engines(name)?;
        let default = self.room;
        let room = move |of_tier| room(of_tier, default, places);
        Some(self.jobs.at(engines, room))
    }
}

/// Keeps the deployments, and owns their workers while it is this process' turn, until `stop` fires.
pub(crate) async fn keep(deployments: &Deployments, turns: &dyn Turns, stop: &CancellationToken) {
    let own = in_turn(turns, Work::Deployments, stop, || async {
        let _owns = deployments.own();
        stop.cancelled().await;
    });
    tokio::join!(deployments.keep(stop), own);
}

/// The deployments as commands see them.
#[derive(Debug)]
pub(crate) struct OperatorDeployments(pub(crate) Deployments);

#[async_trait]
impl DeploymentAdmin for OperatorDeployments {
    async fn list(&self) -> Result<Vec<DeploymentBody>, Problem> {
        let all = self.0.list().await.map_err(|error| problem(&error))?;
        Ok(all.into_iter().map(body).collect())
    }

    async fn apply(
        &self,
        name: &str,
        definition: DefinitionBody,
        now: Timestamp,
    ) -> Result<DeploymentBody, Problem> {
        let name = named(name)?;
        let definition = read(definition)?;
        self.0
            .apply(&name, definition, now)
            .await
            .map_err(|error| problem(&error))?;
        self.show(&name).await
    }

    async fn change(
        &self,
        request: DeploymentRequest,
        now: Timestamp,
    ) -> Result<DeploymentBody, Problem> {
        let (name, change) = match request {
            DeploymentRequest::Start { name } => (name, DeploymentChange::Start),
            DeploymentRequest::Stop { name } => (name, DeploymentChange::Stop),
            DeploymentRequest::RollBack { name, revision } => (
                name,
                DeploymentChange::RollBack(revision.map(RevisionNumber)),
            ),
            DeploymentRequest::Scale { name, min, max } => {
                let shown = self.show(&named(&name)?).await?;
                let bounds = Bounds {
                    min: min.unwrap_or(shown.min),
                    max: max.unwrap_or(shown.max),
                };
                (name, DeploymentChange::Scale(bounds))
            }
            DeploymentRequest::List { .. }
            | DeploymentRequest::Show { .. }
            | DeploymentRequest::Apply { .. }
            | DeploymentRequest::Remove { .. }
            | DeploymentRequest::Events { .. }
            | DeploymentRequest::Logs { .. } => {
                return Err(Problem::new(
                    ProblemKind::Fault,
                    "this is no change of a deployment",
                ));
            }
        };
        let name = named(&name)?;
        self.0
            .change(&name, change, now)
            .await
            .map_err(|error| problem(&error))?;
        self.show(&name).await
    }

    async fn remove(&self, name: &str, now: Timestamp) -> Result<(), Problem> {
        self.0
            .remove(&named(name)?, now)
            .await
            .map_err(|error| problem(&error))
    }

    async fn events(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<EventBody>, Problem> {
        let events = self.0.events(&named(name)?, before, limit).await;
        let events = events.map_err(|error| problem(&error))?.into_iter();
        Ok(events
            .map(|event| EventBody {
                number: event.number,
                at: format!("{:.3}", event.event.at),
                kind: event.event.kind,
                text: event.event.text,
            })
            .collect())
    }

    async fn logs(&self, name: &str) -> Result<Vec<WorkerLogBody>, Problem> {
        let logs = self
            .0
            .logs(&named(name)?)
            .await
            .map_err(|error| problem(&error))?;
        let logs = logs.into_iter().map(|log| WorkerLogBody {
            worker: log.worker,
            text: log.text,
        });
        Ok(logs.collect())
    }
}

impl OperatorDeployments {
    async fn show(&self, name: &DeploymentName) -> Result<DeploymentBody, Problem> {
        self.0
            .show(name)
            .await
            .map(body)
            .map_err(|error| problem(&error))
    }
}

fn named(name: &str) -> Result<DeploymentName, Problem> {
    name.parse()
        .map_err(|error: workflow_core::deployment::InvalidDeploymentName| invalid(&error))
}

fn invalid(error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemKind::Invalid, error_chain(error))
}

fn problem(error: &DeploymentsError) -> Problem {
    let kind = match error {
        DeploymentsError::Absent(_) => ProblemKind::Absent,
        DeploymentsError::Refused(_) | DeploymentsError::Full => ProblemKind::Invalid,
        DeploymentsError::InUse(_) | DeploymentsError::Busy => ProblemKind::InUse,
        DeploymentsError::Newer | DeploymentsError::Store(_) => ProblemKind::Fault,
    };
    Problem::new(kind, error_chain(error))
}

/// What a body says, with the defaults of what it leaves out.
fn read(body: DefinitionBody) -> Result<Definition, Problem> {
    let refused = |text: &str| Err(Problem::new(ProblemKind::Invalid, text));
    let source = match (body.urls, body.command) {
        (Some(urls), None) => {
            let of_command = body.folder.is_some() || body.models.is_some();
            if of_command || !body.environment.is_empty() {
                return refused(
                    "`environment`, `folder` and `models` are for a `command`; workers of `urls` are started by others",
                );
            }
            WorkerSource::Urls(urls)
        }
        (None, Some(arguments)) => {
            let environment = body.environment.into_iter();
            let environment = environment.map(|(name, value)| {
                let value = match value {
                    VariableBody::Text(text) => EnvironmentValue::Text(text),
                    VariableBody::Secret(SecretSource::Env(name)) => {
                        EnvironmentValue::Variable(name)
                    }
                    VariableBody::Secret(SecretSource::File(path)) => EnvironmentValue::File(path),
                };
                (name, value)
            });
            WorkerSource::Command(WorkerCommand {
                arguments,
                environment: environment.collect(),
                folder: body.folder,
                models: body.models,
            })
        }
        (Some(_), Some(_)) | (None, None) => {
            return refused(
                "a deployment has either `command`, which starts its workers, or `urls` of workers that others start",
            );
        }
    };
    let presets = Definition::of(source);
    Ok(Definition {
        bounds: Bounds {
            min: body.min.unwrap_or(presets.bounds.min),
            // More at least than at most by default is not meant.
            max: body
                .max
                .unwrap_or(presets.bounds.max.max(body.min.unwrap_or(0))),
        },
        idle_window_s: body.idle_window_s.unwrap_or(presets.idle_window_s),
        scale_after_s: body.scale_after_s.unwrap_or(presets.scale_after_s),
        start_limit_s: body.start_limit_s.unwrap_or(presets.start_limit_s),
        waking_queue: body.waking_queue.unwrap_or(presets.waking_queue),
        ..presets
    })
}

/// A definition as it is shown: values of secrets are not part of it.
fn shown(definition: &Definition) -> DefinitionBody {
    let body = DefinitionBody {
        min: Some(definition.bounds.min),
        max: Some(definition.bounds.max),
        idle_window_s: Some(definition.idle_window_s),
        scale_after_s: Some(definition.scale_after_s),
        start_limit_s: Some(definition.start_limit_s),
        waking_queue: Some(definition.waking_queue),
        ..DefinitionBody::default()
    };
    match &definition.source {
        WorkerSource::Urls(urls) => DefinitionBody {
            urls: Some(urls.clone()),
            ..body
        },
        WorkerSource::Command(command) => {
            let environment = command.environment.iter().map(|(name, value)| {
                let value = match value {
                    EnvironmentValue::Text(text) => VariableBody::Text(text.clone()),
                    EnvironmentValue::Variable(name) => {
                        VariableBody::Secret(SecretSource::Env(name.clone()))
                    }
                    EnvironmentValue::File(path) => {
                        VariableBody::Secret(SecretSource::File(path.clone()))
                    }
                };
                (name.clone(), value)
            });
            DefinitionBody {
                command: Some(command.arguments.clone()),
                environment: environment.collect(),
                folder: command.folder.clone(),
                models: command.models.clone(),
                ..body
            }
        }
    }
}

fn body(report: DeploymentReport) -> DeploymentBody {
    let row: &Deployment = &report.row;
    let bounds = row.serving().map(|revision| row.bounds_of(revision));
    let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
    let workers = report.workers.into_iter().map(|managed| {
        let worker = managed.worker;
        DeploymentWorkerBody {
            name: worker.name,
            url: worker.url,
            revision: managed.revision.0,
            state: worker.state.name().to_owned(),
            since: time(worker.since),
            why: worker.why,
            pid: managed.pid,
            started_at: time(managed.started_at),
            version: worker.version,
            jobs: worker.jobs as u64,
            slots: worker.slots.into(),
            breaker: worker.breaker.name().to_owned(),
        }
    });
    let revisions = row.revisions.iter().map(|revision| RevisionBody {
        number: revision.number.0,
        created_at: time(revision.created_at),
        definition: shown(&revision.definition),
    });
    DeploymentBody {
        name: row.name.to_string(),
        path: format!("/deployment/{}", row.name),
        state: report.state.name().to_owned(),
        why: report.why,
        revision: row.current.map(|number| number.0),
        next_revision: row.next.map(|next| next.number.0),
        min: bounds.min,
        max: bounds.max,
        start_ms: row.start_ms,
        workers: workers.collect(),
        revisions: revisions.collect(),
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The admin port over these deployments.
pub(crate) fn admin(deployments: &Deployments) -> Option<Arc<dyn DeploymentAdmin>> {
    Some(Arc::new(OperatorDeployments(deployments.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown_as_it_was_written() {
        let body = DefinitionBody {
            command: Some(vec!["python".to_owned(), "{port}".to_owned()]),
            environment: [
                ("A", VariableBody::Text("1".to_owned())),
                (
                    "B",
                    VariableBody::Secret(SecretSource::Env("TOKEN".to_owned())),
                ),
                (
                    "C",
                    VariableBody::Secret(SecretSource::File("/run/x".to_owned())),
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
            min: Some(3),
            ..DefinitionBody::default()
        };
        let read = read(body.clone()).expect("it is right");
        assert_eq!(read.bounds, Bounds { min: 3, max: 3 });
        let shown = shown(&read);
        assert_eq!(
            (&shown.command, &shown.environment),
            (&body.command, &body.environment)
        );
        assert_eq!(shown.idle_window_s, Some(30));
        for wrong in [
            DefinitionBody::default(),
            DefinitionBody {
                urls: Some(vec!["http://a".to_owned()]),
                ..body.clone()
            },
            DefinitionBody {
                urls: Some(vec!["http://a".to_owned()]),
                models: Some("/models".to_owned()),
                ..DefinitionBody::default()
            },
        ] {
            super::read(wrong).expect_err("it cannot be meant");
        }
    }
}
