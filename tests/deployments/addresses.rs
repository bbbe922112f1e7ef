//! The base address of a deployment: the whole of both APIs.

use super::*;

#[tokio::test]
async fn a_base_address_has_both_apis_and_jobs_are_readable_below_every_one() {
    let rig = Rig::with(&[], "min = 1").await;
    // What the server itself has runs on the workers of the deployment here.
    let plain = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "plain"}}
    });
    let id = rig.submit(&plain).await;
    let job = rig.succeeds(&id).await;
    let explained = rig.done(&["job", "explain", &id, "--json"]).await;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["engine"], "comfyui:sim");

    // Links lead below the address that was asked at.
    let there = rig
        .send(Request::get(&format!("/deployment/sim/api/v2/jobs/{id}")))
        .await;
    let there = there.json();
    let links = [&there["urls"]["self"], &there["outputs"][0]["url"]];
    for link in links {
        let link = link.as_str().unwrap();
        assert!(link.contains("/deployment/sim/"), "{link}");
        let path = link.splitn(4, '/').nth(3).unwrap();
        let followed = rig.send(Request::get(&format!("/{path}"))).await;
        assert_eq!(followed.status, 200, "{link}");
    }
    assert!(
        !job["urls"]["self"].as_str().unwrap().contains("deployment"),
        "{job:#}"
    );
    let listed = rig
        .send(Request::get("/deployment/sim/api/v2/jobs"))
        .await
        .json();
    assert_eq!(listed["jobs"][0]["id"], id.as_str());

    // The older API offers what the workers have, and nothing else.
    let here = rig
        .send(Request::get("/deployment/sim/api/object_info"))
        .await
        .json();
    let root = rig.send(Request::get("/api/object_info")).await.json();
    assert!(here.get("Wait").is_some() && here.get("ImageScale").is_none());
    assert!(root.get("Wait").is_none() && root.get("ImageScale").is_some());
    let body = json!({"prompt": graph("older", 1), "client_id": "somebody"});
    let prompted = rig
        .send(Request::post_json("/deployment/sim/api/prompt", &body))
        .await;
    assert_eq!(prompted.status, 200, "{}", prompted.text());
    let prompt = prompted.json()["prompt_id"].as_str().unwrap().to_owned();
    rig.succeeds(&prompt).await;
    let history = rig
        .send(Request::get(&format!(
            "/deployment/sim/api/history/{prompt}"
        )))
        .await;
    let entry = &history.json()[&prompt];
    let image = &entry["outputs"]["3"]["images"][0];
    assert_eq!(image["filename"], "older_00001_.png", "{entry:#}");
    let view = "/deployment/sim/api/view?filename=older_00001_.png&type=output";
    let seen = rig.send(Request::get(view)).await;
    let link = seen
        .header("location")
        .unwrap_or_else(|| panic!("{seen:?}"));
    let path = link
        .find("/deployment/sim/")
        .unwrap_or_else(|| panic!("{link}"));
    assert_eq!(rig.send(Request::get(&link[path..])).await.status, 200);

    // The root has no worker with the class; other names have nothing.
    let at_root = Request::post_json("/api/v2/jobs", &json!({"workflow": graph("root", 1)}));
    let refused = rig.send(at_root).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (422, "invalid_workflow".to_owned())
    );
    for path in [
        "/deployment/none/api/v2/jobs",
        "/deployment/sim/nothing",
        "/deployment/",
    ] {
        let unknown = rig.send(Request::get(path)).await;
        assert_eq!(unknown.status, 404, "{path}: {}", unknown.text());
    }
}

#[tokio::test]
async fn workers_with_addresses_make_a_deployment_too() {
    let worker = it::Comfy::start(it::comfy::Version::Recorded)
        .await
        .unwrap();
    let rig = Rig::start().await;
    let path = rig.data.path().join("far.toml");
    let text = |urls: &[String]| format!("name = \"sim\"\nurls = {}\n", json!(urls));
    std::fs::write(&path, text(&[worker.url()])).unwrap();
    rig.done(&["deployment", "apply", path.to_str().unwrap()])
        .await;
    rig.until_state("ready", 1).await;
    let job = rig.submit(&graph("far", 1)).await;
    rig.succeeds(&job).await;
    // Another revision keeps the connection to an address that it has too.
    let other = it::Comfy::start(it::comfy::Version::New).await.unwrap();
    std::fs::write(&path, text(&[worker.url(), other.url()])).unwrap();
    rig.done(&["deployment", "apply", path.to_str().unwrap()])
        .await;
    rig.until("both", |it| it["revision"] == 2 && of(it).len() == 2)
        .await;
    let refused = rig
        .command(&["deployment", "scale", "sim", "--max", "1"])
        .await;
    assert!(
        refused.code == 2 && refused.stderr.contains("started by others"),
        "{}",
        refused.stderr
    );
    std::fs::write(&path, text(&["http://user:secret@gpu".to_owned()])).unwrap();
    let refused = rig
        .command(&["deployment", "apply", path.to_str().unwrap()])
        .await;
    assert!(
        refused.code == 2 && !refused.stderr.contains("secret"),
        "{}",
        refused.stderr
    );
    let rig = rig.crash().await;
    rig.until_state("ready", 2).await;
    let job = rig.submit(&graph("far-again", 1)).await;
    rig.succeeds(&job).await;
}
