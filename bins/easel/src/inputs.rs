//! What goes into a graph: inputs that the command line sets, and files that the graph names.
//!
//! Every file is referred to by its asset, so that two runs at once with files of one name cannot take each other's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use client::{Client, FileToUpload};
use serde_json::{Map, Value, json};

use crate::arguments::Assignment;
use crate::failure::Failure;
use crate::graph::GraphFile;
use crate::{media, terminal};

/// Classes whose names begin so read files.
const LOADERS: &str = "Load";

/// What older clients write behind a name to say which folder it is in.
const ANNOTATIONS: [&str; 3] = [" [input]", " [output]", " [temp]"];

/// A value that the command line sets.
#[derive(Debug, PartialEq)]
enum Meant {
    Value(Value),
    File(PathBuf),
}

/// The graph with its inputs set; every file of it is an asset by then.
pub(crate) async fn apply(
    mut graph: GraphFile,
    assignments: &[Assignment],
    client: &Client,
    quiet: bool,
) -> Result<Value, Failure> {
    let mut uploads = Uploads {
        client,
        quiet,
        done: HashMap::new(),
    };
    // Everything is checked before anything travels.
    let mut meant = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let (node, field) = find(assignment, &graph)?;
        let value = value_of(assignment, &graph, &node, &field)?;
        meant.push((node, field, value));
    }
    for (node, field, value) in meant {
        let value = match value {
            Meant::Value(value) => value,
            Meant::File(path) => uploads.reference(&path).await?,
        };
        set(&mut graph, &node, field, value)?;
    }
    for (node, field, path) in named_files(&graph) {
        let reference = uploads.reference(&path).await?;
        set(&mut graph, &node, field, reference)?;
    }
    Ok(Value::Object(graph.nodes))
}

/// Uploads on their way: a file that is named twice travels once.
struct Uploads<'a> {
    client: &'a Client,
    quiet: bool,
    done: HashMap<PathBuf, String>,
}

impl Uploads<'_> {
    async fn reference(&mut self, path: &Path) -> Result<Value, Failure> {
        let id = match self.done.get(path) {
            Some(id) => id.clone(),
            None => {
                let asset = self.client.upload(&file(path, None)?).await?;
                if !self.quiet {
                    terminal::say(&format!("{} is asset {}", path.display(), asset.id));
                }
                self.done.insert(path.to_owned(), asset.id.clone());
                asset.id
            }
        };
        Ok(json!({"__type": "core/ASSET", "info": {"id": id}}))
    }
}

/// A file to upload, under its own name or another.
pub(crate) fn file(path: &Path, name: Option<&str>) -> Result<FileToUpload, Failure> {
    let own = path.file_name().and_then(|name| name.to_str());
    let name = name.or(own).ok_or_else(|| {
        Failure::usage(format!("{}: a file needs a name of text", path.display()))
            .hint("rename the file, or give a name with --name")
    })?;
    Ok(FileToUpload {
        path: path.to_owned(),
        file_path: name.to_owned(),
        content_type: media::of(path)
            .unwrap_or("application/octet-stream")
            .to_owned(),
        tags: Vec::new(),
        expires_in_s: None,
    })
}

/// Which node and field are meant.
fn find(assignment: &Assignment, graph: &GraphFile) -> Result<(String, String), Failure> {
    let place = &assignment.place;
    let dots = place.match_indices('.').map(|(at, _)| at);
    let mut splits = dots.map(|at| (&place[..at], &place[at + 1..]));
    let fitting = splits.find(|(node, field)| graph.nodes.contains_key(*node) && !field.is_empty());
    match fitting {
        Some((node, field)) => Ok((node.to_owned(), field.to_owned())),
        None => Err(Failure::usage(format!(
            "--input {place}: the workflow has no such node; it has {}",
            graph.listed()
        ))),
    }
}

/// What a text means in this place: `@FILE` is a file everywhere, a file that exists is one in a node that loads files, and
/// the rest is JSON where it is some, unless the graph has a text there.
fn value_of(
    assignment: &Assignment,
    graph: &GraphFile,
    node: &str,
    field: &str,
) -> Result<Meant, Failure> {
    let text = assignment.value.as_str();
    if let Some(literal) = text.strip_prefix("@@") {
        return Ok(Meant::Value(Value::String(format!("@{literal}"))));
    }
    if let Some(name) = text.strip_prefix('@') {
        let path = PathBuf::from(name);
        return if path.is_file() {
            Ok(Meant::File(path))
        } else {
            Err(Failure::usage(format!(
                "--input {}={text}: there is no file {name:?}",
                assignment.place
            ))
            .hint("correct the path; a text that begins with @ is written @@"))
        };
    }
    let loads = graph
        .class(node)
        .is_some_and(|class| class.starts_with(LOADERS));
    if loads && Path::new(text).is_file() {
        return Ok(Meant::File(PathBuf::from(text)));
    }
    let before = graph.nodes[node].get("inputs").map(|inputs| &inputs[field]);
    if before.is_some_and(Value::is_string) {
        return Ok(Meant::Value(Value::String(text.to_owned())));
    }
    let literal = json_text::read_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Ok(Meant::Value(literal))
}

