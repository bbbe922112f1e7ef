//! Bodies that keep to the schema of a model and cannot be sent all the same: refused before anything is done.

use std::fs;

use it::Request;
use it::partners::Partner;

use super::*;

/// A model whose address says what its partner wants in the body, and one whose bodies become forms.
const FILLED: &str = "fal-sync/filled";
const FORMED: &str = "formed/flux-schnell";

async fn rig() -> Rig {
    let mut rig = Rig::start().await;
    rig.kill().await;
    let catalog = rig.folder.path().join("catalog");
    let shipped = root().join("crates/providers/catalog/fal-sync");
    let read = |file: &str| fs::read_to_string(shipped.join(file)).unwrap();
    let model = read("flux-schnell.toml");
    for folder in ["fal-sync", "formed"] {
        fs::create_dir_all(catalog.join(folder)).unwrap();
        let schema = catalog.join(folder).join("flux-schnell.schema.json");
        fs::write(schema, read("flux-schnell.schema.json")).unwrap();
    }
    let filled = format!("{model}\n[fill]\nmodel = \"cheap\"\n");
    fs::write(catalog.join("fal-sync/filled.toml"), filled).unwrap();
    let form = "body = { multipart_from_json = { files = [\"image\"] } }";
    let partner = format!("{}\n{form}\n", read("partner.toml").trim_end());
    fs::write(catalog.join("formed/partner.toml"), partner).unwrap();
    fs::write(catalog.join("formed/flux-schnell.toml"), model).unwrap();
    rig.begin().await;
    rig
}

fn raw(path: &str, body: &str) -> Request {
    let request = Request::new("POST", path).header("Content-Type", "application/json");
    of("acme", request.body(body.to_owned()))
}

#[tokio::test]
async fn what_cannot_be_sent_is_422_everywhere_and_frees_its_key() {
    let mut rig = rig().await;
    let cases = [
        (FILLED, r#"{"prompt":"a","model":"dear"}"#, "model"),
        (
            FILLED,
            r#"{"prompt":"a","\ud800":1,"model":"dear"}"#,
            "model",
        ),
        (
            FILLED,
            r#"{"prompt":"a","mod\u0065l":"dear","model":"cheap"}"#,
            "model",
        ),
        (FORMED, r#"{"prompt":"a","image":"***"}"#, "image"),
    ];
    for (model, body, member) in cases {
        let path = path_of(model);
        for path in [
            &path,
            &path,
            &format!("{path}/estimate"),
            &format!("{path}/requests"),
        ] {
            let answer = rig
                .send(raw(path, body).header("Idempotency-Key", "k"))
                .await;
            assert_eq!(answer.status, 422, "{path}: {}", answer.text());
            assert_eq!(answer.json()["detail"][0]["loc"], json!(["body", member]));
            assert_eq!(answer.header("idempotent-replayed"), None);
        }
    }
    assert_eq!(rig.submits(Partner::FalSync), 0);
    // The key is free, and a name with half a surrogate pair is a name.
    for (model, key) in [(FILLED, "k"), (FORMED, "k2")] {
        let body = r#"{"prompt":"a","\ud800":1}"#;
        let request = raw(&path_of(model), body).header("Idempotency-Key", key);
        let answer = rig.send(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let record = rig.record().await;
    let ran = record.iter().filter(|row| row.generation.is_some()).count();
    assert_eq!(ran, 2);
}
