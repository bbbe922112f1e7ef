//! Single messages of the v1 socket: JSON texts, and binary frames of types 1, 3 and 4.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};
use workflow_core::{Job, JobId, JobStatus, NodeId, NodeReport, Preview, RunReport};

use crate::{exception_type, failure, prompt_id};

/// One message of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A JSON text.
    Text(String),
    /// Bytes: a head, and a picture that many sockets may share.
    Binary {
        /// Type, lengths and what describes the picture; or all of it.
        head: Bytes,
        /// The picture.
        rest: Bytes,
    },
}

/// Types of binary frames.
const PREVIEW_IMAGE: u32 = 1;
const TEXT: u32 = 3;
const PREVIEW_IMAGE_WITH_METADATA: u32 = 4;

/// Most nodes that one `progress_state` lists: those at work and the ones that ended last. A graph of thousands of nodes
/// would otherwise send each of them thousands of times.
const MOST_NODES: usize = 128;

pub(crate) fn text(kind: &str, data: &Value) -> Frame {
    Frame::Text(json!({"type": kind, "data": data}).to_string())
}

pub(crate) fn status(remaining: usize, sid: Option<&str>) -> Frame {
    let mut data = Map::new();
    data.insert(
        "status".to_owned(),
        json!({"exec_info": {"queue_remaining": remaining}}),
    );
    if let Some(sid) = sid {
        data.insert("sid".to_owned(), sid.into());
    }
    text("status", &data.into())
}

/// `execution_start`, `execution_success`: the job and the time.
pub(crate) fn moment(kind: &str, job: JobId, at_ms: i64) -> Frame {
    text(kind, &moment_data(job, at_ms))
}

pub(crate) fn moment_data(job: JobId, at_ms: i64) -> Value {
    json!({"prompt_id": job.to_string(), "timestamp": at_ms})
}

pub(crate) fn cached_data(job: JobId, nodes: &[NodeId], at_ms: i64) -> Value {
    let nodes: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
    json!({"nodes": nodes, "prompt_id": job.to_string(), "timestamp": at_ms})
}

pub(crate) fn executing(job: JobId, node: &NodeId) -> Frame {
    let node = node.as_str();
    let data = json!({"node": node, "display_node": node, "prompt_id": job.to_string()});
    text("executing", &data)
}

/// Nothing of the job is executing any more.
pub(crate) fn executing_nothing(job: JobId) -> Frame {
    text(
        "executing",
        &json!({"node": null, "prompt_id": job.to_string()}),
    )
}

pub(crate) fn executed(job: JobId, node: &NodeId, ui: &Value) -> Frame {
    let node = node.as_str();
    let data = json!({
        "node": node,
        "display_node": node,
        "output": ui,
        "prompt_id": job.to_string(),
    });
    text("executed", &data)
}

pub(crate) fn progress(job: JobId, node: &NodeId, step: u32, steps: u32) -> Frame {
    let data = json!({
        "value": step,
        "max": steps,
        "prompt_id": job.to_string(),
        "node": node.as_str(),
    });
    text("progress", &data)
}