fn set(graph: &mut GraphFile, node: &str, field: String, value: Value) -> Result<(), Failure> {
    let inputs = graph.nodes.get_mut(node).and_then(Value::as_object_mut);
    let inputs = inputs.map(|node| {
        node.entry("inputs")
            .or_insert_with(|| Value::Object(Map::new()))
    });
    let inputs = inputs.and_then(Value::as_object_mut).ok_or_else(|| {
        Failure::usage(format!(
            "node {node} is no object with inputs; correct the workflow"
        ))
    })?;
    inputs.insert(field, value);
    Ok(())
}

/// Every place of a node that loads files where the graph names a file that is beside it, or here.
fn named_files(graph: &GraphFile) -> Vec<(String, String, PathBuf)> {
    let mut found = Vec::new();
    for (id, node) in &graph.nodes {
        let loads = graph
            .class(id)
            .is_some_and(|class| class.starts_with(LOADERS));
        let inputs = node.get("inputs").and_then(Value::as_object);
        for (field, value) in inputs.into_iter().flatten().filter(|_| loads) {
            let Some(text) = value.as_str().filter(|text| !text.is_empty()) else {
                continue;
            };
            let name = ANNOTATIONS
                .iter()
                .find_map(|annotation| text.strip_suffix(annotation))
                .unwrap_or(text);
            let beside = [graph.folder.join(name), PathBuf::from(name)];
            if let Some(path) = beside.into_iter().find(|path| path.is_file()) {
                found.push((id.clone(), field.clone(), path));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(value: Value, folder: &Path) -> GraphFile {
        let Value::Object(nodes) = value else {
            panic!("an object");
        };
        GraphFile {
            nodes,
            folder: folder.to_owned(),
        }
    }

    fn meant(graph: &GraphFile, text: &str) -> Result<Meant, String> {
        let assignment: Assignment = text.parse().expect("an assignment");
        let (node, field) = find(&assignment, graph).map_err(|failure| failure.message)?;
        value_of(&assignment, graph, &node, &field).map_err(|failure| failure.message)
    }

    #[test]
    fn the_graph_tells_what_a_value_means() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("7");
        std::fs::write(&file, "x").expect("written");
        let graph = graph(
            json!({
                "1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}},
                "2.5": {"class_type": "Text", "inputs": {"text": "before", "size": 3}},
            }),
            folder.path(),
        );
        let shown = file.display();
        assert_eq!(
            meant(&graph, &format!("1.image={shown}")),
            Ok(Meant::File(file.clone()))
        );
        assert_eq!(
            meant(&graph, &format!("2.5.text=@{shown}")),
            Ok(Meant::File(file.clone()))
        );
        assert_eq!(
            meant(&graph, &format!("2.5.text={shown}")),
            Ok(Meant::Value(json!(file)))
        );
        assert_eq!(meant(&graph, "2.5.text=12"), Ok(Meant::Value(json!("12"))));
        assert_eq!(meant(&graph, "2.5.size=12"), Ok(Meant::Value(json!(12))));
        assert_eq!(
            meant(&graph, "2.5.other=a b"),
            Ok(Meant::Value(json!("a b")))
        );
        assert_eq!(
            meant(&graph, "2.5.text=@@me"),
            Ok(Meant::Value(json!("@me")))
        );
        assert!(meant(&graph, "1.image=@gone.png").is_err());
        let refused = meant(&graph, "9.x=1").expect_err("no such node");
        assert!(
            refused.contains("it has 1 (LoadImage), 2.5 (Text)"),
            "{refused}"
        );
    }

    #[test]
    fn files_beside_the_graph_are_found_in_loaders_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.png");
        std::fs::write(&file, "x").expect("written");
        let graph = graph(
            json!({
                "1": {"class_type": "LoadImage", "inputs": {"image": "a.png [input]"}},
                "2": {"class_type": "Text", "inputs": {"text": "a.png"}},
                "3": {"class_type": "LoadImage", "inputs": {"image": "gone.png"}},
            }),
            folder.path(),
        );
        assert_eq!(
            named_files(&graph),
            [("1".to_owned(), "image".to_owned(), file)]
        );
    }
}
