//! The index of the page's templates, each marked with what it needs.
//!
//! The page shows the tags of a template on its card and filters by them, and sorts by how much it is used. So a template gets
//! a tag in front of its own that says whether it runs here, one that does not says in its description what it lacks, and those
//! that run come first. Pictures that a template loads are in no package, so one that loads a file that the account does not have
//! says which file to choose.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Value, json};
use workflow_core::{ComfyuiNeed, NodeCatalog, comfyui_classes};

/// What the page draws itself and sends to no server.
const DRAWN: [&str; 4] = ["Note", "MarkdownNote", "Reroute", "PrimitiveNode"];

/// Modes of nodes that do not run: muted and bypassed.
const IDLE: [u64; 2] = [2, 4];

/// Most classes that a description names.
const MOST_NAMED: usize = 5;

/// More than any template is used: those that run here are sorted before the others, and between them those that run once files
/// are chosen.
const FIRST: u64 = 1_000_000_000;
const SECOND: u64 = FIRST / 2;

/// The classes of templates by file, as they were when the file was read last.
#[derive(Debug, Default)]
pub(super) struct Templates {
    read: Mutex<HashMap<PathBuf, Known>>,
}

#[derive(Debug)]
struct Known {
    changed: SystemTime,
    length: u64,
    /// `None` for a file that is no graph.
    classes: Option<BTreeSet<String>>,
}

/// A graph as the page saves it, as far as it tells which classes it has.
#[derive(Deserialize)]
struct Graph {
    #[serde(default)]
    nodes: Vec<Node>,
    #[serde(default)]
    definitions: Definitions,
}

#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    mode: u64,
}

#[derive(Default, Deserialize)]
struct Definitions {
    #[serde(default)]
    subgraphs: Vec<Subgraph>,
}

#[derive(Deserialize)]
struct Subgraph {
    id: String,
    #[serde(default)]
    nodes: Vec<Node>,
}

/// What a template lacks, from what a worker can give to what nobody here can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Nothing,
    Files,
    Worker,
    Model,
    Partner,
    Other,
}

impl Lack {
    fn tag(self) -> &'static str {
        match self {
            Self::Nothing => "Runs here",
            Self::Files => "Needs your files",
            Self::Worker => "Needs a worker",
            Self::Model => "Needs a model",
            Self::Partner => "Needs a partner",
            Self::Other => "Needs a node pack",
        }
    }

    /// What a description says of it, with the names of the files or the classes.
    fn sentence(self, named: &str) -> String {
        let needs = match self {
            Self::Nothing => return String::new(),
            Self::Files => return format!("Runs here with files of yours in place of {named}. "),
            Self::Worker | Self::Model => "a ComfyUI worker",
            Self::Partner => "a ComfyUI worker with an account at its partners",
            Self::Other => "a ComfyUI worker with more node packs",
        };
        format!("Needs {needs} for {named}. ")
    }

    /// What makes it come before others in the order by use.
    fn raises(self) -> u64 {
        match self {
            Self::Nothing => FIRST,
            Self::Files => SECOND,
            Self::Worker | Self::Model | Self::Partner | Self::Other => 0,
        }
    }
}

impl Templates {
    /// The index in `file`, marked, with our own template in front; without a file, ours alone. `None` if the file is no index.
    /// `files` are those that the account can load.
    pub(super) fn index(
        &self,
        file: Option<&Path>,
        find: impl Fn(&str) -> Option<PathBuf>,
        nodes: &NodeCatalog,
        files: &HashSet<String>,
    ) -> Option<Vec<u8>> {
        let groups = file
            .map(|file| std::fs::read(file).ok())
            .unwrap_or(Some(b"[]".to_vec()))?;
        let mut groups: Vec<Value> = serde_json::from_slice(&groups).ok()?;
        // One reader at a time: the others find everything read.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = HashSet::new();
        for group in &mut groups {
            for template in group.get_mut("templates")?.as_array_mut()? {
                let name = template.get("name")?.as_str()?;
                let Some(path) = find(name) else { continue };
                if let Some(classes) = classes_in(&mut read, &path) {
                    mark(template, classes, nodes, files);
                }
                found.insert(path);
            }
        }
        // What an index does not name any more is forgotten.
        read.retain(|path, _| found.contains(path));
        drop(read);
        if runs(super::FIRST_GRAPH, nodes) {
            groups.insert(0, own());
        }
        serde_json::to_vec(&groups).ok()
    }
}

/// Whether a path is that of an index: one for each language of the page.
pub(super) fn is_index(path: &str) -> bool {
    let language = path
        .strip_prefix("templates/index")
        .and_then(|rest| rest.strip_suffix(".json"));
    language.is_some_and(|language| match language.strip_prefix('.') {
        None => language.is_empty(),
        Some(language) => super::LANGUAGES.contains(&language),
    })
}

