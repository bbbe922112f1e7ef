//! The unmodified web page in headless Chromium.

use std::path::PathBuf;

use it::{Server, root, skipped};
use serde_json::{Value, json};
use tokio::process::Command;

/// What the test needs and `.ci/run` installs.
const NEEDED: [&str; 3] = ["EASEL_WEB_ROOT", "EASEL_PLAYWRIGHT", "EASEL_CHROMIUM"];

/// Drives the page of a server with these further arguments; `None` after saying that the test was skipped.
async fn drive(test: &str, arguments: &[&str], key: Option<&str>) -> Option<Value> {
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
        .arg(root().join("tests/clients/web_page.mjs"))
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
    assert!(told["loaded"].as_str().unwrap().ends_with(".png"), "{told}");
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
    if let Some(told) = drive("the_page_boots_loads_queues_and_shows", &[], None).await {
        judge(&told);
    }
}

#[tokio::test]
async fn with_a_key_the_page_asks_for_it_first() {
    let key = "a-key-of-a-page-test";
    let test = "with_a_key_the_page_asks_for_it_first";
    let arguments = ["--token", key];
    if let Some(told) = drive(test, &arguments, Some(key)).await {
        judge(&told);
    }
}
