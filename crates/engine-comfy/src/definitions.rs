//! What a worker says of its node classes (`/object_info`), read and merged over workers. Pure.
//!
//! Definitions serve the structure of a graph: which classes there are, which inputs they need, what may be linked. Ranges and
//! choices mislead, so constants are left to the worker, except for names of model files: they decide where a job can run.

mod class;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use workflow_core::{ModelFile, NodeCatalog, NodeInput, Requirements, ValidGraph};

use class::{choices, definition};

/// Most classes that are taken of a worker: a ComfyUI with every public extension has fewer.
const MOST_CLASSES: usize = 50_000;

/// Endings of model files. Choices with other endings are words, or files that every worker may make.
const MODEL_ENDINGS: [&str; 12] = [
    "bin",
    "ckpt",
    "engine",
    "gguf",
    "onnx",
    "patch",
    "pkl",
    "pt",
    "pt2",
    "pth",
    "safetensors",
    "sft",
];

/// The definitions of one worker.
#[derive(Debug)]
pub(crate) struct Definitions {
    /// The version of ComfyUI that they came from, as it says itself; empty if it does not.
    pub(crate) version: String,
    classes: IndexMap<String, Map<String, Value>>,
    /// Model files by class and input; a class without such inputs has no entry.
    files: HashMap<String, HashMap<String, HashSet<String>>>,
    /// The same for two workers that say the same.
    mark: blake3::Hash,
    /// Their number: no two have the same in the life of the process, as far as it goes.
    pub(crate) number: u32,
}

/// The next number of definitions.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// What a worker does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    /// A class.
    Class(String),
    /// A model file.
    File(ModelFile),
}

/// An answer that is no `/object_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer to /object_info is no object of node classes")]
pub(crate) struct NotDefinitions;

impl Definitions {
    /// Reads an answer to `/object_info`. Entries that cannot be read are left out.
    pub(crate) fn read(version: &str, answer: Value) -> Result<Self, NotDefinitions> {
        let Value::Object(entries) = answer else {
            return Err(NotDefinitions);
        };
        let mut hasher = blake3::Hasher::new_derive_key("easel definitions of a worker v1");
        hasher.update(&blake3::hash(version.as_bytes()).as_bytes()[..]);
        // A hasher takes every byte.
        let _ = serde_json::to_writer(&mut hasher, &entries);
        let mut classes = IndexMap::new();
        let mut files = HashMap::new();
        for (class, entry) in entries.into_iter().take(MOST_CLASSES) {
            let Value::Object(entry) = entry else {
                continue;
            };
            let of_class = file_inputs(&entry);
            if !of_class.is_empty() {
                files.insert(class.clone(), of_class);
            }
            classes.insert(class, entry);
        }
        if classes.is_empty() {
            return Err(NotDefinitions);
        }
        Ok(Self {
            version: version.to_owned(),
            classes,
            files,
            mark: hasher.finalize(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Whether another worker said the very same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.mark == other.mark
    }

    /// The definitions as they came, to be kept and read again.
    pub(crate) fn text(&self) -> String {
        let entries = self.classes.iter();
        let entries = entries.map(|(class, entry)| (class.clone(), Value::Object(entry.clone())));
        Value::Object(entries.collect()).to_string()
    }

    /// How many classes there are.
    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether the worker has a class.
    pub(crate) fn has(&self, class: &str) -> bool {
        self.classes.contains_key(class)
    }

    /// Whether a class is a reason to run a graph.
    pub(crate) fn is_output(&self, class: &str) -> bool {
        let entry = self.classes.get(class);
        entry.is_some_and(|entry| entry.get("output_node") == Some(&Value::Bool(true)))
    }

    /// What the worker lacks of what a job needs.
    pub(crate) fn lacks(&self, needs: &Requirements) -> Vec<Lack> {
        let classes = needs.classes.iter().filter(|class| !self.has(class));
        let files = needs.files.iter().filter(|file| !self.has_file(file));
        classes
            .map(|class| Lack::Class(class.clone()))
            .chain(files.map(|file| Lack::File(file.clone())))
            .collect()
    }

    /// Whether the worker has all that a job needs.
    pub(crate) fn has_all(&self, needs: &Requirements) -> bool {
        needs.classes.iter().all(|class| self.has(class))
            && needs.files.iter().all(|file| self.has_file(file))
    }

    fn has_file(&self, file: &ModelFile) -> bool {
        let Some((class, input)) = file.folder.split_once('/') else {
            return false;
        };
        let of_input = self.files.get(class).and_then(|inputs| inputs.get(input));
        of_input.is_some_and(|names| names.contains(&file.name))
    }
}

/// The inputs of a class that choose among model files.
fn file_inputs(entry: &Map<String, Value>) -> HashMap<String, HashSet<String>> {
    let sections = ["required", "optional"].into_iter();
    let sections = sections.filter_map(|name| entry.get("input")?.get(name)?.as_object());
    let inputs = sections.flatten().filter_map(|(input, spec)| {
        let names: HashSet<String> = choices(spec)?
            .iter()
            .filter_map(|choice| choice.as_str().map(str::to_owned))
            .collect();
        // An empty menu is one of files that are not there.
        let is_of_files = names.is_empty() || names.iter().any(|name| is_model_file(name));
        is_of_files.then(|| (input.clone(), names))
    });
    inputs.collect()
}

/// Whether a name is that of a model file.
pub(crate) fn is_model_file(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        let ending = ending.to_ascii_lowercase();
        MODEL_ENDINGS.contains(&ending.as_str())
    })
}

/// The definitions of several workers as one catalog: of two definitions of a class that of the newer version stands, and
/// menus offer what any worker has.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// The classes.
    pub(crate) catalog: NodeCatalog,
    /// The inputs that choose among model files, by class.
    file_inputs: HashMap<String, BTreeSet<String>>,
    /// What they were put together of: those of workers that may get jobs, and those of drained ones.
    of: [Vec<blake3::Hash>; 2],
}

