//! Subgraphs that PyPI installs beside the page: it lists them among its nodes, to be put into a graph as one node each.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The package and the folder in it.
const PACKAGE: (&str, &str) = ("comfyui_subgraph_blueprints", "blueprints");

/// Most bytes of a subgraph's file; the largest of the package has 140 kB.
const MOST_BYTES: u64 = 4 << 20;

/// Most subgraphs that are listed; the package has a bit more than 100.
const MOST: usize = 2000;

/// The names of subgraphs by file, as they were when the file was read last.
#[derive(Debug, Default)]
pub(super) struct Subgraphs {
    read: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Debug)]
struct Known {
    changed: SystemTime,
    length: u64,
    /// `None` for a file that is no graph.
    name: Option<String>,
}

/// A graph that is one node, and what is in that.
#[derive(Deserialize)]
struct Graph {
    nodes: Vec<Node>,
    definitions: Definitions,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    class: String,
}

#[derive(Deserialize)]
struct Definitions {
    subgraphs: Vec<Subgraph>,
}

#[derive(Deserialize)]
struct Subgraph {
    id: String,
    name: String,
}

impl Subgraphs {
    /// All of them as the page asks for them, by id and without their graphs. Reads files.
    pub(super) fn list(&self, root: &Path) -> Value {
        // One reader at a time: the others find everything read.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files(root);
        read.retain(|path, _| files.contains(path));
        let told = files.iter().filter_map(|path| {
            let name = name_in(&mut read, path)?;
            Some((id(path)?, entry(name)))
        });
        Value::Object(told.collect::<Map<_, _>>())
    }

    /// The one of this id, with its graph as a text. Reads files.
    pub(super) fn get(&self, root: &Path, wanted: &str) -> Option<Value> {
        let files = files(root);
        let path = files
            .iter()
            .find(|path| id(path).as_deref() == Some(wanted))?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = entry(name_in(&mut read, path)?);
        drop(read);
        entry["data"] = text_of(path)?.into();
        Some(entry)
    }
}

fn entry(name: &str) -> Value {
    json!({"source": "templates", "name": name, "info": {"node_pack": "comfyui"}})
}

/// An id tells nothing of where the file lies, and stays the same wherever the package is installed.
fn id(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    Some(blake3::hash(name.as_bytes()).to_hex().to_string())
}

/// The files of all subgraphs, in the order of their names.
fn files(root: &Path) -> Vec<PathBuf> {
    let (package, folder) = PACKAGE;
    let folders = crate::v1::web::packages(root, package, folder).unwrap_or_default();
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let files = files.flatten().filter_map(|file| Some(file.ok()?.path()));
    let is_json = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let mut files: Vec<PathBuf> = files.filter(is_json).take(MOST).collect();
    files.sort();
    files
}

/// What a subgraph is called, read again if its file changed: by the node that its graph is, which has the name that people
/// know, and not by its file.
fn name_in<'a>(read: &'a mut HashMap<PathBuf, Known>, path: &Path) -> Option<&'a str> {
    let metadata = small(path)?;
    let (changed, length) = (metadata.modified().ok()?, metadata.len());
    let is_known = read
        .get(path)
        .is_some_and(|known| known.changed == changed && known.length == length);
    if !is_known {
        let graph = text_of(path).and_then(|text| serde_json::from_str::<Graph>(&text).ok());
        let name = graph.and_then(|graph| {
            let class = &graph.nodes.first()?.class;
            let mut inner = graph.definitions.subgraphs.into_iter();
            Some(inner.find(|inner| inner.id == *class)?.name)
        });
        let known = Known {
            changed,
            length,
            name,
        };
        read.insert(path.to_owned(), known);
    }
    read.get(path)?.name.as_deref()
}

/// What the file system tells of a file that is small enough and no link to elsewhere.
fn small(path: &Path) -> Option<Metadata> {
    let metadata = path.symlink_metadata().ok()?;
    (metadata.is_file() && metadata.len() <= MOST_BYTES).then_some(metadata)
}

fn text_of(path: &Path) -> Option<String> {
    small(path)?;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of a page beside a package with these files.
    fn installed(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("the_page/static");
        let package = folder.path().join(PACKAGE.0).join(PACKAGE.1);
        for folder in [&root, &package] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        for (name, text) in files {
            std::fs::write(package.join(name), text).expect("a file");
        }
        (folder, root)
    }

    const BLUR: &str = r#"{"nodes": [{"type": "u"}], "definitions": {"subgraphs": [{"id": "t", "name": "Inner"}, {"id": "u", "name": "Soft Blur"}]}}"#;

    #[test]
    fn subgraphs_are_listed_by_name_and_sent_one_by_one() {
        let files = [
            ("soft_blur.json", BLUR),
            ("broken.json", "{"),
            ("other.json", "[]"),
            ("README.md", BLUR),
        ];
        let (_folder, root) = installed(&files);
        let subgraphs = Subgraphs::default();
        let list = subgraphs.list(&root);
        let (id, entry) = list
            .as_object()
            .expect("an object")
            .iter()
            .next()
            .expect("one");
        assert_eq!(list.as_object().map(Map::len), Some(1), "{list}");
        let told =
            json!({"source": "templates", "name": "Soft Blur", "info": {"node_pack": "comfyui"}});
        assert_eq!(entry, &told);
        let sent = subgraphs.get(&root, id).expect("the subgraph");
        assert_eq!(sent["data"], BLUR);
        assert_eq!(subgraphs.get(&root, "soft_blur"), None);
    }

    #[test]
    fn a_file_that_changed_is_read_again() {
        let (folder, root) = installed(&[("a.json", BLUR)]);
        let subgraphs = Subgraphs::default();
        assert!(subgraphs.list(&root).to_string().contains("Soft Blur"));
        let file = folder.path().join(PACKAGE.0).join(PACKAGE.1).join("a.json");
        std::fs::write(&file, BLUR.replace("Soft Blur", "A Softer Blur")).expect("a file");
        assert!(subgraphs.list(&root).to_string().contains("A Softer Blur"));
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(subgraphs.list(&root), json!({}));
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_package_are_not_followed() {
        let (folder, root) = installed(&[]);
        let secret = folder.path().join("secret.json");
        std::fs::write(&secret, BLUR).expect("a file");
        let link = folder.path().join(PACKAGE.0).join(PACKAGE.1).join("a.json");
        std::os::unix::fs::symlink(&secret, &link).expect("a link");
        assert_eq!(Subgraphs::default().list(&root), json!({}));
    }
}
