//! Classes of ComfyUI itself that need a ComfyUI worker: a graph that has one is not misspelled, it is in the wrong place.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The classes, one a line; a `#` begins a comment. Data, so that a class moves in or out without a line of code.
const CLASSES: &str = include_str!("comfyui_classes.txt");

/// Why no engine of this project runs a class of ComfyUI's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComfyuiNeed {
    /// It works with a model, or with what only classes with models make or read.
    Model,
    /// It needs something else, which these words name.
    Worker(&'static str),
}

/// Whether a class is one of ComfyUI's own that no engine of this project runs.
///
/// Only asked of classes that are not in the catalog, so an engine that has one of them wins over this list.
#[must_use]
pub fn needs_comfyui_worker(class: &str) -> bool {
    static NAMES: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| comfyui_classes().map(|(name, _)| name).collect());
    // ComfyUI has names with a space at their end (`ConditioningAverage `).
    NAMES.contains(class.trim_end())
}

/// The classes of ComfyUI's own that no engine of this project runs, by name, and why.
pub fn comfyui_classes() -> impl Iterator<Item = (&'static str, ComfyuiNeed)> {
    let lines = CLASSES.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (name, need) = line.split_once('\t').unwrap_or((line, ""));
        let need = match need.strip_prefix("worker\t") {
            Some(reason) => ComfyuiNeed::Worker(reason),
            None => ComfyuiNeed::Model,
        };
        (name, need)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_no_name_twice() {
        let names: Vec<&str> = comfyui_classes().map(|(name, _)| name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(names.len() > 450, "{} names", names.len());
    }

    #[test]
    fn every_line_says_why() {
        let lines = CLASSES.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let need = line.split_once('\t').map(|(_, need)| need);
            let reason = need.and_then(|need| need.strip_prefix("worker\t"));
            assert!(
                need == Some("model") || reason.is_some_and(|reason| reason.len() > 3),
                "{line:?}"
            );
        }
    }

    #[test]
    fn classes_with_models_need_a_worker_and_unknown_names_do_not() {
        for class in [
            "KSampler",
            "CheckpointLoaderSimple",
            "CLIPTextEncode",
            "VAEDecode",
            "ImageUpscaleWithModel",
            "VAEEncode",
            "ConditioningAverage ",
        ] {
            assert!(needs_comfyui_worker(class), "{class}");
        }
        for class in ["NoSuchNode", "ksampler", "", "#"] {
            assert!(!needs_comfyui_worker(class), "{class}");
        }
    }
}
