//! Workers changed while the server runs.

use it::{Operated, operate};

use super::*;

async fn command(rig: &Rig, arguments: &[&str]) -> Operated {
    operate(rig.data.path(), arguments).await
}

#[tokio::test]
async fn workers_come_and_go_while_the_server_runs() {
    let rig = Rig::with(Vec::new()).await;
    let worker = Comfy::start(Version::New).await.unwrap();
    let listed = command(&rig, &["worker", "list", "--json"]).await;
    assert_eq!(
        (listed.code, listed.stdout.trim()),
        (0, "[]"),
        "{}",
        listed.stderr
    );

    let added = command(&rig, &["worker", "add", &worker.url(), "--name", "gpu"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    let twice = command(&rig, &["worker", "add", &worker.url()]).await;
    assert_eq!(twice.code, 2, "{}", twice.stderr);
    let wrong = command(&rig, &["worker", "add", "gpu-box"]).await;
    assert!(
        wrong.code == 2 && wrong.stderr.contains("http://127.0.0.1:8188"),
        "{}",
        wrong.stderr
    );
    until_state(&rig, "ready").await;
    let job = rig.run(&graph("added", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let shown = command(&rig, &["worker", "show", "gpu"]).await;
    assert!(
        shown.stdout.contains("0.8.0") && shown.stdout.contains("succeeded        1"),
        "{}",
        shown.stdout
    );

    // The next start has it, too, and drained as it was.
    assert_eq!(command(&rig, &["worker", "drain", "gpu"]).await.code, 0);
    let rig = rig.crash().await;
    until_state(&rig, "stopped").await;
    assert_eq!(command(&rig, &["worker", "resume", "gpu"]).await.code, 0);
    until_state(&rig, "ready").await;
    assert_eq!(command(&rig, &["worker", "remove", "gpu"]).await.code, 0);
    let listed = command(&rig, &["worker", "list"]).await;
    assert!(!listed.stdout.contains("gpu"), "{}", listed.stdout);
    assert_eq!(command(&rig, &["worker", "show", "gpu"]).await.code, 2);
}

async fn until_state(rig: &Rig, state: &str) {
    for _ in 0..300 {
        let listed = command(rig, &["worker", "list", "--json"]).await;
        let workers: Value = serde_json::from_str(&listed.stdout).unwrap();
        if workers[0]["state"] == state {
            return;
        }
        pause().await;
    }
    panic!("the worker never was {state}");
}
