//! Trees of JSON: counted before they are made, bounded together, and made where nobody waits.

use futures_util::future::join_all;

use super::*;

/// 16 MiB of the smallest values there are.
const MILLIONS: usize = 8 << 20;

#[tokio::test]
async fn millions_of_values_are_refused_before_a_tree_is_made_of_them() {
    let it = Fixture::new().await;
    let bodies = [
        (
            "/api/v2/jobs",
            format!("{{\"workflow\":{}}}", zeros(MILLIONS - 100)),
        ),
        (
            "/api/prompt",
            format!("{{\"prompt\":{}}}", zeros(MILLIONS - 100)),
        ),
        (
            "/api/settings",
            format!("{{\"a\":[{}0]}}", "0,".repeat(MILLIONS - 100)),
        ),
        (
            "/api/v2/assets/from-hash",
            format!("[{}0]", "0,".repeat(MILLIONS - 100)),
        ),
        (
            "/api/history",
            format!("{{\"delete\":[{}0]}}", "0,".repeat(MILLIONS - 100)),
        ),
        // Lists within lists have no commas.
        (
            "/api/v2/jobs",
            format!(
                "[{}1]",
                format!("{}{},", "[".repeat(100), "]".repeat(100)).repeat(80_000)
            ),
        ),
    ];
    for (path, body) in bodies {
        let grown = it.growth(async {
            let answer = it.hostile(post(path, body)).await;
            assert_eq!(answer.status, 400, "{path}: {}", answer.text());
            let says = answer.text();
            assert!(says.contains("more than 1000000 values"), "{path}: {says}");
            if path == "/api/prompt" {
                assert_eq!(answer.json()["error"]["type"], "invalid_prompt");
            }
        });
        let grown = grown.await;
        // The text, once as it came and once while it became longer.
        assert!(grown < 64 * MIB, "{path} took {} MiB", grown / MIB);
    }
}

#[tokio::test]
async fn the_largest_trees_of_one_account_are_made_one_after_the_other() {
    let it = Fixture::new().await;
    let body = format!("{{\"workflow\":{}}}", zeros(990_000));
    let grown = it.growth(async {
        let attacks = (0..12).map(|_| it.hostile(post("/api/v2/jobs", body.clone())));
        let (answers, ()) = tokio::join!(join_all(attacks), it.other_gets_on());
        // Those whose turn does not come for ten seconds on a slow machine are told to come back.
        let codes: Vec<String> = answers.iter().map(Answer::error_code).collect();
        let known = |code: &String| ["invalid_workflow", "too_busy"].contains(&code.as_str());
        assert!(codes.iter().all(known), "{codes:?}");
        let has_turn = codes.iter().any(|code| code == "invalid_workflow");
        assert!(has_turn, "whoever comes first has its turn: {codes:?}");
    });
    let grown = grown.await;
    assert!(grown < 512 * MIB, "{} MiB", grown / MIB);
    assert_eq!(it.server.metric("easel_tree_bytes").await.unwrap(), 0.0);
}

#[tokio::test]
async fn texts_of_more_than_a_mebibyte_are_refused_by_node_and_input() {
    let it = Fixture::new().await;
    let graph = |bytes: usize| {
        let mut graph = tiny_graph();
        graph["2"]["inputs"]["filename_prefix"] = "x".repeat(bytes).into();
        // No output needs this one, and it is kept with the others all the same.
        graph["3"] = json!({"class_type": "EmptyImage", "inputs": {"note": {"text": "é".repeat(bytes / 2)}}});
        graph
    };
    let submit = async |graph: Value| {
        let v2 = post("/api/v2/jobs", json!({"workflow": graph}).to_string());
        let v1 = post("/api/prompt", json!({"prompt": graph}).to_string());
        (it.hostile(v2).await, it.hostile(v1).await)
    };
    let (v2, v1) = submit(graph((1 << 20) + 2)).await;
    assert_eq!(
        (v2.status, v2.error_code().as_str()),
        (422, "invalid_workflow")
    );
    let errors = &v2.json()["error"]["details"]["node_errors"];
    assert_eq!(errors["2"][0]["field"], "filename_prefix");
    assert_eq!(errors["3"][0]["field"], "note");
    assert!(v2.body.len() < 4096, "the text is not told back");
    assert_eq!(v1.status, 400, "{}", v1.text());
    let v1 = v1.json();
    assert_eq!(v1["error"]["type"], "prompt_outputs_failed_validation");
    let error = &v1["node_errors"]["2"]["errors"][0];
    assert_eq!(error["extra_info"]["input_name"], "filename_prefix");
    // One that stands in no input is told without its place.
    let mut titled = tiny_graph();
    titled["1"]["_meta"] = json!({"title": "x".repeat((1 << 20) + 1)});
    let (v2, v1) = submit(titled).await;
    assert_eq!(
        (v2.status, v2.error_code().as_str()),
        (422, "invalid_workflow")
    );
    assert_eq!(
        (v1.status, v1.json()["error"]["type"].as_str()),
        (400, Some("invalid_prompt"))
    );
    // The longest one passes where nothing else is wrong with it.
    let mut longest = tiny_graph();
    longest["1"]["_meta"] = json!({"title": "x".repeat(1 << 20)});
    let (v2, v1) = submit(longest).await;
    assert_eq!(
        (v2.status, v1.status),
        (201, 200),
        "{} {}",
        v2.text(),
        v1.text()
    );
}
