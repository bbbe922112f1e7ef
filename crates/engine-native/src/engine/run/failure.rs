//! How failures are told: always with the submitted node and its class, never with a path, an address or a secret.

use serde_json::{Map, Value as Json};
use workflow_core::{CommitError, FrameRefused, JobError, JobErrorCode, NodeEvent, RunError};

use super::Run;
use crate::NodeError;
use crate::engine::got::Got;

/// A failure. Clients hear of it when its node has its turn.
pub(super) struct Failure {
    pub(super) error: JobError,
    /// What the failing call got, by input.
    pub(super) inputs: Map<String, Json>,
}

impl Run {
    /// Notes that a node failed; it is told when the node has its turn.
    pub(super) fn fail(&mut self, node: usize, error: &NodeError) {
        let root = self.nodes[node].root.unwrap_or(node);
        let (code, exception) = match error {
            NodeError::OutOfMemory { .. } => {
                (JobErrorCode::OutOfMemory, "OutOfMemoryError".to_owned())
            }
            NodeError::Failed { exception, .. } => (
                JobErrorCode::NodeExecutionError,
                exception.clone().into_owned(),
            ),
            NodeError::Canceled => (
                JobErrorCode::NodeExecutionError,
                "InterruptProcessingException".to_owned(),
            ),
        };
        let step = &self.nodes[root].step;
        let error = JobError {
            node_id: Some(step.id.clone()),
            class_type: Some(step.definition.class.clone()),
            exception_type: Some(exception),
            ..JobError::new(code, error.to_string())
        };
        let inputs = self.inputs_of(node);
        self.failing = true;
        self.nodes[root]
            .failure
            .get_or_insert(Failure { error, inputs });
    }

    /// What a node got, or would have got.
    fn inputs_of(&mut self, node: usize) -> Map<String, Json> {
        let got = self.nodes[node].got.take();
        let got = got.unwrap_or_else(|| Got::of(&self.gather(node, false).0));
        got.to_json(&self.nodes[node].step.definition)
    }

    /// How a run ends whose output could not be committed.
    pub(super) fn uncommitted(&mut self, node: usize, error: &CommitError) -> RunError {
        let root = self.nodes[node].root.unwrap_or(node);
        let step = &self.nodes[root].step;
        let (code, exception) = match error {
            CommitError::Superseded => return RunError::Canceled(Some(step.id.clone())),
            CommitError::InvalidName => (JobErrorCode::NodeExecutionError, "ValueError"),
            CommitError::StorageQuota => (JobErrorCode::StorageQuotaExceeded, "StorageQuotaError"),
            CommitError::BlobGone | CommitError::Store(_) => (JobErrorCode::EngineError, "OSError"),
        };
        if code == JobErrorCode::EngineError {
            tracing::error!(job.id = %self.ticket.job, node.id = %step.id, error = ?error, "an output could not be stored");
        }
        let id = step.id.clone();
        let failed = JobError {
            node_id: Some(id.clone()),
            class_type: Some(step.definition.class.clone()),
            exception_type: Some(exception.to_owned()),
            ..JobError::new(code, error.to_string())
        };
        let inputs = self.inputs_of(node);
        self.shared
            .announcer
            .tell(NodeEvent::Failed { node: id, inputs });
        RunError::Failed(failed)
    }

    /// How a run ends whose picture nobody took.
    pub(super) fn not_shown(&mut self, node: usize, refused: FrameRefused) -> RunError {
        let root = self.nodes[node].root.unwrap_or(node);
        let step = &self.nodes[root].step;
        let (id, class) = (step.id.clone(), step.definition.class.clone());
        let ended = refused.ends_run(id.clone(), class);
        if let RunError::Failed(_) = ended {
            let inputs = self.inputs_of(node);
            let failed = NodeEvent::Failed { node: id, inputs };
            self.shared.announcer.tell(failed);
        }
        ended
    }

    /// How a run ends in which nothing can go on: a cycle that no validator has seen.
    pub(super) fn never_ends(&mut self) -> RunError {
        let turn = self.machine.turn().map(|turn| &self.nodes[turn].step);
        RunError::Failed(JobError {
            node_id: turn.map(|step| step.id.clone()),
            class_type: turn.map(|step| step.definition.class.clone()),
            exception_type: Some("graph.DependencyCycleError".to_owned()),
            ..JobError::new(
                JobErrorCode::NodeExecutionError,
                "Dependency cycle detected",
            )
        })
    }
}
