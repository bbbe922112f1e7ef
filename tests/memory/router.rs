//! Bodies of calls of the model router, of an account that has no credits for any.

use futures_util::future::join_all;

use super::*;

const LARGEST: usize = 32 << 20;
const MODEL: &str = "/v1/models/poor/empty";

/// A model that runs here.
const CATALOG: &[(&str, &str)] = &[
    (
        "poor/partner.toml",
        "name = \"Poor\"\nkind = \"workflow\"\n",
    ),
    (
        "poor/empty.toml",
        "graph = \"empty.graph.json\"\nschema = \"empty.schema.json\"\nprice_cents = 1\n\n[output]\nnode = \"2\"\n\n\
         [fields.width]\ninto = [{ node = \"1\", input = \"width\" }]\n",
    ),
    (
        "poor/empty.graph.json",
        r#"{
          "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 0}},
          "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "0"}}
        }"#,
    ),
    (
        "poor/empty.schema.json",
        r#"{"type": "object", "properties": {"width": {"type": "integer"}}}"#,
    ),
];

#[tokio::test]
async fn an_account_without_credits_fills_no_memory_with_its_bodies() {
    let data = tempfile::tempdir().unwrap();
    let catalog = tempfile::tempdir().unwrap();
    for (path, text) in CATALOG {
        let path = catalog.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (hostile, other) = (
        account(data.path(), "hostile").await,
        account(data.path(), "other").await,
    );
    run(data.path(), "account billing hostile on").await;
    let flags = [
        "--require-credentials",
        "--catalog",
        catalog.path().to_str().unwrap(),
    ];
    let server = Server::start_with(data.path(), flags).await.unwrap();
    let it = Fixture {
        data,
        server,
        hostile,
        other,
    };
    it.other_gets_on().await;

    let small = it.hostile(post(MODEL, "{}".to_owned())).await;
    assert_eq!(small.status, 402, "{}", small.text());
    let grown = it.growth(async {
        let head = it.of(&it.hostile, head(MODEL, LARGEST));
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(begun(&it.server, &head, LARGEST - 1).await);
        }
        while it.server.metric("easel_router_body_bytes").await.unwrap() < (5 * LARGEST) as f64 {
            tokio::task::yield_now().await;
        }
        let more = join_all((0..25).map(|_| begun(&it.server, &head, 0)));
        let mut more = more.await;
        let call = it.of(&it.other, post(MODEL, "{}".to_owned()));
        let called = it.server.send(&call).await.unwrap();
        assert_eq!(called.status, 200, "{}", called.text());
        for answer in join_all(more.iter_mut().map(|call| call.answer(false))).await {
            let answer = answer.unwrap();
            assert_eq!(answer.status, 429, "{}", answer.text());
            let bucket = answer.header("x-service-error-type");
            assert_eq!(bucket, Some("concurrency_limit_exceeded"));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    });
    let grown = grown.await;
    assert!(grown < 240 * MIB, "{} MiB", grown / MIB);
}
