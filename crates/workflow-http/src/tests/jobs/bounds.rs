//! Bounds of submissions and of what an account keeps.

use super::*;

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let short = limited(|tier| tier.queued_jobs = 1);
    let server = Rig::new().server(short, |_| {});
    server.submit().await;
    let answer = submit_with(
        &server,
        &[("idempotency-key", "k")],
        &json!({ "workflow": graph() }),
    )
    .await;
    answer.is_error(429, "queue_full");
    let seconds: u64 = answer
        .header("retry-after")
        .expect("a pause")
        .parse()
        .expect("a whole number");
    assert!((1..=60).contains(&seconds));
}

#[tokio::test]
async fn submissions_have_windows_that_only_what_is_taken_in_counts_in() {
    let slow = limited(|tier| {
        tier.submissions = accounts::RateWindow::read_list("2/1m").expect("windows")
    });
    let server = Rig::new().server(slow, |_| {});
    let key = [("idempotency-key", "k")];
    let workflow = json!({ "workflow": graph() });
    let first = submit_with(&server, &key, &workflow).await;
    assert_eq!(first.status, 201);
    for _ in 0..3 {
        // A replay and a graph that cannot run cost nothing.
        assert_eq!(submit_with(&server, &key, &workflow).await.status, 201);
        let invalid = submit_with(&server, &[], &json!({ "workflow": {} })).await;
        invalid.is_error(422, "invalid_workflow");
    }
    server.submit().await;
    let refused = submit_with(&server, &[], &workflow).await;
    refused.is_error(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(submit_with(&server, &key, &workflow).await.status, 201);
    let other = submit_with(&server, &[("idempotency-key", "other")], &workflow).await;
    other.is_error(429, "rate_limited");
    server.rig.clock.advance(SignedDuration::from_secs(60));
    server.submit().await;
}

#[tokio::test]
async fn an_account_stores_no_more_bytes_than_its_tier_says() {
    let small = limited(|tier| tier.stored_bytes = 1_000);
    let server = Rig::new().server(small, |_| {});
    server.upload("a", &"a".repeat(900)).await;
    let parts = [("content_type", "image/png"), ("file_path", "b")];
    let (kind, body) = crate::tests::harness::form(&parts, Some(&"b".repeat(101)));
    let headers = [("content-type", kind.as_str())];
    let upload = server.send(http::Method::POST, "/api/v2/assets", &headers, body);
    let details = upload.await.is_error(413, "storage_quota_exceeded");
    assert_eq!(details["details"]["limit_bytes"], 1_000);
    assert!(
        !server.rig.has_blob(&"b".repeat(101)).await,
        "nothing is kept"
    );
    let hash = asset_store::BlobHash::of("a".repeat(900).as_bytes()).to_string();
    let from_hash = json!({ "hash": hash, "file_path": "elsewhere" });
    let refused = server.post_json("/api/v2/assets/from-hash", &from_hash);
    refused.await.is_error(413, "storage_quota_exceeded");
    let workflow = json!({ "workflow": graph() });
    let refused = submit_with(&server, &[], &workflow).await;
    refused.is_error(413, "storage_quota_exceeded");
    server.upload("c", &"c".repeat(100)).await;
}

#[tokio::test]
async fn jobs_and_uploads_are_kept_as_long_as_the_tier_says() {
    let brief = limited(|tier| {
        tier.job_retention = SignedDuration::from_hours(1);
        tier.upload_retention = SignedDuration::from_hours(2);
    });
    let server = Rig::new().server(brief, |_| {});
    let job = server
        .post_json("/api/v2/jobs", &json!({ "workflow": graph() }))
        .await;
    assert_eq!(job.json()["expires_at"], "2026-01-01T01:00:00.000Z");
    let asset = server.upload("x.png", "bytes").await;
    assert_eq!(asset["expires_at"], "2026-01-01T02:00:00.000Z");
    let copy = json!({ "hash": asset["hash"], "file_path": "y.png" });
    let copy = server.post_json("/api/v2/assets/from-hash", &copy).await;
    assert_eq!(copy.json()["expires_at"], "2026-01-01T02:00:00.000Z");
}
