//! The objects of Family B, spelled as `contract` and clients have them.
//!
//! A field that may be unknown is `null` and never left out, `created_new` excepted, which only answers to a creation have.

use asset_store::Asset;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use workflow_core::{
    Job, JobError, JobId, JobLog, JobOutput, JobStatus, JobView, Metadata, NodeId, Preview,
    Progress, RunReport, WorkerNote,
};

use super::problems;
use crate::links::Links;

/// An asset as clients see it.
#[derive(Debug, Serialize)]
pub(crate) struct AssetBody {
    pub(crate) id: String,
    pub(crate) hash: String,
    pub(crate) size_bytes: u64,
    pub(crate) content_type: String,
    pub(crate) file_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_new: Option<bool>,
    pub(crate) created_at: String,
    pub(crate) url: String,
    pub(crate) url_expires_at: String,
    pub(crate) expires_at: Option<String>,
    pub(crate) job_id: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// A job as clients see it.
#[derive(Debug, Serialize)]
pub(crate) struct JobBody {
    pub(crate) id: String,
    pub(crate) status: &'static str,
    pub(crate) created_at: String,
    pub(crate) started_at: Option<String>,
    pub(crate) completed_at: Option<String>,
    pub(crate) expires_at: String,
    pub(crate) queue_position: Option<u64>,
    pub(crate) progress: ProgressBody,
    pub(crate) outputs: Vec<OutputBody>,
    pub(crate) error: Option<JobErrorBody>,
    pub(crate) metrics: MetricsBody,
    pub(crate) metadata: Metadata,
    pub(crate) urls: JobUrlsBody,
    /// For operators alone: the workers of its engine, while it is not over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) workers: Vec<WorkerNoteBody>,
}

/// A worker, and why it does not take a job.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerNoteBody {
    pub(crate) worker: String,
    pub(crate) has_job: bool,
    pub(crate) why_not: Option<String>,
}

/// How long a job waited and ran.
#[derive(Debug, Serialize)]
pub(crate) struct MetricsBody {
    pub(crate) queue_ms: Option<i64>,
    pub(crate) execution_ms: Option<i64>,
}

/// Where to go on from a job.
#[derive(Debug, Serialize)]
pub(crate) struct JobUrlsBody {
    #[serde(rename = "self")]
    pub(crate) this: String,
    pub(crate) events: String,
    pub(crate) cancel: String,
    pub(crate) logs: String,
}

/// A snapshot of a run, and the payload of a `progress` event.
#[derive(Debug, Serialize)]
pub(crate) struct ProgressBody {
    pub(crate) value: f64,
    pub(crate) nodes_done: u32,
    pub(crate) nodes_total: u32,
    pub(crate) current_node: Option<String>,
    pub(crate) current_node_class: Option<String>,
    pub(crate) step: Option<u32>,
    pub(crate) steps: Option<u32>,
    pub(crate) message: Option<String>,
}

/// An output of a job, and the payload of an `output` event.
#[derive(Debug, Serialize)]
pub(crate) struct OutputBody {
    pub(crate) node_id: String,
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) content_type: String,
    pub(crate) size_bytes: u64,
    pub(crate) id: String,
    pub(crate) hash: String,
    pub(crate) url: String,
    pub(crate) url_expires_at: String,
    pub(crate) job_id: String,
}

/// Why a job failed.
#[derive(Debug, Serialize)]
pub(crate) struct JobErrorBody {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) node_id: Option<String>,
    pub(crate) class_type: Option<String>,
    pub(crate) traceback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Value>,
}

/// A job within a list.
#[derive(Debug, Serialize)]
pub(crate) struct JobItemBody {
    #[serde(flatten)]
    pub(crate) job: JobBody,
    pub(crate) create_time: String,
    pub(crate) update_time: String,
}

/// What a run wrote.
#[derive(Debug, Serialize)]
pub(crate) struct LogBody {
    pub(crate) text: String,
    pub(crate) truncated: bool,
    pub(crate) captured_at: String,
    pub(crate) complete: bool,
    pub(crate) nodes: Vec<NodeRunBody>,
}

/// When a node of a run worked.
#[derive(Debug, Serialize)]
pub(crate) struct NodeRunBody {
    pub(crate) node_id: String,
    pub(crate) class_type: Option<String>,
    pub(crate) cached: bool,
    pub(crate) started_at: Option<String>,
    pub(crate) ended_at: Option<String>,
}

/// The payload of a `status` event; the terminal one repeats the outputs.
#[derive(Debug, Serialize)]
pub(crate) struct StatusBody {
    pub(crate) status: &'static str,
    pub(crate) queue_position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outputs: Option<Vec<OutputBody>>,
}

/// The payload of a `preview` event.
#[derive(Debug, Serialize)]
pub(crate) struct PreviewBody {
    pub(crate) node_id: String,
    pub(crate) content_type: &'static str,
    pub(crate) data_base64: String,
}

/// The body of every error.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorEnvelope {
    pub(crate) error: ErrorBody,
}

/// What an error says.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

/// RFC 3339 in UTC, to the millisecond.
pub(crate) fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

impl AssetBody {
    pub(crate) fn new(asset: &Asset, links: &Links, now: Timestamp) -> Self {
        let signed = links.asset(asset, now);
        Self {
            id: asset.id.to_string(),
            hash: asset.hash.to_string(),
            size_bytes: asset.size_bytes,
            content_type: asset.content_type.clone(),
            file_path: asset.file_path.as_ref().map(ToString::to_string),
            created_new: None,
            created_at: time(asset.created_at),
            url: signed.url,
            url_expires_at: time(signed.expires_at),
            expires_at: asset.expires_at.map(time),
            job_id: asset.job_id.as_ref().map(ToString::to_string),
            tags: asset.tags.clone(),
        }
    }
}

