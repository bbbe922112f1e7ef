//! Revisions beside each other.

use super::*;

#[tokio::test]
async fn a_revision_starts_beside_the_old_one_which_ends_its_jobs() {
    let rig = Rig::with(&["--step", "20"], "min = 1").await;
    let old = pid(&rig.until_state("ready", 1).await);
    let runs = rig.submit(&graph("old", 200)).await;
    rig.until_runs(&runs).await;
    rig.apply(&["--step", "1"], "min = 1").await;
    let both = rig.until("revision 2", |it| it["revision"] == 2).await;
    assert!(lives(old), "the job of revision 1 goes on: {both:#}");
    let new = rig.submit(&graph("new", 1)).await;
    rig.succeeds(&new).await;
    assert_eq!(rig.look(&runs).await["status"], "running");
    rig.succeeds(&runs).await;
    until_gone(old).await;
    let alone = rig.until_state("ready", 1).await;
    assert_eq!(of(&alone)[0]["revision"], 2);

    rig.done(&["deployment", "rollback", "sim"]).await;
    let back = rig
        .until("revision 1", |it| it["revision"] == 1 && of(it).len() == 1)
        .await;
    assert_eq!(back["revisions"].as_array().unwrap().len(), 2);
    let job = rig.submit(&graph("again", 1)).await;
    rig.succeeds(&job).await;
    let none = rig.command(&["deployment", "rollback", "sim", "7"]).await;
    assert!(
        none.code == 2 && none.stderr.contains("no revision 7"),
        "{}",
        none.stderr
    );
}

#[tokio::test]
async fn a_revision_that_does_not_become_ready_is_dropped_and_the_old_one_stays() {
    let rig = Rig::with(&[], "min = 1").await;
    rig.apply(&["--late", "100000"], "min = 1\nstart_limit_s = 1")
        .await;
    let dropped = rig
        .until("dropped", |it| it["next_revision"].is_null())
        .await;
    assert_eq!(
        (&dropped["revision"], &dropped["state"]),
        (&json!(1), &json!("ready"))
    );
    let events = rig.done(&["deployment", "events", "sim"]).await;
    assert!(
        events.contains("revision 2 is dropped: no worker was ready within 1 s"),
        "{events}"
    );
    let job = rig.submit(&graph("stays", 1)).await;
    rig.succeeds(&job).await;
    rig.until_state("ready", 1).await;
}

#[tokio::test]
async fn a_first_revision_that_fails_says_why_and_takes_no_jobs() {
    let rig = Rig::start().await;
    rig.apply(&["--fails"], "start_limit_s = 2").await;
    let failed = rig.until("failed", |it| it["state"] == "failed").await;
    let why = failed["why"].as_str().unwrap();
    assert!(
        why.contains("exit status: 1") && why.contains("revision 1"),
        "{why}"
    );
    let refused = rig.try_submit(&graph("refused", 1)).await;
    assert_eq!(
        (refused.status, refused.error_code()),
        (422, "deployment_stopped".to_owned())
    );
    let logs = rig.done(&["deployment", "logs", "sim"]).await;
    assert!(
        logs.contains("sim-1  Error: Custom { kind: Other, error: \"it was told to fail\" }"),
        "{logs}"
    );
    // Another definition mends it.
    rig.apply(&[], "").await;
    rig.until("revision 2", |it| it["revision"] == 2).await;
    let job = rig.submit(&graph("mended", 1)).await;
    rig.succeeds(&job).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_with_its_name() {
    let rig = Rig::start().await;
    let path = rig.data.path().join("none.toml");
    let text = "name = \"none\"\ncommand = [\"/no/such/program\", \"{port}\"]\nstart_limit_s = 1\n";
    std::fs::write(&path, text).unwrap();
    rig.done(&["deployment", "apply", path.to_str().unwrap()])
        .await;
    for _ in 0..600 {
        let shown = rig.done(&["deployment", "show", "none"]).await;
        if shown.contains("failed") {
            assert!(
                shown.contains("/no/such/program cannot be started"),
                "{shown}"
            );
            return;
        }
        pause().await;
    }
    panic!("it never failed");
}
