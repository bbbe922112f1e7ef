//! Classes of ComfyUI itself that need a ComfyUI worker: a graph that has one is not misspelled, it is in the wrong place.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The names, one a line; a `#` begins a comment. Data, so that a class moves in or out without a line of code.
const NAMES: &str = include_str!("comfyui_classes.txt");

/// Whether a class is one of ComfyUI's own that no engine of this project runs.
///
/// Only asked of classes that are not in the catalog, so an engine that has one of them wins over this list.
#[must_use]
pub fn needs_comfyui_worker(class: &str) -> bool {
    static CLASSES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| names().collect());
    // ComfyUI has names with a space at their end (`ConditioningAverage `).
    CLASSES.contains(class.trim_end())
}

fn names() -> impl Iterator<Item = &'static str> {
    NAMES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_no_name_twice() {
        let names: Vec<&str> = names().collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(names.len() > 500, "{} names", names.len());
    }

    #[test]
    fn classes_with_models_need_a_worker_and_unknown_names_do_not() {
        for class in [
            "KSampler",
            "CheckpointLoaderSimple",
            "CLIPTextEncode",
            "VAEDecode",
            "EmptyLatentImage",
            "ImageUpscaleWithModel",
            "ConditioningAverage ",
        ] {
            assert!(needs_comfyui_worker(class), "{class}");
        }
        for class in ["NoSuchNode", "ksampler", "", "#"] {
            assert!(!needs_comfyui_worker(class), "{class}");
        }
    }
}
