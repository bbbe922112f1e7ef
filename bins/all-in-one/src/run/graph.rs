//! The file with the graph: the graph itself, or what holds one as a submission to a server does.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use server_kit::program::Failure;
use workflow_core::{Graph, GraphError, NodeId};

use super::folder_of;

/// A graph as it stands in its file, in the order of the file.
#[derive(Debug)]
pub(super) struct GraphFile {
    /// The nodes by id.
    pub(super) nodes: Map<String, Value>,
    /// The folder of the file: what the graph names is looked for there first.
    pub(super) folder: PathBuf,
}

/// What editors on Windows write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What they write before UTF-16, which a redirection of PowerShell makes.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// How a graph in API format is had.
const EXPORT: &str =
    "export the workflow with \"Export (API)\", in older editors \"Save (API Format)\"";

/// The fields of the bodies that submit a graph, to the older API and to the newer one.
const WRAPPERS: [&str; 2] = ["prompt", "workflow"];

/// The graph of a body that submits one; anything else as it is. A field that is itself a node belongs to a graph.
fn unwrapped(mut value: Value) -> Value {
    let is_node = |field: &Value| field.get("class_type").is_some();
    for wrapper in WRAPPERS {
        if let Some(field) = value.get_mut(wrapper)
            && field.is_object()
            && !is_node(field)
        {
            return field.take();
        }
    }
    value
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
        if UTF_16.iter().any(|mark| text.starts_with(mark)) {
            return Err(failed("this is UTF-16; save the file as UTF-8".to_owned()));
        }
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        let value = json_text::read(text)
            .map_err(|error| failed(format!("this is no JSON; {EXPORT}: {error}")))?;
        let value = unwrapped(value);
        Graph::from_value(value.clone()).map_err(|error| {
            if error != GraphError::UiFormat {
                return failed(error.to_string());
            }
            failed(format!(
                "this is the format that the ComfyUI editor saves for itself, which only the editor can run; {EXPORT}"
            ))
        })?;
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