/// Whether every class of a graph is here.
pub(super) fn runs(graph: &[u8], nodes: &NodeCatalog) -> bool {
    let classes = serde_json::from_slice(graph).ok().map(classes_of);
    classes.is_some_and(|classes| classes.iter().all(|class| nodes.get(class).is_some()))
}

/// The group of our own templates.
fn own() -> Value {
    json!({
        "moduleName": "default",
        "title": "Easel",
        "type": "image",
        "isEssential": true,
        "templates": [{
            "name": super::FIRST_TEMPLATE,
            "title": "A first picture",
            "description": "A photograph, enlarged and given a soft light. It runs on this server, without a model.",
            "mediaType": "image",
            "mediaSubtype": "webp",
            "tags": [Lack::Nothing.tag()],
            "models": [],
            "openSource": true,
            "usage": 2 * FIRST,
        }],
    })
}

/// The classes of a template's file, read again if it changed.
fn classes_in<'a>(
    read: &'a mut HashMap<PathBuf, Known>,
    path: &Path,
) -> Option<&'a BTreeSet<String>> {
    let metadata = path.metadata().ok()?;
    let (changed, length) = (metadata.modified().ok()?, metadata.len());
    let is_known = read
        .get(path)
        .is_some_and(|known| known.changed == changed && known.length == length);
    if !is_known {
        let small = length <= crate::v1::web::MOST_BYTES;
        let bytes = small.then(|| std::fs::read(path).ok()).flatten();
        let graph = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let known = Known {
            changed,
            length,
            classes: graph.map(classes_of),
        };
        read.insert(path.to_owned(), known);
    }
    read.get(path)?.classes.as_ref()
}

/// The classes that a graph runs, those inside of its subgraphs too.
fn classes_of(graph: Graph) -> BTreeSet<String> {
    let subgraphs = graph.definitions.subgraphs;
    let own: HashSet<String> = subgraphs.iter().map(|inner| inner.id.clone()).collect();
    let inner = subgraphs.into_iter().flat_map(|inner| inner.nodes);
    let nodes = graph.nodes.into_iter().chain(inner);
    let runs = |node: &Node| {
        let class = node.class.as_str();
        !IDLE.contains(&node.mode) && !own.contains(class) && !DRAWN.contains(&class)
    };
    let nodes = nodes.filter(runs);
    nodes.map(|node| node.class).collect()
}

/// Says in a template of the index what it lacks.
fn mark(
    template: &mut Value,
    classes: &BTreeSet<String>,
    nodes: &NodeCatalog,
    files: &HashSet<String>,
) {
    let is_partners = template.get("openSource") == Some(&Value::Bool(false));
    let mut lack = Lack::Nothing;
    let mut lacking = Vec::new();
    for class in classes.iter().filter(|class| nodes.get(class).is_none()) {
        lack = lack.max(lack_of(class, is_partners));
        lacking.push(class.clone());
    }
    if lack == Lack::Nothing {
        lacking = loaded(template)
            .filter(|name| !files.contains(name))
            .collect();
        if !lacking.is_empty() {
            lack = Lack::Files;
        }
    }
    let named = match lacking.len().saturating_sub(MOST_NAMED) {
        0 => lacking.join(", "),
        more => format!("{} and {more} more", lacking[..MOST_NAMED].join(", ")),
    };
    let tags = template.get("tags").and_then(Value::as_array).cloned();
    let tags = std::iter::once(lack.tag().into()).chain(tags.unwrap_or_default());
    template["tags"] = tags.collect();
    let description = template.get("description").and_then(Value::as_str);
    template["description"] = (lack.sentence(&named) + description.unwrap_or_default()).into();
    if lack.raises() > 0 {
        let usage = template.get("usage").and_then(Value::as_u64);
        let raised = usage.unwrap_or_default().saturating_add(lack.raises());
        template["usage"] = raised.into();
    }
}

/// The files that a template loads, as its index names them.
fn loaded(template: &Value) -> impl Iterator<Item = String> {
    let inputs = template.pointer("/io/inputs").and_then(Value::as_array);
    let names = inputs.into_iter().flatten().filter_map(|input| {
        let name = input.get("file")?.as_str()?;
        (name != super::EXAMPLE_NAME).then(|| name.to_owned())
    });
    names.collect::<BTreeSet<_>>().into_iter()
}

