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
    let refused = rig.try_submit(&graph("drained", 1)).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("are drained"), "{}", refused.text());
    assert_eq!(command(&rig, &["worker", "resume", "gpu"]).await.code, 0);
    until_state(&rig, "ready").await;
    assert_eq!(command(&rig, &["worker", "remove", "gpu"]).await.code, 0);
    let listed = command(&rig, &["worker", "list"]).await;
    assert!(!listed.stdout.contains("gpu"), "{}", listed.stdout);
    assert_eq!(command(&rig, &["worker", "show", "gpu"]).await.code, 2);
}

#[tokio::test]
async fn a_worker_that_is_added_makes_room_for_two_jobs_more_of_an_account() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--job-slots", "1"]).await;
    let workers = vec![Comfy::start(Version::New).await.unwrap()];
    let server = server.unwrap();
    let rig = Rig {
        data,
        server,
        workers,
    };
    let room = async || {
        // One that does not end by itself, so that it can be explained.
        let job = rig
            .submit(&sampled("room", "a.safetensors", 1_000_000))
            .await;
        let said = command(&rig, &["job", "explain", &job, "--json"]).await;
        let said: Value = serde_json::from_str(&said.stdout).unwrap();
        rig.cancel(&job).await;
        rig.ended(&job).await;
        said["account_room"].clone()
    };
    let url = rig.worker().url();
    let added = command(&rig, &["worker", "add", &url, "--name", "gpu"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    until_state(&rig, "ready").await;
    rig.worker().pace(Duration::from_millis(5));
    assert_eq!(room().await, 3);
    // A limit that an operator gave stands.
    let limited = ["account", "tier", "local", "--concurrent-jobs", "2"];
    let limited = command(&rig, &limited).await;
    assert_eq!(limited.code, 0, "{}", limited.stderr);
    assert_eq!(room().await, 2);
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

#[tokio::test]
async fn a_version_that_names_prompts_itself_gets_no_job_and_says_why() {
    let old = Comfy::start(Version::TooOld).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let workers = vec![old];
    let server = serve(data.path(), &workers).await;
    let rig = Rig {
        data,
        server,
        workers,
    };
    rig.until_worker(rig.worker(), &["failed"]).await;
    let listed = command(&rig, &["worker", "list"]).await;
    let why = "update it to 0.3.45 or newer";
    assert!(listed.stdout.contains(why), "{}", listed.stdout);
    let answer = rig.try_submit(&graph("nowhere", 1)).await;
    assert!(answer.status >= 400, "{}", answer.text());
    assert_eq!(rig.worker().submissions().len(), 0);
}

#[tokio::test]
async fn a_version_that_is_not_said_is_found_out_by_a_job_which_runs_elsewhere() {
    let old = Comfy::start(Version::TooOld).await.unwrap();
    old.fault(it::comfy::Fault::MissingRoutes);
    let good = Comfy::start(Version::Recorded).await.unwrap();
    let rig = Rig::with(vec![old, good]).await;
    let job = rig.run(&graph("elsewhere", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    rig.until_worker(rig.worker(), &["failed"]).await;
    assert_eq!(rig.workers[1].ran().len(), 1);
}
