//! The JSON form of what a run told of its nodes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_core::{NodeReport, RunReport};

#[derive(Serialize, Deserialize)]
pub(super) struct ReportDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    cached: Option<Vec<String>>,
    nodes: Vec<NodeDocument>,
    shown: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_at: Option<String>,
    // Reports of before it was kept do not have it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    failed_inputs: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct NodeDocument {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<(u32, u32)>,
    finished: bool,
    // In ms since 1970. Reports of before they were kept do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
}

impl From<&RunReport> for ReportDocument {
    fn from(report: &RunReport) -> Self {
        let nodes = report.nodes.iter().map(|(id, node)| NodeDocument {
            id: id.to_string(),
            class: node.class.clone(),
            steps: node.steps,
            finished: node.finished,
            started_at: node.started_at.map(|at| at.as_millisecond()),
            ended_at: node.ended_at.map(|at| at.as_millisecond()),
        });
        let shown = report.shown.iter();
        let cached = report.cached.as_ref();
        Self {
            cached: cached.map(|nodes| nodes.iter().map(ToString::to_string).collect()),
            nodes: nodes.collect(),
            shown: shown.map(|(id, ui)| (id.to_string(), ui.clone())).collect(),
            stopped_at: report.stopped_at.as_ref().map(ToString::to_string),
            failed_inputs: report.failed_inputs.clone(),
        }
    }
}

fn time(ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(ms).ok()
}

impl From<ReportDocument> for RunReport {
    fn from(document: ReportDocument) -> Self {
        let nodes = document.nodes.into_iter().map(|node| {
            let report = NodeReport {
                class: node.class,
                steps: node.steps,
                finished: node.finished,
                started_at: node.started_at.and_then(time),
                ended_at: node.ended_at.and_then(time),
            };
            (node.id.as_str().into(), report)
        });
        let cached = document.cached.as_ref();
        Self::of(
            cached.map(|nodes| nodes.iter().map(|id| id.as_str().into()).collect()),
            nodes.collect(),
            document
                .shown
                .into_iter()
                .map(|(id, ui)| (id.as_str().into(), ui))
                .collect(),
            document.stopped_at.as_deref().map(Into::into),
            document.failed_inputs,
        )
    }
}
