//! What runs report, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use workflow_core::{NodeEvent, NodeId, Report};

use crate::jobs::documents::ProgressDocument;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReportDocument {
    /// The fraction and the rest.
    Progress(f64, ProgressDocument),
    Cached(Vec<String>),
    Started(String, String),
    Step(String, u32, u32),
    Executed(String, Value),
    Failed(String, Map<String, Value>),
    Finished(String),
    StoppedAt(String),
    Text(String, String),
}

impl From<&Report> for ReportDocument {
    fn from(report: &Report) -> Self {
        match report {
            Report::Progress(progress) => {
                Self::Progress(progress.value, ProgressDocument::from(progress))
            }
            Report::Node(NodeEvent::Cached(nodes)) => {
                Self::Cached(nodes.iter().map(ToString::to_string).collect())
            }
            Report::Node(NodeEvent::Started { node, class }) => {
                Self::Started(node.to_string(), class.clone())
            }
            Report::Node(NodeEvent::Step { node, step, steps }) => {
                Self::Step(node.to_string(), *step, *steps)
            }
            Report::Node(NodeEvent::Executed { node, ui }) => {
                Self::Executed(node.to_string(), ui.clone())
            }
            Report::Node(NodeEvent::Failed { node, inputs }) => {
                Self::Failed(node.to_string(), inputs.clone())
            }
            Report::Node(NodeEvent::Finished { node }) => Self::Finished(node.to_string()),
            Report::StoppedAt(node) => Self::StoppedAt(node.to_string()),
            Report::Text { node, line } => Self::Text(node.to_string(), line.clone()),
        }
    }
}

impl From<ReportDocument> for Report {
    fn from(document: ReportDocument) -> Self {
        let node = |id: String| NodeId::from(id.as_str());
        match document {
            ReportDocument::Progress(value, rest) => Self::Progress(rest.with(value)),
            ReportDocument::Cached(nodes) => {
                Self::Node(NodeEvent::Cached(nodes.into_iter().map(node).collect()))
            }
            ReportDocument::Started(id, class) => Self::Node(NodeEvent::Started {
                node: node(id),
                class,
            }),
            ReportDocument::Step(id, step, steps) => Self::Node(NodeEvent::Step {
                node: node(id),
                step,
                steps,
            }),
            ReportDocument::Executed(id, ui) => {
                Self::Node(NodeEvent::Executed { node: node(id), ui })
            }
            ReportDocument::Failed(id, inputs) => Self::Node(NodeEvent::Failed {
                node: node(id),
                inputs,
            }),
            ReportDocument::Finished(id) => Self::Node(NodeEvent::Finished { node: node(id) }),
            ReportDocument::StoppedAt(id) => Self::StoppedAt(node(id)),
            ReportDocument::Text(id, line) => Self::Text {
                node: node(id),
                line,
            },
        }
    }
}
