//! Every official template, opened by the page: it runs, or says what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use it::{operate, root, skipped};
use serde_json::{Value, json};

use super::{NEEDED, drive, judge_windows};

/// Official templates that need neither a model nor a partner, and those of them that load pictures which no package has.
pub(super) const RUN_HERE: [&str; 3] = [
    "basic_datatype_conversion",
    "basic_image_color_adjustment",
    "basic_mask_operations_and_compositing",
];
pub(super) const NEED_FILES: [(&str, &[&str]); 2] = [
    (
        "utility_image_stitch",
        &["angle_1.png", "angle_2.png", "angle_3.png", "angle_4.png"],
    ),
    ("utility_interpolation_image_upscale", &["pray.png"]),
];

/// A template that the page 1.58.1 complains about, from ComfyUI as from Easel: a curve among the inputs of a subgraph is an object
/// that it cannot copy into a new tab. Its graph stands on the canvas all the same, and runs.
const NOT_COPIED: &str = "basic_image_color_adjustment";

#[tokio::test]
async fn official_templates_run_or_say_what_they_need() {
    let test = "official_templates_run_or_say_what_they_need";
    if let Some(page) = std::env::var_os(NEEDED[0]) {
        let packages = PathBuf::from(page).ancestors().nth(2).map(PathBuf::from);
        let templates = packages.unwrap().join("comfyui_workflow_templates_json");
        if !templates.is_dir() {
            let missing = "comfyui-workflow-templates-json is not installed beside the page";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            skipped(test, &format!("{missing}; `.ci/run` installs it"));
            return;
        }
    }
    let Some(told) = drive(test, "web_templates.mjs", &[], None).await else {
        return;
    };
    judge_windows(&told);
    let ran = told["ran"].as_object().unwrap();
    let names: BTreeSet<&str> = ran.keys().map(String::as_str).collect();
    let here = RUN_HERE.into_iter().chain(["easel-first-picture"]);
    let here = here.chain(NEED_FILES.map(|(name, _)| name));
    assert_eq!(names, BTreeSet::from_iter(here), "{ran:?}");
    for (name, run) in ran {
        assert_eq!(run["status"], "success", "{name}: {run}");
        assert!(run["outputs"].as_u64() > Some(0), "{name}: {run}");
        assert_eq!(run["refused"], json!({}), "every node of it ran: {name}");
    }
    // What is said to run was run as it is, and the others with the files that their cards name.
    let chosen = NEED_FILES.map(|(name, files)| (name.to_owned(), json!(files)));
    assert_eq!(told["chosen"], Value::Object(chosen.into_iter().collect()));
    for (name, complaint) in told["complained"].as_object().unwrap() {
        let is_known = complaint.as_str().unwrap().starts_with("DataCloneError");
        assert!(name == NOT_COPIED && is_known, "{name}: {complaint}");
    }
    let lacking = told["lacking"].as_object().unwrap();
    let all = ran.len() + lacking.len();
    assert_eq!(told["templates"], all);
    assert!(all > 600, "{all} templates");

    // What the others need, as `nodes list` tells of their classes.
    let data = tempfile::tempdir().unwrap();
    let classes = operate(data.path(), ["nodes", "list", "--json"])
        .await
        .stdout;
    let classes: Vec<Value> = serde_json::from_str(&classes).unwrap();
    let states: BTreeMap<&str, &str> = classes
        .iter()
        .map(|listed| {
            (
                listed["class"].as_str().unwrap(),
                listed["state"].as_str().unwrap(),
            )
        })
        .collect();
    let mut needs = BTreeMap::new();
    for (name, classes) in lacking {
        let classes = classes.as_array();
        let classes = classes.unwrap_or_else(|| panic!("{name} is not served"));
        let state = |class: &Value| *states.get(class.as_str().unwrap()).unwrap_or(&"partner");
        let needed: BTreeSet<&str> = classes.iter().map(state).collect();
        assert!(
            !needed.is_empty() && !needed.contains("native"),
            "{name}: {classes:?}"
        );
        // One that needs neither a model nor a partner would be one of ours to do.
        assert_ne!(needed, BTreeSet::from(["worker"]), "{name}: {classes:?}");
        let needed = Vec::from_iter(needed).join(", ");
        needs
            .entry(needed)
            .or_insert_with(BTreeMap::new)
            .insert(name, classes);
    }
    // Kept for people to look at.
    let report = root().join("target/ci").join(format!("{test}.json"));
    std::fs::write(report, serde_json::to_vec_pretty(&json!(needs)).unwrap()).unwrap();
}
