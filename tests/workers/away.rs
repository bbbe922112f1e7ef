//! The rule of two minutes: how long submissions are taken for a worker that is away.

use std::time::Instant;

use it::comfy::Fault;

use super::*;

/// How long a worker may be away, and how exactly a test sees that.
const AWAY: Duration = Duration::from_secs(120);
const EXACT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn submissions_are_taken_for_two_minutes_and_refused_until_the_worker_is_back() {
    let rig = Rig::start().await;
    let before = Instant::now();
    rig.worker().fault(Fault::Frozen(true));
    let frozen = Instant::now();
    rig.until_worker(rig.worker(), &["unreachable"]).await;
    let mut taken = Vec::new();
    let refused = loop {
        let answer = rig
            .try_submit(&graph(&format!("away-{}", taken.len()), 1))
            .await;
        if answer.status != 201 {
            break answer;
        }
        taken.push(answer.json()["id"].as_str().unwrap().to_owned());
        assert!(frozen.elapsed() < 3 * AWAY, "it is never refused");
        // Nothing tells that the time is over but a submission.
        tokio::time::sleep(EXACT / 2).await;
    };
    // It was heard last within a second before it froze.
    assert!(before.elapsed() > AWAY - EXACT, "{:?}", before.elapsed());
    assert_eq!(
        (refused.status, refused.error_code()),
        (429, "deployment_not_ready".to_owned()),
        "{}",
        refused.text()
    );
    let after = refused.header("retry-after").unwrap();
    assert!(after.parse::<u64>().unwrap() >= 1, "{after}");
    let body = json!({"prompt": graph("older", 1), "client_id": "somebody"});
    let older = rig.send(Request::post_json("/api/prompt", &body)).await;
    assert_eq!(older.status, 429, "{}", older.text());
    assert!(older.header("retry-after").is_some());
    // What was taken waits as long as it takes, and what runs here is taken all the same.
    assert!(!taken.is_empty());
    for job in &taken {
        assert_eq!(rig.look(job).await["status"], "queued");
    }
    let native = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "here"}}
    });
    assert_eq!(rig.run(&native).await["status"], "succeeded");
    rig.worker().fault(Fault::Frozen(false));
    rig.until_worker(rig.worker(), &["ready", "busy"]).await;
    assert_eq!(rig.try_submit(&graph("back", 1)).await.status, 201);
    for job in &taken {
        let job = rig.ended(job).await;
        assert_eq!(job["status"], "succeeded", "{job:#}");
    }
}
