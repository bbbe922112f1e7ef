//! The document of this API against what the server answers.

use it::{Request, Server};
use serde_json::{Value, json};

use super::{get, post, run, submit, tiny_graph, upload};

/// What does not fit the schema, with the place where it does not.
fn misfits(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let schema = document
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{reference} is there"));
        return misfits(document, schema, value, place);
    }
    let each = |schemas: &Value| -> Vec<Vec<String>> {
        let schemas = schemas.as_array().into_iter().flatten();
        schemas
            .map(|schema| misfits(document, schema, value, place))
            .collect()
    };
    let mut found: Vec<String> = each(&schema["allOf"]).concat();
    let any = each(&schema["anyOf"]);
    if !any.is_empty() && !any.iter().any(Vec::is_empty) {
        found.push(format!("{place}: fits none of several: {value}"));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    };
    // One word, or a list of them.
    let kinds: Vec<&str> = match schema["type"].as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => schema["type"].as_str().into_iter().collect(),
    };
    if !kinds.is_empty() && !kinds.into_iter().any(is) {
        found.push(format!("{place}: is no {}: {value}", schema["type"]));
    }
    if let Some(words) = schema["enum"]
        .as_array()
        .filter(|words| !words.contains(value))
    {
        found.push(format!("{place}: {value} is none of {words:?}"));
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.is_object() && value.get(name).is_none() {
            found.push(format!("{place}: has no {name}"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null | Value::Bool(true)) => {}
            (Value::Null, Value::Bool(false)) => found.push(format!("{place}: is not known")),
            (Value::Null, schema) | (schema, _) => {
                found.extend(misfits(document, schema, value, &place))
            }
        }
    }
    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(misfits(
            document,
            &schema["items"],
            value,
            &format!("{place}[{index}]"),
        ));
    }
    found
}

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