impl JobBody {
    pub(crate) fn new(view: &JobView, links: &Links, now: Timestamp) -> Self {
        Self {
            outputs: OutputBody::all(&view.job, links, now),
            ..Self::without_outputs(view, links)
        }
    }

    /// All but its outputs, of which there may be thousands.
    pub(crate) fn without_outputs(view: &JobView, links: &Links) -> Self {
        let job = &view.job;
        Self {
            id: job.id.to_string(),
            status: job.status.name(),
            created_at: time(job.created_at),
            started_at: job.started_at.map(time),
            completed_at: job.completed_at.map(time),
            expires_at: time(job.expires_at),
            queue_position: view.queue_position,
            progress: ProgressBody::from(&view.progress),
            outputs: Vec::new(),
            error: job.error.as_ref().map(JobErrorBody::from),
            metrics: MetricsBody {
                queue_ms: job.queue_ms(),
                execution_ms: job.execution_ms(),
            },
            metadata: job.metadata.clone(),
            urls: JobUrlsBody {
                this: links.job(job.id, ""),
                events: links.job(job.id, "/events"),
                cancel: links.job(job.id, "/cancel"),
                logs: links.job(job.id, "/logs"),
            },
            workers: Vec::new(),
        }
    }
}

impl From<WorkerNote> for WorkerNoteBody {
    fn from(note: WorkerNote) -> Self {
        Self {
            worker: note.worker,
            has_job: note.has_job,
            why_not: note.why_not,
        }
    }
}

impl JobItemBody {
    pub(crate) fn without_outputs(view: &JobView, links: &Links) -> Self {
        Self {
            job: JobBody::without_outputs(view, links),
            create_time: time(view.job.created_at),
            update_time: time(view.job.updated_at),
        }
    }
}

impl From<&Progress> for ProgressBody {
    fn from(progress: &Progress) -> Self {
        Self {
            value: progress.value,
            nodes_done: progress.nodes_done,
            nodes_total: progress.nodes_total,
            current_node: progress.current_node.as_ref().map(NodeId::to_string),
            current_node_class: progress.current_node_class.clone(),
            step: progress.step,
            steps: progress.steps,
            message: progress.message.clone(),
        }
    }
}

impl OutputBody {
    pub(crate) fn new(output: &JobOutput, job: JobId, links: &Links, now: Timestamp) -> Self {
        let signed = links.output(output, now);
        Self {
            node_id: output.node_id.to_string(),
            name: output.path.name().to_owned(),
            kind: output.kind.name(),
            content_type: output.content_type.clone(),
            size_bytes: output.size_bytes,
            id: output.asset.to_string(),
            hash: output.hash.to_string(),
            url: signed.url,
            url_expires_at: time(signed.expires_at),
            job_id: job.to_string(),
        }
    }

    pub(crate) fn all(job: &Job, links: &Links, now: Timestamp) -> Vec<Self> {
        let outputs = job.outputs.iter();
        outputs
            .map(|output| Self::new(output, job.id, links, now))
            .collect()
    }
}

impl From<&JobError> for JobErrorBody {
    fn from(error: &JobError) -> Self {
        Self {
            code: error.code.name(),
            message: error.message.clone(),
            node_id: error.node_id.as_ref().map(NodeId::to_string),
            class_type: error.class_type.clone(),
            traceback: error.traceback.as_deref().map(str::to_owned),
            details: problems::of_engine(&error.node_errors),
        }
    }
}

impl From<&JobLog> for LogBody {
    fn from(log: &JobLog) -> Self {
        Self {
            text: log.text.clone(),
            truncated: log.truncated,
            captured_at: time(log.captured_at),
            complete: log.complete,
            nodes: node_runs(&log.report),
        }
    }
}

/// The nodes that needed no work, then those that did in the order in which they began.
fn node_runs(report: &RunReport) -> Vec<NodeRunBody> {
    let known = report.cached.iter().flatten().map(|id| NodeRunBody {
        node_id: id.to_string(),
        class_type: None,
        cached: true,
        started_at: None,
        ended_at: None,
    });
    let worked = report.nodes.iter().filter(|(_, node)| node.class.is_some());
    let worked = worked.map(|(id, node)| NodeRunBody {
        node_id: id.to_string(),
        class_type: node.class.clone(),
        cached: false,
        started_at: node.started_at.map(time),
        ended_at: node.ended_at.map(time),
    });
    known.chain(worked).collect()
}

impl StatusBody {
    pub(crate) fn live(status: JobStatus, queue_position: Option<u64>) -> Self {
        Self {
            status: status.name(),
            queue_position,
            outputs: None,
        }
    }

    pub(crate) fn terminal(job: &Job, links: &Links, now: Timestamp) -> Self {
        Self {
            status: job.status.name(),
            queue_position: None,
            outputs: Some(OutputBody::all(job, links, now)),
        }
    }
}

impl From<&Preview> for PreviewBody {
    fn from(preview: &Preview) -> Self {
        use base64::Engine;
        Self {
            node_id: preview.node_id.to_string(),
            content_type: preview.content_type,
            data_base64: base64::engine::general_purpose::STANDARD.encode(&preview.bytes),
        }
    }
}

impl ErrorEnvelope {
    pub(crate) fn new(code: &'static str, message: String, details: Option<Value>) -> Self {
        Self {
            error: ErrorBody {
                code,
                message,
                details,
            },
        }
    }
}

#[cfg(test)]
mod tests;