pub(crate) fn progress_state(job: JobId, report: &RunReport) -> Frame {
    let surplus = report.nodes.len().saturating_sub(MOST_NODES);
    let listed = report.nodes.iter().enumerate();
    // The oldest go first, but never one at work.
    let listed = listed.filter(|(index, (_, node))| *index >= surplus || !node.finished);
    // Spelled by hand: it is by far the most frequent message, and the longest.
    let mut text = format!(r#"{{"type":"progress_state","data":{{"prompt_id":"{job}","nodes":{{"#);
    for (place, (_, (id, node))) in listed.enumerate() {
        if place > 0 {
            text.push(',');
        }
        write_state(&mut text, job, id, node);
    }
    text.push_str("}}}");
    Frame::Text(text)
}

fn write_state(text: &mut String, job: JobId, id: &NodeId, node: &NodeReport) {
    let state = if node.finished { "finished" } else { "running" };
    let (value, max) = match (node.steps, node.finished) {
        (Some((_, steps)), true) => (steps.to_string(), steps.to_string()),
        (Some((step, steps)), false) => (step.to_string(), steps.to_string()),
        (None, true) => ("1.0".to_owned(), "1.0".to_owned()),
        (None, false) => ("0.0".to_owned(), "1.0".to_owned()),
    };
    let id = Value::from(id.as_str());
    let written = write!(
        text,
        r#"{id}:{{"value":{value},"max":{max},"state":"{state}","node_id":{id},"prompt_id":"{job}","display_node_id":{id},"parent_node_id":null,"real_node_id":{id}}}"#
    );
    written.expect("a text takes everything");
}

/// What `execution_error` tells, and the history after it.
pub(crate) fn error_data(job: &Job, report: &RunReport, at_ms: i64) -> Option<Value> {
    let error = failure(job)?;
    let mut data = match job.status {
        // Where it was when its time was over.
        JobStatus::Expired => interrupted_data(prompt_id(job), report, at_ms),
        JobStatus::Queued
        | JobStatus::Running
        | JobStatus::Canceling
        | JobStatus::Succeeded
        | JobStatus::Canceled
        | JobStatus::Failed => run_data(prompt_id(job), report),
    };
    if let Some(node) = &error.node_id {
        data["node_id"] = json!(node.as_str());
        data["node_type"] = json!(error.class_type.as_deref().unwrap_or(""));
    }
    // As clients know it: the message of an exception ends its line.
    data["exception_message"] = json!(format!("{}\n", error.message.trim_end()));
    data["exception_type"] = json!(exception_type(&error));
    let traceback = error.traceback.iter().flat_map(|text| text.lines());
    data["traceback"] = traceback.collect();
    data["current_inputs"] = Value::Object(report.failed_inputs.clone());
    data["current_outputs"] = report.executed().map(NodeId::as_str).collect();
    data["timestamp"] = json!(at_ms);
    Some(data)
}

/// What `execution_interrupted` tells, and the history after it.
pub(crate) fn interrupted_data(job: JobId, report: &RunReport, at_ms: i64) -> Value {
    let mut data = run_data(job, report);
    let current = report.current();
    let stopped = report.stopped_at.as_ref();
    let node = stopped.or(current.map(|(id, _)| id));
    let class = node.and_then(|id| report.nodes.get(id)?.class.clone());
    data["node_id"] = json!(node.map_or("", NodeId::as_str));
    data["node_type"] = json!(class.unwrap_or_default());
    data["timestamp"] = json!(at_ms);
    data
}

fn run_data(job: JobId, report: &RunReport) -> Value {
    let executed: Vec<&str> = report.executed().map(NodeId::as_str).collect();
    json!({"prompt_id": job.to_string(), "node_id": "", "node_type": "", "executed": executed})
}

/// A line of a node: type 3.
pub(crate) fn line(node: &NodeId, line: &str) -> Frame {
    let node = node.as_str().as_bytes();
    let mut head = BytesMut::with_capacity(8 + node.len() + line.len());
    head.put_u32(TEXT);
    head.put_u32(length(node.len()));
    head.put(node);
    head.put(line.as_bytes());
    Frame::Binary {
        head: head.freeze(),
        rest: Bytes::new(),
    }
}

/// A picture: type 4 for clients that asked for what it shows, type 1 for others.
pub(crate) fn picture(job: JobId, preview: &Preview, metadata: bool) -> Frame {
    let mut head = BytesMut::new();
    if metadata {
        let node = preview.node_id.as_str();
        let shown = json!({
            "node_id": node,
            "prompt_id": job.to_string(),
            "display_node_id": node,
            "parent_node_id": null,
            "real_node_id": node,
            "image_type": preview.content_type,
        });
        let shown = shown.to_string();
        head.put_u32(PREVIEW_IMAGE_WITH_METADATA);
        head.put_u32(length(shown.len()));
        head.put(shown.as_bytes());
    } else {
        head.put_u32(PREVIEW_IMAGE);
        head.put_u32(if preview.content_type == "image/png" {
            2
        } else {
            1
        });
    }
    Frame::Binary {
        head: head.freeze(),
        rest: preview.bytes.clone(),
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("ids of nodes are short")
}
