//! Workers of the configuration file, with headers of their own.

use it::{Launch, operate};

use super::*;

#[tokio::test]
async fn every_request_to_a_worker_has_its_headers_and_nobody_sees_their_values() {
    let worker = Comfy::start(Version::Recorded).await.unwrap();
    worker.require("Authorization", "Bearer s3cret-token");
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("easel.toml");
    let text = format!(
        "[[worker]]\nurl = \"{}\"\n[worker.headers]\nAuthorization = {{ env = \"GPU_TOKEN\", prefix = \"Bearer \" }}\n",
        worker.url()
    );
    std::fs::write(&config, text).unwrap();
    let log = data.path().join("server.log");
    let launch = |variables: &[(&str, &str)]| Launch {
        arguments: vec![
            "--config".into(),
            config.clone().into(),
            "--log-level".into(),
            "debug".into(),
        ],
        variables: variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        log: Some(log.clone()),
        ..Launch::of("all-in-one")
    };
    // A server that lacks the value says so and does not start.
    Server::launch(data.path(), &launch(&[])).await.unwrap_err();
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("the variable GPU_TOKEN is not set"), "{said}");

    let server = Server::launch(data.path(), &launch(&[("GPU_TOKEN", "s3cret-token")]))
        .await
        .unwrap();
    let rig = Rig {
        data,
        server,
        workers: vec![worker],
    };
    rig.until_worker(rig.worker(), &["ready"]).await;
    // Previews came over the socket, so that was let in too.
    let job = rig.run(&sampled("with-headers", "a.safetensors", 5)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let shown = operate(rig.data.path(), ["worker", "list", "--json"]).await;
    assert!(
        shown.stdout.contains("ready") || shown.stdout.contains("busy"),
        "{}",
        shown.stdout
    );
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(!said.contains("s3cret") && !shown.stdout.contains("s3cret"));
    assert!(!said.contains("no socket to a worker"), "{said}");
    let arguments = ["--config", config.to_str().unwrap(), "config", "show"];
    let shown = operate(rig.data.path(), arguments).await;
    assert!(
        shown.stdout.contains(&rig.worker().url()),
        "{}",
        shown.stdout
    );
}