fn lack_of(class: &str, is_partners: bool) -> Lack {
    static NEEDS: LazyLock<HashMap<&'static str, ComfyuiNeed>> =
        LazyLock::new(|| comfyui_classes().collect());
    match NEEDS.get(class.trim_end()) {
        Some(ComfyuiNeed::Model) => Lack::Model,
        Some(ComfyuiNeed::Worker(_)) => Lack::Worker,
        None if is_partners => Lack::Partner,
        None => Lack::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workflow_core::NodeDefinition;

    fn nodes(classes: &[&str]) -> NodeCatalog {
        NodeCatalog::new(classes.iter().map(|class| NodeDefinition {
            class: (*class).to_owned(),
            display_name: None,
            description: String::new(),
            python_module: "nodes".to_owned(),
            category: String::new(),
            inputs: Vec::new(),
            hidden: Vec::new(),
            outputs: Vec::new(),
            output_node: false,
            takes_lists: false,
            not_idempotent: false,
            accepts_all: false,
            fills_defaults: false,
            partner: None,
            extra: serde_json::Map::new(),
            shown: None,
        }))
    }

    fn marked(template: Value, classes: &[&str]) -> Value {
        let mut template = template;
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        let nodes = nodes(&["LoadImage", "SaveImage"]);
        let files = HashSet::from(["mine.png".to_owned()]);
        mark(&mut template, &classes, &nodes, &files);
        template
    }

    #[test]
    fn a_template_that_runs_comes_first_and_says_so() {
        let template =
            json!({"name": "a", "description": "A picture.", "tags": ["Image"], "usage": 7});
        let told = marked(template, &["LoadImage", "SaveImage"]);
        assert_eq!(told["tags"], json!(["Runs here", "Image"]));
        assert_eq!(told["description"], "A picture.");
        assert_eq!(told["usage"], FIRST + 7);
    }

    #[test]
    fn a_template_that_loads_files_names_those_to_choose() {
        let loads = |names: &[&str]| {
            let inputs = names.iter().map(|name| json!({"file": name}));
            let inputs: Vec<Value> = inputs.collect();
            json!({"name": "a", "description": "A picture.", "usage": 7, "io": {"inputs": inputs}})
        };
        let classes = ["LoadImage", "SaveImage"];
        let told = marked(loads(&["b.png", "a.png", "mine.png", "a.png"]), &classes);
        assert_eq!(told["tags"], json!(["Needs your files"]));
        let expected = "Runs here with files of yours in place of a.png, b.png. A picture.";
        assert_eq!(told["description"], expected);
        assert_eq!(
            told["usage"],
            SECOND + 7,
            "behind those that run as they are"
        );
        // Every account that opens the page has the example.
        let told = marked(loads(&["mine.png", "example.png"]), &classes);
        assert_eq!(told["tags"], json!(["Runs here"]));
        // A class that is not here is told first: files alone would not help.
        let told = marked(loads(&["b.png"]), &["KSampler"]);
        assert_eq!(told["tags"], json!(["Needs a model"]));
    }

    #[test]
    fn a_template_that_does_not_run_names_what_it_lacks() {
        let template = json!({"name": "a", "description": "A picture."});
        let told = marked(
            template.clone(),
            &["LoadImage", "KSampler", "CLIPTextEncode"],
        );
        assert_eq!(told["tags"], json!(["Needs a model"]));
        let expected = "Needs a ComfyUI worker for CLIPTextEncode, KSampler. A picture.";
        assert_eq!(told["description"], expected);
        assert_eq!(told["usage"], Value::Null);

        let told = marked(template.clone(), &["SplatToMesh"]);
        assert_eq!(told["tags"], json!(["Needs a worker"]));
        let told = marked(template.clone(), &["NoSuchClass", "KSampler"]);
        assert_eq!(told["tags"], json!(["Needs a node pack"]));
        let mut of_partner = template;
        of_partner["openSource"] = false.into();
        let told = marked(of_partner, &["SomePartnersClass"]);
        assert_eq!(told["tags"], json!(["Needs a partner"]));

        let many = ["A", "B", "C", "D", "E", "F", "G"];
        let told = marked(json!({"name": "a"}), &many);
        let text = told["description"].as_str().expect("a text");
        assert!(text.contains("A, B, C, D, E and 2 more."), "{text}");
    }

    #[test]
    fn subgraphs_count_and_idle_nodes_do_not() {
        let graph = json!({
            "nodes": [
                {"id": 1, "type": "LoadImage", "mode": 0},
                {"id": 2, "type": "KSampler", "mode": 4},
                {"id": 3, "type": "VAEDecode", "mode": 2},
                {"id": 4, "type": "the-subgraph"},
                {"id": 5, "type": "MarkdownNote"},
            ],
            "definitions": {"subgraphs": [{"id": "the-subgraph", "nodes": [{"id": 1, "type": "ImageBlur"}]}]},
        });
        let graph = serde_json::from_value(graph).expect("a graph");
        let classes = Vec::from_iter(classes_of(graph));
        assert_eq!(classes, ["ImageBlur", "LoadImage"]);
    }

    #[test]
    fn an_index_is_one_of_a_language_of_the_page() {
        assert!(is_index("templates/index.json") && is_index("templates/index.zh-TW.json"));
        for path in [
            "templates/index_logo.json",
            "templates/index.schema.json",
            "index.json",
        ] {
            assert!(!is_index(path), "{path}");
        }
    }
}
