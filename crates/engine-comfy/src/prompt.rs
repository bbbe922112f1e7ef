//! What is sent to a worker for a job. Pure.
//!
//! The graph is the caller's: only references to files of the account are rewritten, to the names under which the files are
//! staged, and nodes that would make the worker refuse or run more than was asked for are left out.

use std::collections::{BTreeMap, HashSet};

use asset_store::{Blob, BlobHash};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use workflow_core::{JobId, NodeId, NodeInput, ResolvedFile, Ticket, ValidGraph};

use crate::definitions::Definitions;

/// A file that a worker must have before a prompt is submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Its name in the worker's folder of inputs.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) blob: Blob,
}

/// The prompt of an attempt: the job's own id at the first one, so that a worker and its operator know the job by its id;
/// another one later, because a worker runs an id that it had before a second time.
pub(crate) fn prompt_id(job: JobId, attempt: u32) -> Uuid {
    if attempt <= 1 {
        return job.0;
    }
    let mut hasher = blake3::Hasher::new_derive_key("easel prompt id of an attempt v1");
    hasher
        .update(job.0.as_bytes())
        .update(&attempt.to_be_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// The name under which a file is staged: its hash and its ending. The older API finds an upload by this name, so a graph
/// that a worker wrote into a picture loads here again.
pub(crate) fn staged_name(file: &ResolvedFile) -> String {
    let ending = file.name.rsplit_once('.').map(|(_, ending)| ending);
    let is_plain = |ending: &&str| {
        (1..=8).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match ending.filter(is_plain) {
        Some(ending) => format!("{}.{}", hex(&file.hash), ending.to_ascii_lowercase()),
        None => hex(&file.hash),
    }
}

fn hex(hash: &BlobHash) -> String {
    hash.to_hex()
}

/// The files that a graph needs, each once.
pub(crate) fn staged(graph: &ValidGraph) -> Vec<Staged> {
    let inputs = graph.nodes.values().flat_map(|node| node.inputs.values());
    let staged: BTreeMap<String, Blob> = inputs
        .flat_map(NodeInput::files)
        .map(|file| {
            let blob = Blob {
                hash: file.hash,
                size_bytes: file.size_bytes,
            };
            (staged_name(file), blob)
        })
        .collect();
    staged
        .into_iter()
        .map(|(name, blob)| Staged { name, blob })
        .collect()
}

/// The graph for a worker with these definitions.
pub(crate) fn graph(graph: &ValidGraph, definitions: &Definitions) -> Map<String, Value> {
    let needed = needed(graph);
    let mut sent = Map::new();
    for (id, node) in graph.prompt.iter() {
        let class = node.get("class_type").and_then(Value::as_str);
        let class = class.unwrap_or_default();
        // A worker refuses all of a graph for one class that it does not know, and runs every output that it finds.
        let is_harmless = definitions.has(class) && !definitions.is_output(class);
        if !needed.contains(id.as_str()) && !is_harmless {
            continue;
        }
        let mut node = node.clone();
        if let Some(valid) = graph.nodes.get(&NodeId::from(id.as_str())) {
            for (input, value) in &valid.inputs {
                let place = node
                    .get_mut("inputs")
                    .and_then(|inputs| inputs.get_mut(input));
                if let (Some(value), Some(place)) = (rewritten(value), place) {
                    *place = value;
                }
            }
        }
        sent.insert(id.clone(), node);
    }
    sent
}

/// What is sent in place of an input that names files.
fn rewritten(input: &NodeInput) -> Option<Value> {
    match input {
        NodeInput::File(file) => Some(staged_name(file).into()),
        NodeInput::Scene { value, files } => {
            let mut value = value.clone();
            for (key, file) in files {
                value.insert((*key).to_owned(), staged_name(file).into());
            }
            Some(value.into())
        }
        NodeInput::Constant(_) | NodeInput::Link { .. } => None,
    }
}

/// The nodes that the outputs of a graph read, also through inputs that only the worker knows.
fn needed(graph: &ValidGraph) -> HashSet<&str> {
    let mut needed = HashSet::new();
    let mut stack: Vec<&str> = graph.outputs.iter().map(NodeId::as_str).collect();
    while let Some(id) = stack.pop() {
        let Some((id, node)) = graph.prompt.get_key_value(id) else {
            continue;
        };
        if !needed.insert(id.as_str()) {
            continue;
        }
        let inputs = node.get("inputs").and_then(Value::as_object);
        let links = inputs.into_iter().flat_map(Map::values);
        stack.extend(links.filter_map(|value| value.as_array()?.first()?.as_str()));
    }
    needed
}

/// The body of a submission. `secret` is a key for partner nodes, and goes nowhere else.
pub(crate) fn submission(
    ticket: &Ticket,
    graph: &Map<String, Value>,
    prompt: Uuid,
    client: &str,
    preview_method: &str,
    secret: Option<&str>,
) -> Value {
    let mut extra = Map::new();
    if !ticket.extra_pnginfo.is_empty() {
        extra.insert(
            "extra_pnginfo".to_owned(),
            Value::Object(ticket.extra_pnginfo.clone()),
        );
    }
    extra.insert("preview_method".to_owned(), preview_method.into());
    if let Some(secret) = secret {
        extra.insert("api_key_comfy_org".to_owned(), secret.into());
    }
    json!({
        "prompt": graph,
        "prompt_id": prompt.to_string(),
        "client_id": client,
        "extra_data": extra,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use workflow_core::{Graph, validate};

    use super::*;
    use crate::definitions::Merged;

    fn definitions() -> Definitions {
        let classes = json!({
            "LoadImage": {"input": {"required": {"image": [[], {"image_upload": true}]}}, "output": ["IMAGE"]},
            "Save": {"input": {"required": {"images": ["IMAGE", {}]}}, "output": [], "output_node": true},
            "Note": {"input": {"required": {}}, "output": []}
        });
        Definitions::read("1", classes).expect("definitions")
    }

    fn valid(graph: Value, targets: Option<&[String]>) -> ValidGraph {
        let file = ResolvedFile {
            asset: asset_store::AssetId(Uuid::from_u128(1)),
            hash: BlobHash::of(b"x"),
            size_bytes: 1,
            name: "photos/Cat.PNG".to_owned(),
        };
        let files = [
            ("Cat.PNG".to_owned(), file.clone()),
            ("id".to_owned(), file),
        ];
        let catalog = Merged::of(&[definitions().into()], &[]).catalog;
        let graph = Graph::from_value(graph).expect("a graph");
        let validation = validate(&graph, &catalog, &files.into(), targets);
        validation.graph.expect("a valid graph")
    }

    #[test]
    fn only_references_to_files_are_rewritten() {
        let asset = json!({"__type": "core/ASSET", "info": {"id": "id"}});
        let sent = json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": "Cat.PNG"}, "_meta": {"title": "cat"}},
            "2": {"class_type": "Save", "inputs": {"images": ["1", 0], "prefix": asset, "n": 1.0}},
            "3": {"class_type": "Note", "inputs": {}}
        });
        let valid = valid(sent, None);
        let name = format!("{}.png", BlobHash::of(b"x").to_hex());
        let graph = graph(&valid, &definitions());
        assert_eq!(
            graph["1"],
            json!({"class_type": "LoadImage", "inputs": {"image": name}, "_meta": {"title": "cat"}})
        );
        assert_eq!(graph["3"]["class_type"], "Note");
        let staged = staged(&valid);
        assert_eq!(staged.len(), 1);
        assert_eq!(staged[0].name, name);
    }

    #[test]
    fn outputs_that_were_not_asked_for_stay_away() {
        let sent = json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": "Cat.PNG"}},
            "2": {"class_type": "Save", "inputs": {"images": ["1", 0], "parts.a": ["9", 0]}},
            "4": {"class_type": "Save", "inputs": {"images": ["1", 0]}},
            "5": {"class_type": "Unheard", "inputs": {}},
            "9": {"class_type": "Unheard", "inputs": {}}
        });
        let valid = valid(sent, Some(&["2".to_owned()]));
        let graph = graph(&valid, &definitions());
        let ids: Vec<&String> = graph.keys().collect();
        assert_eq!(ids, ["1", "2", "9"]);
    }

    #[test]
    fn the_first_attempt_has_the_id_of_its_job_and_no_two_have_the_same() {
        let job = JobId(Uuid::from_u128(7));
        assert_eq!(prompt_id(job, 1), job.0);
        assert_ne!(prompt_id(job, 2), prompt_id(job, 3));
        assert_eq!(prompt_id(job, 2), prompt_id(job, 2));
        assert_eq!(prompt_id(job, 2).get_version_num(), 4);
    }
}