impl Merged {
    /// Whether these came of the same definitions.
    pub(crate) fn is_of(&self, workers: &[Arc<Definitions>], drained: &[Arc<Definitions>]) -> bool {
        [workers, drained].map(marks) == self.of
    }

    /// What workers have, and what only drained ones would have.
    pub(crate) fn of(workers: &[Arc<Definitions>], drained: &[Arc<Definitions>]) -> Self {
        let of = [workers, drained].map(marks);
        let mut workers: Vec<&Definitions> = workers.iter().map(|worker| &**worker).collect();
        workers.sort_by_key(|worker| std::cmp::Reverse(version_number(&worker.version)));
        let mut classes: IndexMap<String, Map<String, Value>> = IndexMap::new();
        let mut file_inputs: HashMap<String, BTreeSet<String>> = HashMap::new();
        for worker in workers {
            for (class, entry) in &worker.classes {
                match classes.get_mut(class) {
                    Some(known) => unite_choices(known, entry),
                    None => {
                        classes.insert(class.clone(), entry.clone());
                    }
                }
            }
            for (class, inputs) in &worker.files {
                let known = file_inputs.entry(class.clone()).or_default();
                known.extend(inputs.keys().cloned());
            }
        }
        let definitions = classes
            .into_iter()
            .map(|(class, entry)| definition(&class, entry));
        let drained = drained.iter().flat_map(|worker| worker.classes.keys());
        Self {
            catalog: NodeCatalog::new(definitions).with_drained(drained.cloned()),
            file_inputs,
            of,
        }
    }

    /// The model files that a graph names. The kind of a file is the class and input that choose it: what ComfyUI calls the
    /// folder is not part of its definitions.
    pub(crate) fn model_files(&self, graph: &ValidGraph) -> BTreeSet<ModelFile> {
        let mut files = BTreeSet::new();
        for node in graph.nodes.values() {
            let class = &node.definition.class;
            let Some(inputs) = self.file_inputs.get(class) else {
                continue;
            };
            for (input, value) in &node.inputs {
                if let NodeInput::Constant(Value::String(name)) = value
                    && inputs.contains(input)
                    && is_model_file(name)
                {
                    files.insert(ModelFile {
                        folder: format!("{class}/{input}"),
                        name: name.clone(),
                    });
                }
            }
        }
        files
    }
}

fn marks(workers: &[Arc<Definitions>]) -> Vec<blake3::Hash> {
    workers.iter().map(|worker| worker.mark).collect()
}

/// Adds the choices that another worker offers to those of a definition.
fn unite_choices(known: &mut Map<String, Value>, other: &Map<String, Value>) {
    let Some(Value::Object(sections)) = known.get_mut("input") else {
        return;
    };
    for (section, inputs) in sections.iter_mut() {
        let Value::Object(inputs) = inputs else {
            continue;
        };
        for (input, spec) in inputs.iter_mut() {
            let theirs = other
                .get("input")
                .and_then(|sections| sections.get(section)?.get(input))
                .and_then(choices);
            let (Some(theirs), Some(ours)) = (theirs, class::choices_mut(spec)) else {
                continue;
            };
            if *ours == *theirs {
                continue;
            }
            let had: HashSet<String> = ours.iter().map(Value::to_string).collect();
            let new = theirs.iter().filter(|one| !had.contains(&one.to_string()));
            ours.extend(new.cloned().collect::<Vec<_>>());
        }
    }
}

/// A version as numbers that compare: `0.3.64` is newer than `0.3.9`.
pub(crate) fn version_number(version: &str) -> Vec<u32> {
    let version = version.trim_start_matches('v');
    let parts = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    parts.collect()
}

/// What is lacking, in words.
pub(crate) fn in_words(lacks: &[Lack]) -> String {
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for lack in lacks {
        let (kind, name) = match lack {
            Lack::Class(class) => ("class", class.as_str()),
            Lack::File(file) => ("file", file.name.as_str()),
        };
        parts.entry(kind).or_default().push(name);
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(kind, names)| format!("{kind} {}", names.join(", ")))
        .collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests;
