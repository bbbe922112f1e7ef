//! The unmodified web page in headless Chromium.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use it::{Server, operate, root, skipped};
use serde_json::{Value, json};
use tokio::process::Command;

/// What the test needs and `.ci/run` installs.
const NEEDED: [&str; 3] = ["EASEL_WEB_ROOT", "EASEL_PLAYWRIGHT", "EASEL_CHROMIUM"];

/// Official templates that need neither a model nor a partner.
const RUN_HERE: [&str; 4] = [
    "basic_datatype_conversion",
    "basic_mask_operations_and_compositing",
    "utility_image_stitch",
    "utility_interpolation_image_upscale",
];

/// Drives the page of a server with these further arguments by a script in `tests/clients`; `None` after saying that the test
/// was skipped.
async fn drive(test: &str, script: &str, arguments: &[&str], key: Option<&str>) -> Option<Value> {
    let missing = NEEDED
        .into_iter()
        .find(|name| std::env::var_os(name).is_none());
    if let Some(missing) = missing {
        assert!(
            std::env::var_os("CI").is_none(),
            "{missing} must be set where nothing may be skipped"
        );
        skipped(
            test,
            &format!("{missing} is not set; `.ci/run` installs the page and its driver"),
        );
        return None;
    }
    let data = tempfile::tempdir().unwrap();
    let web_root = PathBuf::from(std::env::var_os(NEEDED[0]).unwrap());
    let web_root = web_root.to_str().unwrap();
    let all = ["--web-root", web_root]
        .into_iter()
        .chain(arguments.iter().copied());
    let server = Server::start_with(data.path(), all).await.unwrap();
    // Kept for people to look at.
    let screenshot = root().join("target/ci").join(format!("{test}.png"));
    std::fs::create_dir_all(screenshot.parent().unwrap()).unwrap();
    let driven = Command::new("node")
        .arg(root().join("tests/clients").join(script))
        .arg(server.address.to_string())
        .arg(root().join("examples/photo.png"))
        .arg(&screenshot)
        .args(key)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    assert!(
        std::fs::metadata(&screenshot).unwrap().len() > 10_000,
        "a screenshot was taken"
    );
    Some(serde_json::from_str(said.lines().last().unwrap()).unwrap())
}

/// What the page showed, as far as it is the same in every run.
fn judge(told: &Value) {
    assert!(told["classes"].as_u64().unwrap() > 60, "{told}");
    assert_eq!(told["loaded"], "photo.png", "{told}");
    let painted = json!({"filename": "ComfyUI_00001_.png", "width": 192, "height": 144});
    assert_eq!(
        told["painted"], painted,
        "the result is in the node: {told}"
    );
    let row = told["row"].as_str().unwrap();
    assert!(
        row.contains("ComfyUI_00001_.png") && told["job"].is_string(),
        "the job is in the queue panel: {told}"
    );
    assert_eq!(told["errors"], json!([]), "{told}");
}

#[tokio::test]
async fn the_page_boots_loads_queues_and_shows() {
    if let Some(told) = drive(
        "the_page_boots_loads_queues_and_shows",
        "web_page.mjs",
        &[],
        None,
    )
    .await
    {
        judge(&told);
    }
}

#[tokio::test]
async fn with_a_key_the_page_asks_for_it_first() {
    let key = "a-key-of-a-page-test";
    let test = "with_a_key_the_page_asks_for_it_first";
    let arguments = ["--token", key];
    if let Some(told) = drive(test, "web_page.mjs", &arguments, Some(key)).await {
        judge(&told);
    }
}

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
    let ran = told["ran"].as_object().unwrap();
    let names: BTreeSet<&str> = ran.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(RUN_HERE), "{ran:?}");
    for (name, run) in ran {
        assert_eq!(run["status"], "success", "{name}: {run}");
        assert!(run["outputs"].as_u64() > Some(0), "{name}: {run}");
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
        // One that lacks nothing but classes to come is one of ours to do.
        assert_ne!(needed, BTreeSet::from(["later"]), "{name}: {classes:?}");
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
