//! The document of this API against what the server answers.

use it::schema::misfits;
use it::{Request, Server};
use serde_json::{Value, json};

use super::{get, post, run, submit, tiny_graph, upload};

/// Checks an answer against the schema that the document has for it.
fn check(document: &Value, method: &str, route: &str, answer: &it::Answer) {
    let described = &document["paths"][route][method]["responses"][answer.status.to_string()];
    assert!(
        described.is_object(),
        "{method} {route} may answer {}",
        answer.status
    );
    let schema = &described["content"]["application/json"]["schema"];
    if schema.is_object() {
        let found = misfits(document, schema, &answer.json(), "");
        assert!(
            found.is_empty(),
            "{method} {route} {}: {found:#?}",
            answer.status
        );
    }
}

#[tokio::test]
async fn answers_are_as_the_document_says() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let document = get(&server, "/api/openapi.json").await;
    let id = run(&server, &tiny_graph(3)).await;
    let failing = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 4, "height": 4, "batch_size": 1, "color": 0}},
        "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "blur_radius": 31, "sigma": 1.0}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "x"}},
    });
    run(&server, &failing).await;
    submit(&server, &tiny_graph(4)).await;
    let told = upload(&server, "x.png", &super::photo()).await;
    let found = misfits(
        &document,
        &json!({"$ref": "#/components/schemas/Upload"}),
        &told,
        "",
    );
    assert!(found.is_empty(), "{found:?}");

    let reads = document["paths"].as_object().unwrap();
    let reads = reads
        .iter()
        .filter(|(_, methods)| methods.get("get").is_some());
    let mut asked = 0;
    for (route, _) in reads {
        let target = route
            .replace("{id}", &id)
            .replace("{class}", "LoadImage")
            .replace("{folder}", "output");
        let target = target.replace("{file}", "w%2Fa.json");
        let answer = server.send(&Request::get(&target)).await.unwrap();
        check(&document, "get", route, &answer);
        if route.contains('{') {
            let unknown = route
                .replace("{id}", "nothing")
                .replace("{class}", "Nothing");
            let unknown = unknown
                .replace("{folder}", "nothing")
                .replace("{file}", "..%2Fx");
            let answer = server.send(&Request::get(&unknown)).await.unwrap();
            check(&document, "get", route, &answer);
        }
        asked += 1;
    }
    assert!(asked > 25, "{asked}");
    for (route, body) in [
        ("/api/prompt", json!({"prompt": tiny_graph(5)})),
        (
            "/api/prompt",
            json!({"prompt": {"1": {"class_type": "Nothing", "inputs": {}}}}),
        ),
        ("/api/prompt", json!([])),
        ("/api/queue", json!({"clear": true})),
        ("/api/queue", json!({"remove": []})),
        ("/api/jobs/cancel", json!({"job_ids": [id]})),
        ("/api/jobs/cancel", json!({})),
        ("/api/interrupt", json!({})),
        ("/api/history", json!({"delete": [id]})),
        ("/api/settings", json!({"a": 1})),
        ("/api/settings", json!(1)),
        ("/api/session", json!({"key": 1})),
    ] {
        check(&document, "post", route, &post(&server, route, &body).await);
    }
}
