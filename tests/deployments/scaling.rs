//! Workers that come with jobs and go without them.

use super::*;

#[tokio::test]
async fn a_deployment_scales_to_zero_and_a_submission_wakes_it() {
    let rig = Rig::with(&[], "idle_window_s = 0").await;
    let asleep = rig.until_state("stopped", 0).await;
    assert_eq!(asleep["why"], "no job needs it; a submission starts it");
    assert!(asleep["start_ms"].as_u64().unwrap() > 0, "{asleep:#}");
    let job = rig.submit(&graph("woken", 1)).await;
    let job = rig.succeeds(&job).await;
    assert_eq!(job["outputs"][0]["name"], "woken_00001_.png");
    rig.until_state("stopped", 0).await;
    let started = ["worker_started", "worker_ready", "worker_stopped"];
    let kinds = rig.kinds().await;
    assert_eq!(kinds[0], "applied");
    for kind in started {
        let times = kinds.iter().filter(|other| *other == kind).count();
        assert_eq!(times, 2, "{kind}: {kinds:?}");
    }
}

#[tokio::test]
async fn workers_are_added_while_jobs_wait_and_stop_when_idle_but_for_the_least_number() {
    let settings = "min = 1\nmax = 3\nscale_after_s = 1\nidle_window_s = 1";
    let rig = Rig::with(&["--step", "20"], settings).await;
    let first = pid(&rig.until_state("ready", 1).await);
    let mut jobs = Vec::new();
    for number in 0..8 {
        jobs.push(rig.submit(&graph(&format!("many-{number}"), 150)).await);
    }
    // One worker has two of them; six wait.
    rig.until("three workers", |it| of(it).len() == 3).await;
    for job in &jobs {
        rig.succeeds(job).await;
    }
    let least = rig.until_state("ready", 1).await;
    assert!(lives(pid(&least)), "{least:#}");

    rig.done(&["deployment", "scale", "sim", "--min", "2"])
        .await;
    rig.until_state("ready", 2).await;
    let wrong = rig
        .command(&["deployment", "scale", "sim", "--min", "4"])
        .await;
    assert!(
        wrong.code == 2 && wrong.stderr.contains("`max`"),
        "{}",
        wrong.stderr
    );
    rig.done(&["deployment", "scale", "sim", "--min", "0", "--max", "1"])
        .await;
    rig.until_state("stopped", 0).await;
    until_gone(first).await;
}

#[tokio::test]
async fn what_an_operator_stopped_takes_no_jobs_until_it_is_started() {
    let rig = Rig::start().await;
    let told = rig.data.path().join("told");
    rig.apply(&["--hold", &told.display().to_string()], "min = 1")
        .await;
    rig.until_state("ready", 1).await;
    let runs = rig.submit(&graph("runs", 1)).await;
    let next = rig.submit(&graph("next", 1)).await;
    let waits = rig.submit(&graph("waits", 1)).await;
    rig.until_runs(&runs).await;
    rig.done(&["deployment", "stop", "sim"]).await;
    let refused = rig.try_submit(&graph("refused", 1)).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (422, "deployment_stopped".to_owned())
    );
    std::fs::write(&told, "").unwrap();
    // What runs ends, and what waits stays.
    rig.succeeds(&runs).await;
    rig.succeeds(&next).await;
    rig.until_state("stopped", 0).await;
    assert_eq!(rig.look(&waits).await["status"], "queued");
    let explained = rig.done(&["job", "explain", &waits]).await;
    assert!(
        explained.contains("the deployment is stopped"),
        "{explained}"
    );
    let in_use = rig.command(&["deployment", "remove", "sim"]).await;
    assert!(
        in_use.code == 2 && in_use.stderr.contains("jobs wait"),
        "{}",
        in_use.stderr
    );
    rig.done(&["deployment", "start", "sim"]).await;
    rig.succeeds(&waits).await;
}

#[tokio::test]
async fn what_is_not_known_yet_is_refused_for_now_and_wakes_nothing_twice() {
    let rig = Rig::start().await;
    rig.apply(&["--late", "2000"], "waking_queue = 2").await;
    let refused = rig.try_submit(&graph("early", 1)).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (429, "deployment_not_ready".to_owned())
    );
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    rig.until_state("ready", 1).await;
    rig.done(&["deployment", "scale", "sim", "--min", "0", "--max", "1"])
        .await;

    // Asleep, it takes as many as may wait for its start, and tells how long that takes.
    let asleep = "idle_window_s = 0\nwaking_queue = 2";
    rig.apply(&["--late", "2000"], asleep).await;
    rig.until_state("stopped", 0).await;
    let taken = [
        rig.submit(&graph("a", 1)).await,
        rig.submit(&graph("b", 1)).await,
    ];
    let refused = rig.try_submit(&graph("c", 1)).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (429, "deployment_not_ready".to_owned())
    );
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((2..60).contains(&after), "{after} s, as a start takes");
    for job in taken {
        rig.succeeds(&job).await;
    }
    let unknown = json!({"1": {"class_type": "Nowhere", "inputs": {}}});
    let refused = rig.try_submit(&unknown).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (422, "invalid_workflow".to_owned())
    );
}
