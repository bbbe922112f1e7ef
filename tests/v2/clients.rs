//! The official clients, unmodified, against the real binary.

use std::path::PathBuf;

use it::{Server, root, skipped, with_typescript_client};
use tokio::process::Command;

/// Runs the scenario with the client that lives in the virtual environment named by `variable`.
async fn scenario(test: &str, variable: &str) {
    let Some(python) = std::env::var_os(variable).map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "{variable} must be set where nothing may be skipped"
        );
        return skipped(
            test,
            &format!("{variable} does not name a Python with the client; `.ci/run` installs one"),
        );
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let out = tempfile::tempdir().unwrap();
    let status = Command::new(python)
        .arg(root().join("tests/clients/sdk_scenario.py"))
        .arg(format!("http://{}", server.address))
        .arg(root().join("examples/photo.png"))
        .env("SCENARIO_OUT", out.path())
        .status()
        .await
        .unwrap();
    assert!(status.success(), "the scenario ended with {status}");
    assert!(server.terminate().await.unwrap().success());
}

#[tokio::test]
async fn comfy_sdk_0_1_9_works_unmodified() {
    scenario("comfy_sdk_0_1_9_works_unmodified", "EASEL_SDK_0_1_9").await;
}

#[tokio::test]
async fn comfy_sdk_0_5_0_works_unmodified() {
    scenario("comfy_sdk_0_5_0_works_unmodified", "EASEL_SDK_0_5_0").await;
}

#[tokio::test]
async fn the_typescript_client_0_1_9_works_unmodified() {
    let test = "the_typescript_client_0_1_9_works_unmodified";
    let Some(mut scenario) = with_typescript_client(test, "sdk_scenario.mjs") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let out = tempfile::tempdir().unwrap();
    scenario
        .arg(root().join("examples/photo.png"))
        .arg(out.path())
        .env("COMFY_BASE_URL", format!("http://{}", server.address));
    let ended = scenario.output().await.unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {errors}", ended.status);
    assert!(server.terminate().await.unwrap().success());
}
