//! The file with the graph: the graph itself, or a body that submits one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::failure::Failure;

/// How a graph in API format is had.
const EXPORT: &str =
    "export the workflow with \"Export (API)\", in older editors \"Save (API Format)\"";

/// The fields of the bodies that submit a graph, to the older API and to the newer one.
const WRAPPERS: [&str; 2] = ["prompt", "workflow"];

/// The longest file that is read.
const LONGEST: u64 = 256 << 20;

/// A graph as it stands in its file, in the order of the file.
#[derive(Debug)]
pub(crate) struct GraphFile {
    /// The nodes by id.
    pub(crate) nodes: Map<String, Value>,
    /// The folder of the file: what the graph names is looked for there first.
    pub(crate) folder: PathBuf,
}

impl GraphFile {
    /// Reads a file, and tells at once when it is none that could ever run.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let is_stdin = path == Path::new("-");
        let shown = if is_stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let bytes = read(path, is_stdin).map_err(|error| {
            Failure::usage(format!("{shown}: the workflow cannot be read: {error}"))
                .hint("correct the path")
        })?;
        let nodes = nodes(&bytes).map_err(|reason| Failure::usage(format!("{shown}: {reason}")))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { nodes, folder })
    }

    /// The class of a node, where it names one.
    pub(crate) fn class(&self, node: &str) -> Option<&str> {
        self.nodes.get(node)?.get("class_type")?.as_str()
    }

    /// The nodes with their classes, for people.
    pub(crate) fn listed(&self) -> String {
        let nodes = self.nodes.keys().map(|id| match self.class(id) {
            Some(class) => format!("{id} ({class})"),
            None => id.clone(),
        });
        nodes.collect::<Vec<_>>().join(", ")
    }
}

fn read(path: &Path, is_stdin: bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if is_stdin {
        io::stdin().lock().take(LONGEST).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn nodes(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err("this is UTF-16; save the file as UTF-8".to_owned());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let value =
        json_text::read(bytes).map_err(|error| format!("this is no JSON ({error}); {EXPORT}"))?;
    let Value::Object(nodes) = unwrapped(value) else {
        return Err(format!("the workflow is no object of nodes; {EXPORT}"));
    };
    if nodes.get("nodes").is_some_and(Value::is_array) && nodes.contains_key("links") {
        return Err(format!(
            "this is the format that the editor saves for itself, which only the editor can run; {EXPORT}"
        ));
    }
    if nodes.is_empty() {
        return Err(format!("the workflow has no nodes; {EXPORT}"));
    }
    Ok(nodes)
}

/// The graph of a body that submits one; anything else as it is. A field that is itself a node belongs to a graph.
fn unwrapped(mut value: Value) -> Value {
    for wrapper in WRAPPERS {
        if let Some(field) = value.get_mut(wrapper)
            && field.is_object()
            && field.get("class_type").is_none()
        {
            return field.take();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_either_api_holds_a_graph() {
        let plain = r#"{"1": {"class_type": "A"}}"#;
        for text in [
            plain.to_owned(),
            format!("{{\"prompt\": {plain}}}"),
            format!("\u{feff}{{\"workflow\": {plain}, \"metadata\": {{}}}}"),
        ] {
            let nodes = nodes(text.as_bytes()).expect(&text);
            assert_eq!(nodes["1"]["class_type"], "A");
        }
        let named = nodes(br#"{"prompt": {"class_type": "A"}}"#).expect("a node of this name");
        assert!(named.contains_key("prompt"));
    }

    #[test]
    fn what_can_never_run_is_told_with_the_way_out() {
        for (text, words) in [
            (&b"{"[..], "no JSON"),
            (b"[]", "no object"),
            (b"{}", "no nodes"),
            (br#"{"nodes": [], "links": []}"#, "Export (API)"),
            (b"\xff\xfe{\0", "UTF-16"),
        ] {
            let reason = nodes(text).expect_err("no graph");
            assert!(reason.contains(words), "{reason}");
        }
    }
}
