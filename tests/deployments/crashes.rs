//! Processes that end when nobody asked them to: workers, the server, both.

use super::*;

#[tokio::test]
async fn a_worker_outlives_a_crash_of_the_server_and_is_taken_over_with_its_job() {
    let rig = Rig::with(&["--step", "20"], "min = 1\nmax = 1").await;
    let before = pid(&rig.until_state("ready", 1).await);
    let job = rig.submit(&graph("survives", 150)).await;
    rig.until_runs(&job).await;
    let rig = rig.crash().await;
    let after = rig.until_state("ready", 1).await;
    assert_eq!(pid(&after), before, "no second one is started");
    let job = rig.succeeds(&job).await;
    assert_eq!(job["outputs"].as_array().unwrap().len(), 1, "{job:#}");
    let kinds = rig.kinds().await;
    let started = kinds
        .iter()
        .filter(|kind| *kind == "worker_started")
        .count();
    assert_eq!(started, 1, "{kinds:?}");

    // A server that stops takes its workers with it.
    let Rig {
        data: _data,
        server,
    } = rig;
    assert!(server.terminate().await.unwrap().success());
    until_gone(before).await;
}

#[tokio::test]
async fn a_worker_that_ended_while_no_server_ran_is_started_anew() {
    let rig = Rig::with(&[], "min = 1\nmax = 1").await;
    let before = pid(&rig.until_state("ready", 1).await);
    let Rig { data, server } = rig;
    server.kill().await.unwrap();
    kill(before);
    until_gone(before).await;
    let server = serve(data.path()).await;
    let rig = Rig { data, server };
    let after = rig.until_state("ready", 1).await;
    assert_ne!(pid(&after), before);
    let job = rig.submit(&graph("anew", 1)).await;
    rig.succeeds(&job).await;
}

#[tokio::test]
async fn a_process_whose_start_was_not_written_down_is_found_by_its_mark() {
    let rig = Rig::with(&[], "min = 1\nmax = 1").await;
    let before = pid(&rig.until_state("ready", 1).await);
    let record = rig.data.path().join("deployments/sim/worker-1.json");
    std::fs::remove_file(record).unwrap();
    let rig = rig.crash().await;
    let after = rig.until_state("ready", 1).await;
    assert_eq!(pid(&after), before);
}

#[tokio::test]
async fn a_worker_that_is_killed_is_started_again_and_its_job_runs_once_more() {
    let rig = Rig::with(&["--step", "20"], "min = 1\nmax = 1").await;
    let before = pid(&rig.until_state("ready", 1).await);
    let job = rig.submit(&graph("again", 100)).await;
    rig.until_runs(&job).await;
    kill(before);
    rig.succeeds(&job).await;
    let after = rig.until_state("ready", 1).await;
    assert_ne!(pid(&after), before);
    let kinds = rig.kinds().await;
    assert!(
        kinds.iter().any(|kind| kind == "worker_failed"),
        "{kinds:?}"
    );
}

fn kill(pid: i64) {
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
}
