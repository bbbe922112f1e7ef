//! Workers that go wrong.

use it::comfy::Fault;

use super::*;

async fn succeeds(rig: &Rig, name: &str) {
    let job = rig.run(&graph(name, 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let bytes = rig.output(&job, 0).await;
    let id = job["id"].as_str().unwrap();
    // A prompt that was submitted again has another id, and the same name.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains(id) || text.contains(name), "{text}");
}

#[tokio::test]
async fn a_socket_that_lies_or_lags_or_says_nothing_costs_no_job() {
    let rig = Rig::start().await;
    rig.worker().fault(Fault::GarbageFrames);
    succeeds(&rig, "garbage").await;
    rig.worker().fault(Fault::None);
    rig.worker()
        .fault(Fault::LateSocket(Duration::from_millis(100)));
    succeeds(&rig, "late").await;
    rig.worker().fault(Fault::None);
    rig.worker().fault(Fault::SilentSocket);
    succeeds(&rig, "silent").await;
}

#[tokio::test]
async fn uploads_and_downloads_that_break_off_are_done_again() {
    let rig = Rig::start().await;
    rig.worker().fault(Fault::WrongLength(2));
    succeeds(&rig, "length").await;
    rig.upload("a.png", b"picture").await;
    rig.worker().fault(Fault::CutUploads(1));
    let mut loading = graph("upload", 1);
    loading["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "a.png"}});
    let job = rig.run(&loading).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    rig.worker().fault(Fault::Errors(1));
    succeeds(&rig, "errors").await;
    rig.worker().fault(Fault::Garbage(1));
    succeeds(&rig, "garbage").await;
}

#[tokio::test]
async fn a_submission_without_an_answer_runs_once() {
    let rig = Rig::start().await;
    rig.worker()
        .fault(Fault::CutSubmissions(1, Duration::from_millis(1500)));
    succeeds(&rig, "cut").await;
    assert_eq!(rig.worker().ran().len(), 1);
}

#[tokio::test]
async fn a_worker_that_restarts_loses_no_job() {
    let rig = Rig::start().await;
    rig.worker().pace(Duration::from_millis(20));
    let job = rig.submit(&graph("restart", 20)).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    rig.worker().restart();
    let job = rig.ended(&job).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let ends: Vec<_> = rig.worker().ran().iter().map(|ran| ran.end).collect();
    assert_eq!(ends, [None, Some("success")]);
}

#[tokio::test]
async fn outputs_that_are_not_there_are_no_success() {
    let rig = Rig::start().await;
    rig.worker().fault(Fault::MissingOutputs(true));
    let job = rig.run(&graph("missing", 1)).await;
    assert_eq!(
        (&job["status"], &job["error"]["code"]),
        (&json!("failed"), &json!("worker_lost")),
        "{job:#}"
    );
    rig.worker().fault(Fault::None);
    rig.worker().fault(Fault::DiskFull(true));
    rig.until_worker(rig.worker(), &["ready"]).await;
    let job = rig.run(&graph("full", 1)).await;
    assert_eq!(job["error"]["code"], "node_execution_error", "{job:#}");
}

#[tokio::test]
async fn a_worker_that_is_gone_leaves_its_job_to_another() {
    let mut workers = Vec::new();
    for _ in 0..2 {
        workers.push(Comfy::start(Version::New).await.unwrap());
    }
    let rig = Rig::with(workers).await;
    for worker in &rig.workers {
        worker.pace(Duration::from_millis(20));
    }
    let job = rig.submit(&graph("moving", 30)).await;
    let at = loop {
        if let Some(at) = rig
            .workers
            .iter()
            .position(|worker| !worker.ran().is_empty())
        {
            break at;
        }
        pause().await;
    };
    // It accepts connections and says nothing: only silence tells.
    rig.workers[at].fault(Fault::Frozen(true));
    rig.until_worker(&rig.workers[at], &["unreachable"]).await;
    let ended = rig.ended(&job).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    assert_eq!(rig.workers[1 - at].ran().len(), 1);
    rig.workers[at].fault(Fault::Frozen(false));
    rig.until_worker(&rig.workers[at], &["ready", "busy"]).await;
}

#[tokio::test]
async fn a_server_that_was_killed_finds_its_job_where_it_runs() {
    let rig = Rig::start().await;
    rig.worker().pace(Duration::from_millis(20));
    let job = rig.submit(&graph("found", 50)).await;
    rig.worker().until(|ran| ran.len() == 1).await;
    let rig = rig.crash().await;
    let job = rig.ended(&job).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    assert_eq!(rig.worker().ran().len(), 1, "it runs once");
}

#[tokio::test]
async fn what_a_worker_had_is_remembered_while_it_is_away() {
    let rig = Rig::start().await;
    succeeds(&rig, "before").await;
    rig.worker().fault(Fault::Frozen(true));
    let rig = rig.crash().await;
    let job = rig.submit(&graph("while-away", 1)).await;
    assert_eq!(rig.look(&job).await["status"], "queued");
    rig.worker().fault(Fault::Frozen(false));
    assert_eq!(rig.ended(&job).await["status"], "succeeded");
}

#[tokio::test]
async fn a_worker_that_was_never_seen_is_waited_for_by_the_client() {
    let worker = Comfy::start(Version::New).await.unwrap();
    worker.fault(Fault::Frozen(true));
    let data = tempfile::tempdir().unwrap();
    let workers = vec![worker];
    let server = serve(data.path(), &workers).await;
    let rig = Rig {
        data,
        server,
        workers,
    };
    let answer = rig.try_submit(&graph("early", 1)).await;
    assert_eq!(
        (answer.status, answer.error_code()),
        (429, "deployment_not_ready".to_owned()),
        "{}",
        answer.text()
    );
    assert!(answer.header("retry-after").is_some());
    rig.worker().fault(Fault::Frozen(false));
    rig.until_worker(rig.worker(), &["ready"]).await;
    succeeds(&rig, "late").await;
}

#[tokio::test]
async fn an_upload_that_a_worker_takes_too_slowly_holds_up_no_other_job_and_is_done_again() {
    let rig = Rig::start().await;
    rig.upload("a.png", b"picture").await;
    rig.worker().fault(Fault::SlowUploads(1));
    let mut loading = graph("slow", 1);
    loading["1"] = json!({"class_type": "LoadImage", "inputs": {"image": "a.png"}});
    let slow = rig.submit(&loading).await;
    rig.worker().until_slow().await;
    // The worker computes other jobs meanwhile.
    succeeds(&rig, "meanwhile").await;
    assert_eq!(rig.look(&slow).await["status"], "running");
    let job = rig.ended(&slow).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let names: Vec<_> = rig
        .worker()
        .ran()
        .into_iter()
        .map(|ran| ran.saves)
        .collect();
    let expected = ["meanwhile", "slow"].map(|name| Some(name.to_owned()));
    assert_eq!(
        (names.as_slice(), rig.worker().uploads()),
        (&expected[..], 1)
    );
}

#[tokio::test]
async fn an_output_is_what_its_bytes_are_whatever_was_announced() {
    let rig = Rig::start().await;
    rig.worker().fault(Fault::OtherContent(1));
    let job = rig.run(&graph("other", 1)).await;
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let output = &job["outputs"][0];
    assert_eq!(
        (&output["name"], &output["type"], &output["content_type"]),
        (
            &json!("other_00001_.png"),
            &json!("video"),
            &json!("video/mp4")
        ),
        "{output:#}"
    );
    let bytes = rig.output(&job, 0).await;
    let hash = format!("blake3:{}", asset_store::BlobHash::of(&bytes).to_hex());
    assert_eq!(
        (&output["hash"], bytes.get(4..8)),
        (&json!(hash), Some(&b"ftyp"[..]))
    );
    // The next one is a picture again.
    let job = rig.run(&graph("same", 1)).await;
    assert_eq!(job["outputs"][0]["content_type"], "image/png", "{job:#}");
}
