//! Lists of jobs: each once, by labels and by states.

use super::*;

#[tokio::test]
async fn a_list_gives_each_job_once_while_others_come() {
    let server = server();
    let mut submitted = Vec::new();
    for _ in 0..5 {
        server.rig.clock.advance(SignedDuration::from_millis(1));
        submitted.push(server.submit().await.to_string());
    }
    let mut listed = Vec::new();
    let mut path = "/api/v2/jobs?limit=2".to_owned();
    loop {
        let page = server.get(&path).await.json();
        for job in page["jobs"].as_array().expect("a list") {
            assert!(job["urls"]["self"].is_string() && job["create_time"].is_string());
            assert!(job["update_time"].is_string());
            listed.push(job["id"].as_str().expect("an id").to_owned());
        }
        let Some(cursor) = page.get("next_cursor") else {
            break;
        };
        path = format!(
            "/api/v2/jobs?limit=2&cursor={}",
            cursor.as_str().expect("a text")
        );
        server.rig.clock.advance(SignedDuration::from_millis(1));
        server.submit().await;
    }
    submitted.reverse();
    assert_eq!(listed, submitted);
}

#[tokio::test]
async fn a_list_is_filtered_by_labels() {
    let server = server();
    for (run, kind) in [("1", "a"), ("2", "a"), ("2", "b")] {
        let metadata = json!({ "run": run, "kind": kind });
        let body = json!({ "workflow": graph(), "metadata": metadata });
        assert_eq!(server.post_json("/api/v2/jobs", &body).await.status, 201);
    }
    for (query, count) in [
        ("", 3),
        ("metadata%5Brun%5D=2", 2),
        ("metadata[run]=2&metadata[kind]=b", 1),
        ("metadata[run]=3", 0),
    ] {
        let page = server.get(&format!("/api/v2/jobs?{query}")).await.json();
        assert_eq!(
            page["jobs"].as_array().map(Vec::len),
            Some(count),
            "{query}"
        );
        assert!(page.get("next_cursor").is_none());
    }
    server
        .get("/api/v2/jobs?metadata=x")
        .await
        .is_error(400, "invalid_metadata_filter");
    server
        .get("/api/v2/jobs?cursor=x")
        .await
        .is_error(400, "invalid_cursor");
    server
        .get("/api/v2/jobs?limit=x")
        .await
        .is_error(422, "invalid_request");
    let page = server.get("/api/v2/jobs?limit=1").await.json();
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let other = server
        .get(&format!("/api/v2/jobs?metadata[run]=2&cursor={cursor}"))
        .await;
    other.is_error(400, "invalid_cursor");
}

#[tokio::test]
async fn a_list_is_filtered_by_states() {
    let server = server();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(server.submit().await);
    }
    for id in &ids[1..4] {
        let path = format!("/api/v2/jobs/{id}/cancel");
        assert_eq!(server.send(Method::POST, &path, &[], "").await.status, 200);
    }
    let list = async |query: &str| {
        let page = server.get(&format!("/api/v2/jobs?{query}")).await.json();
        let jobs = page["jobs"].as_array().expect("a list").iter();
        let known = |job: &Value| ids.iter().position(|id| job["id"] == id.to_string());
        let places: Vec<_> = jobs.filter_map(known).collect();
        (places, page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(list("status=queued").await.0, [4, 0]);
    assert_eq!(list("status=canceled&unknown=1").await.0, [3, 2, 1]);
    assert_eq!(
        list("status=queued&status=canceled").await.0,
        [4, 3, 2, 1, 0]
    );
    assert_eq!(list("status=failed").await, (vec![], None));
    let (first, next) = list("status=canceled&limit=2").await;
    let next = next.expect("there is another page");
    assert_eq!(first, [3, 2]);
    let rest = list(&format!("status=canceled&limit=2&cursor={next}")).await;
    assert_eq!(rest, (vec![1], None));
    let other = format!("/api/v2/jobs?status=queued&cursor={next}");
    server.get(&other).await.is_error(400, "invalid_cursor");
    for wrong in ["done", "", "queued,canceled"] {
        let path = format!("/api/v2/jobs?status={wrong}");
        let error = server.get(&path).await.is_error(400, "invalid_request");
        assert_eq!(error["details"]["field"], "status");
    }
}
