//! ComfyUI workers over HTTP: added, drained and removed, by requests and by commands that ask a server.

use it::comfy::Version;
use it::{Comfy, operate};
use serde_json::{Value, json};

use super::Operated;

#[tokio::test]
async fn an_operator_adds_drains_and_removes_workers() {
    let it = Operated::start("workflow-server").await;
    let worker = Comfy::start(Version::New).await.unwrap();
    let gpu = json!({"url": worker.url(), "name": "gpu/1"});
    it.done("POST", "/workers", gpu.clone()).await;
    let again = it.refused("POST", "/workers", gpu).await;
    assert_eq!((again.0, again.1.as_str()), (409, "already_exists"));

    let name = json!({"name": "gpu/1"});
    for (path, states) in [
        ("/workers/drain", ["draining", "stopped"].as_slice()),
        ("/workers/resume", &["starting", "ready", "unreachable"]),
    ] {
        for _ in 0..2 {
            it.done("POST", path, name.clone()).await;
            let workers = it.done("GET", "/workers", Value::Null).await;
            let [worker] = workers["workers"].as_array().unwrap().as_slice() else {
                panic!("one worker in {workers:#}");
            };
            assert_eq!(worker["name"], "gpu/1");
            let state = worker["state"].as_str().unwrap();
            assert!(states.contains(&state), "{path}: {state}");
        }
    }

    let key = it.data.path().join("key");
    std::fs::write(&key, &it.key).unwrap();
    let server = format!("http://{}", it.server.address);
    let nowhere = it.data.path().join("nowhere");
    let command = async |words: &[&str]| {
        let from = [
            "--server",
            &server,
            "--admin-key-file",
            key.to_str().unwrap(),
        ];
        let done = operate(&nowhere, ["worker"].iter().chain(words).chain(&from)).await;
        assert_eq!(done.code, 0, "{words:?}: {}", done.stderr);
        done.stdout
    };
    let listed: Value = serde_json::from_str(&command(&["list", "--json"]).await).unwrap();
    assert_eq!(listed[0]["url"], worker.url());
    command(&["drain", "gpu/1"]).await;
    command(&["remove", "gpu/1"]).await;
    let empty = it.done("GET", "/workers", Value::Null).await;
    assert_eq!(empty, json!({"workers": []}));
    for path in ["/workers/drain", "/workers/resume", "/workers/remove"] {
        let refused = it.refused("POST", path, name.clone()).await;
        assert_eq!((refused.0, refused.1.as_str()), (404, "not_found"));
    }

    let secret = json!({"url": "http://user:a-password@gpu-box:8188"});
    let refused = it.refused("POST", "/workers", secret).await;
    assert_eq!(refused.0, 422);
    assert!(!refused.2.contains("a-password"), "{}", refused.2);
    assert!(it.server.terminate().await.unwrap().success());
    let log = std::fs::read_to_string(it.data.path().join("log")).unwrap();
    assert!(
        log.contains("worker.remove") && !log.contains("a-password"),
        "{log}"
    );
}
