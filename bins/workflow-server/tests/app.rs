//! A whole server in this process: how it starts, leaves, and finds its jobs again.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use accounts::Principal;
use clap::Command;
use server_kit::config::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use workflow_core::{Job, JobId, JobStatus, Metadata, Submission};
use workflow_server::{App, Config, KEYS, Stack, assemble};

fn config(data_dir: &Path, flags: &[&str]) -> Config {
    let data_dir = data_dir.to_str().expect("a plain path");
    let mut line = vec!["server", "--data-dir", data_dir, "--min-free", "0B"];
    if !flags.contains(&"--listen") {
        line.extend(["--listen", "127.0.0.1:0"]);
    }
    line.extend(flags);
    let command = Settings::flags(Command::new("server"), KEYS);
    let matches = command.get_matches_from(line);
    let mut settings = Settings::gather(KEYS, &matches, Vec::new()).expect("settings");
    Config::read(&mut settings).expect("a configuration")
}

async fn app(data_dir: &Path, flags: &[&str]) -> App {
    assemble(&config(data_dir, flags)).await.expect("it starts")
}

fn address_of(app: &App) -> SocketAddr {
    app.address().tcp().expect("it listens on a port")
}

/// The status line and the body of an answer; `None` when nobody listens.
async fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), body.to_owned()))
}

/// Submits a job of many large pictures: it takes longer than anything here waits for.
async fn submit_long(stack: &Stack) -> (Principal, JobId) {
    let principal = stack.local_standing();
    let id = JobId(Uuid::now_v7());
    let graph = br#"{
        "1": {"class_type": "EmptyImage", "inputs": {"width": 2048, "height": 2048, "batch_size": 16, "color": 255}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "long"}}
    }"#;
    let submission = Submission {
        id,
        account: principal.account.clone(),
        tier: principal.tier.clone(),
        workflow: graph.as_slice().into(),
        metadata: Metadata::new(),
        secret: None,
        key: None,
        origin: "".into(),
        targets: None,
        partial: false,
        flat_uploads: false,
        extra_pnginfo: Default::default(),
        trace: None,
    };
    let submitted = stack.jobs.submit(submission, stack.timer.now()).await;
    submitted.expect("it is taken in");
    (principal, id)
}

/// Follows a job until `wanted`.
async fn until(stack: &Stack, id: JobId, wanted: impl Fn(JobStatus) -> bool) -> Arc<Job> {
    let account = stack.local_standing().account;
    let followed = stack.jobs.follow(&account, id, stack.timer.now()).await;
    let (mut view, mut follower) = followed.expect("the job is there");
    while !wanted(view.job.status) {
        follower.changed().await;
        follower.latest();
        let got = stack.jobs.get(&account, id, stack.timer.now()).await;
        view = got.expect("the job is there");
    }
    view.job
}

#[tokio::test]
async fn the_address_is_known_before_it_runs_and_a_taken_one_fails_at_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let app = app(&folder.path().join("a"), &[]).await;
    assert_ne!(address_of(&app).port(), 0);
    let address = app.address().to_string();
    let second = assemble(&config(&folder.path().join("b"), &["--listen", &address])).await;
    let text = second.expect_err("the address is taken").to_string();
    assert!(
        text.contains(&address) && text.contains("--listen"),
        "{text}"
    );
    assert!(!folder.path().join("b").exists(), "nothing was left behind");
}

#[tokio::test]
async fn one_process_has_a_data_directory_at_a_time() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let first = app(folder.path(), &[]).await;
    let second = assemble(&config(folder.path(), &[])).await;
    let text = second.expect_err("the directory is taken").to_string();
    assert!(text.contains("in use by another process"), "{text}");
    drop(first);
    drop(app(folder.path(), &[]).await);
}

#[tokio::test]
async fn a_leaving_server_is_not_ready_at_once_and_then_gone() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let app = app(folder.path(), &["--drain-delay", "60s"]).await;
    let address = address_of(&app);
    let asked = CancellationToken::new();
    let asking = async {
        let (status, body) = get(address, "/ready").await.expect("it serves");
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        asked.cancel();
        loop {
            let (status, body) = get(address, "/ready")
                .await
                .expect("it serves on for a while");
            if status.ends_with("503 Service Unavailable") {
                assert!(body.contains("the server is shutting down"), "{body}");
                assert_eq!(
                    get(address, "/health")
                        .await
                        .map(|(status, _)| status)
                        .as_deref(),
                    Some("HTTP/1.1 200 OK")
                );
                return;
            }
        }
    };
    tokio::select! {
        () = app.run(asked.cancelled()) => unreachable!("it accepts for a minute more"),
        () = asking => {}
    }
    assert!(
        get(address, "/health").await.is_none(),
        "dropping it ends it"
    );
}

#[tokio::test]
async fn a_server_without_work_leaves_at_once() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let app = app(folder.path(), &[]).await;
    let address = address_of(&app);
    app.run(std::future::ready(())).await;
    assert!(get(address, "/health").await.is_none());
}

#[tokio::test]
async fn a_job_that_outlasts_the_grace_is_given_back_and_runs_after_the_next_start() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let first = app(folder.path(), &["--drain-grace", "0s"]).await;
    let stack = first.stack().clone();
    let (principal, id) = submit_long(&stack).await;
    first
        .run(async {
            until(&stack, id, |status| status == JobStatus::Running).await;
        })
        .await;
    let left = stack
        .jobs
        .get(&principal.account, id, stack.timer.now())
        .await;
    let left = left.expect("the job is there").job;
    assert_eq!(left.status, JobStatus::Queued);
    drop(stack);

    let second = app(folder.path(), &[]).await;
    let stack = second.stack().clone();
    let ended = async { until(&stack, id, JobStatus::is_terminal).await };
    let job = tokio::select! {
        () = second.run(std::future::pending()) => unreachable!("nobody stops it"),
        job = ended => job,
    };
    assert_eq!(
        (job.status, job.outputs.len()),
        (JobStatus::Succeeded, 16),
        "{:?}",
        job.error
    );
    assert_eq!(job.lost_claims, 0, "giving back is no lost attempt");
}

#[tokio::test]
async fn jobs_are_counted() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let app = app(folder.path(), &[]).await;
    let (address, stack) = (address_of(&app), app.stack().clone());
    let asking = async {
        let (principal, id) = submit_long(&stack).await;
        let canceled = stack
            .jobs
            .cancel(&principal.account, id, stack.timer.now())
            .await;
        canceled.expect("it can be canceled");
        until(&stack, id, JobStatus::is_terminal).await;
        let (_, text) = get(address, "/metrics").await.expect("it serves");
        for line in [
            "easel_jobs_ended_total{status=\"canceled\"} 1",
            "easel_jobs_queued 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    };
    tokio::select! {
        () = app.run(std::future::pending()) => unreachable!("nobody stops it"),
        () = asking => {}
    }
}
