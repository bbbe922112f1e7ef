//! Lists of jobs with large graphs: one graph at a time is in memory, however many are listed.

use futures_util::future::join_all;

use super::*;

const JOBS: usize = 20;

/// Bytes of a graph, at least.
const GRAPH: usize = 6 << 20;

/// A graph with seven texts of nearly a MiB, which nothing needs to run.
fn large_graph(number: usize) -> Value {
    let mut graph = tiny_graph();
    graph["1"]["inputs"]["color"] = number.into();
    for node in 3..10 {
        let note = json!({"note": "x".repeat(900_000)});
        graph[node.to_string()] = json!({"class_type": "EmptyImage", "inputs": note});
    }
    graph
}

#[tokio::test]
async fn lists_of_large_jobs_hold_one_of_them_at_a_time() {
    let it = Fixture::new().await;
    // Its jobs wait for as long as the test needs, and no run takes memory meanwhile.
    it.operate("account tier hostile --concurrent-jobs 0").await;
    let mut last = String::new();
    for number in 0..JOBS {
        let body = json!({"workflow": large_graph(number)});
        let answer = it.hostile(Request::post_json("/api/v2/jobs", &body)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        last = answer.json()["id"].as_str().unwrap().to_owned();
    }
    let check = async |path: &str, least: usize| {
        let grown = it.growth(async {
            let answer = it.hostile(Request::get(path)).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            assert!(answer.body.len() >= least, "{path}: {}", answer.body.len());
            let parsed: Value = serde_json::from_slice(&answer.body).unwrap();
            drop(parsed);
        });
        let grown = grown.await;
        assert!(grown < 64 * MIB, "{path} took {} MiB", grown / MIB);
    };
    check("/api/queue", JOBS * GRAPH).await;
    check(&format!("/api/v2/jobs/{last}/workflow"), GRAPH).await;
    check(&format!("/api/jobs/{last}"), GRAPH).await;
    let cleared = it
        .hostile(post("/api/queue", "{\"clear\":true}".to_owned()))
        .await;
    assert_eq!(cleared.status, 200, "{}", cleared.text());
    check("/api/history", JOBS * GRAPH).await;
    check(&format!("/api/history/{last}"), GRAPH).await;
    check("/api/history_v2", 0).await;
    check("/api/jobs", 0).await;
    // Many at once wait for each other, and for nobody else.
    let grown = it.growth(async {
        let lists = (0..8).map(|_| it.hostile(Request::get("/api/history")));
        let (lists, ()) = tokio::join!(join_all(lists), it.other_gets_on());
        for answer in lists {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    });
    let grown = grown.await;
    assert!(grown < 160 * MIB, "{} MiB", grown / MIB);
    assert_eq!(it.server.metric("easel_body_bytes").await.unwrap(), 0.0);
}
