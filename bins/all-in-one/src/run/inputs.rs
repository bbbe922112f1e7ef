//! What goes into the graph: inputs that the command line sets, and files that the graph names.
//!
//! A file that the graph names keeps its name, so that the workflow in a picture's metadata is the one that was written; one
//! that the command line brings is referred to by its asset, so that no name can be mistaken for another.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use accounts::Principal;
use asset_store::{AssetId, FilePath};
use bytes::Bytes;
use serde_json::{Value, json};
use server_kit::program::Failure;
use workflow_core::{NodeId, Socket};
use workflow_server::Stack;

use super::files::{self, upload};
use super::graph::GraphFile;

/// `NODE.FIELD=FILE_OR_VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// `NODE.FIELD`; both may hold dots, so the graph tells where the node ends.
    place: String,
    value: String,
}

impl FromStr for Assignment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text
            .split_once('=')
            .filter(|(place, _)| place.contains('.'));
        let (place, value) = parts.ok_or(
            "write it as NODE.FIELD=FILE_OR_VALUE, such as 1.image=photo.png or 5.width=640",
        )?;
        Ok(Self {
            place: place.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// The graph with its inputs set, as it is submitted; every file of it is an asset by then.
pub(super) async fn apply(
    mut graph: GraphFile,
    assignments: &[Assignment],
    stack: &Stack,
    principal: &Principal,
) -> Result<Bytes, Failure> {
    for assignment in assignments {
        let (node, field) = assignment.find(&graph)?;
        let socket = socket(&graph, stack, &node, &field)?;
        let value = match socket {
            Some(Socket::File { .. }) if is_address(&assignment.value) => {
                Value::String(assignment.value.clone())
            }
            Some(Socket::File { .. }) => {
                let file = Path::new(&assignment.value);
                if !file.is_file() {
                    let advice = match assignment.value.starts_with("http://") {
                        true => "pictures are loaded from https addresses only; write https://",
                        false => "there is no such file; correct the path",
                    };
                    return Err(usage(format!(
                        "--input {}={}: {advice}",
                        assignment.place, assignment.value
                    )));
                }
                let name = file.file_name().and_then(|name| name.to_str());
                let name = name.and_then(|name| name.parse().ok());
                reference(upload(&stack.assets, principal, file, name, stack.timer.now()).await?)
            }
            Some(Socket::String) => Value::String(assignment.value.clone()),
            Some(_) | None => literal(&assignment.value),
        };
        let inputs = graph.inputs_mut(&node).ok_or_else(|| {
            usage(format!(
                "node {node} is no object with inputs; correct the workflow"
            ))
        })?;
        inputs.insert(field, value);
    }
    bring_named_files(&mut graph, stack, principal).await?;
    Ok(Value::Object(graph.nodes).to_string().into())
}

/// Uploads the files that the graph names and that are found.
async fn bring_named_files(
    graph: &mut GraphFile,
    stack: &Stack,
    principal: &Principal,
) -> Result<(), Failure> {
    let now = stack.timer.now();
    for (node, field, text) in named_files(graph, stack) {
        if is_address(&text) {
            continue;
        }
        let written = files::without_folder(&text);
        let name: Option<FilePath> = written.parse().ok();
        if let Some(file) = files::look_for(written, &graph.folder) {
            let asset = upload(&stack.assets, principal, &file, name.clone(), now).await?;
            // A name that leads out of its folder is no name of an asset; its file is referred to instead.
            if name.is_none()
                && let Some(inputs) = graph.inputs_mut(&node)
            {
                inputs.insert(field, reference(asset));
            }
            continue;
        }
        let known = match &name {
            Some(name) => stack.assets.by_path(&principal.account, name, now).await,
            None => Ok(None),
        };
        if known.map_err(|error| Failure::fault(&error))?.is_none() {
            let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
            return Err(usage(format!(
                "node {node} ({}), input `{field}`: there is no file {written:?} in the folder of the workflow ({}) \
                 or in the current folder ({}); put it there, or name one with --input {node}.{field}=FILE",
                graph.class(node.as_str()).unwrap_or_default(),
                graph.folder.display(),
                here.display(),
            )));
        }
    }
    Ok(())
}

/// Every place of the graph that names a file: node, field and name.
fn named_files(graph: &GraphFile, stack: &Stack) -> Vec<(NodeId, String, String)> {
    let catalog = stack.engine.nodes();
    let mut found = Vec::new();
    for (id, node) in &graph.nodes {
        let definition = graph.class(id).and_then(|class| catalog.get(class));
        let inputs = node.get("inputs").and_then(Value::as_object);
        let (Some(definition), Some(inputs)) = (definition, inputs) else {
            continue;
        };
        for (field, value) in inputs {
            let socket = definition.input(field).map(|input| &input.socket);
            if let (Some(Socket::File { .. }), Some(text)) = (socket, value.as_str()) {
                found.push((id.as_str().into(), field.clone(), text.to_owned()));
            }
        }
    }
    found
}

/// What the class of a node wants in an input; `None` where nobody knows, which the validator will tell.
fn socket(
    graph: &GraphFile,
    stack: &Stack,
    node: &NodeId,
    field: &str,
) -> Result<Option<Socket>, Failure> {
    let catalog = stack.engine.nodes();
    let class = graph.class(node.as_str());
    let Some(definition) = class.and_then(|class| catalog.get(class)) else {
        return Ok(None);
    };
    match definition.input(field) {
        Some(input) => Ok(Some(input.socket.clone())),
        None => {
            let names: Vec<&str> = definition
                .inputs
                .iter()
                .map(|input| input.name.as_str())
                .collect();
            Err(usage(format!(
                "node {node} ({}) has no input `{field}`; it has {}",
                definition.class,
                names.join(", ")
            )))
        }
    }
}

impl Assignment {
    /// Which node and field are meant.
    fn find(&self, graph: &GraphFile) -> Result<(NodeId, String), Failure> {
        let dots = self.place.match_indices('.').map(|(at, _)| at);
        let splits = dots.map(|at| (&self.place[..at], &self.place[at + 1..]));
        let mut fitting =
            splits.filter(|(node, field)| graph.nodes.contains_key(*node) && !field.is_empty());
        match fitting.next() {
            Some((node, field)) => Ok((node.into(), field.to_owned())),
            None => Err(usage(format!(
                "--input {}: the workflow has no such node; it has {}",
                self.place,
                graph.listed()
            ))),
        }
    }
}

/// Whether a node loads this from the web itself.
fn is_address(text: &str) -> bool {
    text.starts_with("https://")
}

/// What a text means as a value: JSON where it is some, otherwise itself.
fn literal(text: &str) -> Value {
    json_text::read_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn reference(asset: AssetId) -> Value {
    json!({"__type": "core/ASSET", "info": {"id": asset.to_string()}})
}

fn usage(message: String) -> Failure {
    Failure {
        exit_code: 2,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(value: &Value) -> GraphFile {
        GraphFile {
            nodes: value.as_object().expect("an object").clone(),
            folder: ".".into(),
        }
    }

    #[test]
    fn an_assignment_has_a_place_and_a_value() {
        let read: Assignment = "1.image=a=b.png".parse().expect("an assignment");
        assert_eq!(
            (read.place.as_str(), read.value.as_str()),
            ("1.image", "a=b.png")
        );
        for bad in ["", "1.image", "image=a.png", "=x"] {
            assert!(bad.parse::<Assignment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_graph_tells_where_the_node_ends() {
        let graph = graph(&json!({"1": {"class_type": "A"}, "2.3": {"class_type": "B"}}));
        let find = |text: &str| {
            let found = text
                .parse::<Assignment>()
                .expect("an assignment")
                .find(&graph);
            found.map(|(node, field)| (node.to_string(), field))
        };
        assert_eq!(find("1.image=x"), Ok(("1".to_owned(), "image".to_owned())));
        assert_eq!(find("1.a.b=x"), Ok(("1".to_owned(), "a.b".to_owned())));
        assert_eq!(
            find("2.3.image=x"),
            Ok(("2.3".to_owned(), "image".to_owned()))
        );
        let refused = find("9.image=x").expect_err("no such node");
        assert_eq!(
            refused.message,
            "--input 9.image: the workflow has no such node; it has 1 (A), 2.3 (B)"
        );
    }

    #[test]
    fn a_value_is_json_or_itself() {
        assert_eq!(literal("640"), json!(640));
        assert_eq!(literal("[\"1\", 0]"), json!(["1", 0]));
        assert_eq!(literal("lanczos"), json!("lanczos"));
    }
}
