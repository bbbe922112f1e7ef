//! The file with the graph.

use std::path::{Path, PathBuf};

use kit::program::Failure;
use serde_json::{Map, Value};
use workflow_core::{Graph, NodeId};

use super::folder_of;

/// A graph as it stands in its file, in the order of the file.
#[derive(Debug)]
pub(super) struct GraphFile {
    /// The nodes by id.
    pub(super) nodes: Map<String, Value>,
    /// The folder of the file: what the graph names is looked for there first.
    pub(super) folder: PathBuf,
}

impl GraphFile {
    /// Reads a file, and tells at once when it is none that could ever run.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |reason: String| Failure {
            exit_code: 2,
            message: format!("{shown}: {reason}"),
        };
        let text = std::fs::read(path).map_err(|error| {
            failed(format!(
                "the workflow cannot be read; correct the path: {error}"
            ))
        })?;
        let value: Value = serde_json::from_slice(&text).map_err(|error| {
            failed(format!(
                "this is no JSON; export the workflow with \"Save (API Format)\": {error}"
            ))
        })?;
        Graph::from_value(value.clone()).map_err(|error| failed(error.to_string()))?;
        let Value::Object(nodes) = value else {
            return Err(failed("the workflow is no object of nodes".to_owned()));
        };
        let folder = folder_of(path).to_owned();
        Ok(Self { nodes, folder })
    }

    /// The class of a node, where it names one.
    pub(super) fn class(&self, node: &str) -> Option<&str> {
        self.nodes.get(node)?.get("class_type")?.as_str()
    }

    /// The nodes with their classes, for people.
    pub(super) fn listed(&self) -> String {
        let nodes = self.nodes.keys().map(|id| match self.class(id) {
            Some(class) => format!("{id} ({class})"),
            None => id.clone(),
        });
        nodes.collect::<Vec<_>>().join(", ")
    }

    /// The inputs of a node that is there; made when the node has none.
    pub(super) fn inputs_mut(&mut self, node: &NodeId) -> Option<&mut Map<String, Value>> {
        let node = self.nodes.get_mut(node.as_str())?.as_object_mut()?;
        let inputs = node
            .entry("inputs")
            .or_insert_with(|| Value::Object(Map::new()));
        inputs.as_object_mut()
    }
}
