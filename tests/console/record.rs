//! The record of calls, as the console and its callers read it.

use it::{Request, Server};
use serde_json::json;

const TOKEN: &str = "the-token-of-this-test";

#[tokio::test]
async fn a_workspace_reads_its_calls_and_what_they_cost() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--token", TOKEN])
        .await
        .unwrap();
    let send = async |request: Request| {
        let request = request.header("Authorization", &format!("Bearer {TOKEN}"));
        server.send(&request).await.unwrap()
    };
    let picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGM4EWlQDwAEzQHmmKCNWgAAAABJRU5ErkJggg==";
    for _ in 0..2 {
        let call = Request::post_json("/v1/models/easel/resize", &json!({ "image": picture }));
        let answer = send(call.header("Idempotency-Key", "one")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let page = send(Request::get("/v1/calls?limit=1")).await.json();
    let newest = &page["data"][0];
    assert_eq!(newest["model"], "easel/resize", "{page}");
    assert_eq!(
        (&newest["status"], &newest["replayed"]),
        (&json!("ok"), &json!(true)),
        "{page}"
    );
    assert_eq!(
        (&page["has_more"], &page["limit"]),
        (&json!(true), &json!(1)),
        "{page}"
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = send(Request::get(&format!("/v1/calls?limit=1&cursor={cursor}")))
        .await
        .json();
    let first = &rest["data"][0];
    assert_eq!(
        (&first["replayed"], &rest["has_more"]),
        (&json!(false), &json!(false)),
        "{rest}"
    );
    assert_eq!(
        first["generation"]["id"], newest["generation"]["id"],
        "{rest}"
    );
    let began = |call: &serde_json::Value| call["generation"]["began"].clone();
    assert_eq!(
        (began(first), began(newest)),
        (json!(true), json!(false)),
        "{rest}"
    );

    let total = json!({
        "workspace": "local", "model": "easel/resize", "calls": 2, "succeeded": 2, "generations": 1, "charge_cents": 0,
    });
    let report = send(Request::get("/v1/usage")).await.json();
    assert_eq!(report["data"], json!([total]));
    let report = send(Request::get("/v1/usage?by=day")).await.json();
    let day = newest["received_at"].as_str().unwrap();
    assert_eq!(report["data"][0]["day"], day[..10], "{report}");
    let before = send(Request::get("/v1/usage?until=2026-01-01T00:00:00Z"))
        .await
        .json();
    assert_eq!(before["data"], json!([]));

    for wrong in [
        "/v1/calls?cursor=x",
        "/v1/calls?limit=x",
        "/v1/calls?from=yesterday",
        "/v1/calls?from=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z",
        "/v1/usage?by=hour",
        "/v1/usage?by=day&from=2020-01-01T00:00:00Z",
    ] {
        let answer = send(Request::get(wrong)).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text());
        assert_eq!(answer.json()["error_type"], "invalid_input", "{wrong}");
    }
    let nobody = server.send(&Request::get("/v1/calls")).await.unwrap();
    assert_eq!(nobody.status, 401);
}
