//! Workflows that operators publish as models, with commands and over HTTP: called, changed, withdrawn, also over a restart.

use std::fs;

use it::comfy::Version;
use it::{Comfy, Operated, operate};

use super::*;

mod examples;

/// A picture that is scaled, and saved.
fn scales() -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "mine.png"}, "_meta": {"title": "input: photo"}},
        "2": {
            "class_type": "ImageScale",
            "inputs": {
                "image": ["1", 0], "upscale_method": "nearest-exact", "width": 4, "height": 4, "crop": "disabled"
            }
        },
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "scaled"}}
    })
}

/// A picture that another model makes of the one that comes.
fn calls(model: &str) -> Value {
    json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "mine.png"}},
        "2": {
            "class_type": format!("partner:{}", model.replace('/', ":")),
            "inputs": {"image": ["1", 0], "photo": ["1", 0]}
        },
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "called"}}
    })
}

/// A server, and what operates it.
struct Rig {
    folder: tempfile::TempDir,
    server: Server,
    key: String,
    flags: Vec<String>,
}

impl Rig {
    async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data, flags).await;
        let made = operate(&data, ["key", "add", "local", "--scopes", "admin"]).await;
        assert_eq!(made.code, 0, "{}", made.stderr);
        Self {
            server,
            key: made.stdout.trim().to_owned(),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            folder,
        }
    }

    /// The same installation with another process.
    async fn again(self) -> Self {
        assert!(self.server.terminate().await.unwrap().success());
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let server = start(&self.folder.path().join("data"), &flags).await;
        Self { server, ..self }
    }

    /// Runs `model ...` on the installation.
    async fn command(&self, words: &[&str]) -> Operated {
        let data = self.folder.path().join("data");
        operate(&data, ["model"].iter().chain(words)).await
    }

    /// Publishes a graph with a command.
    async fn publish(&self, graph: &Value, words: &[&str]) -> Operated {
        let file = self.folder.path().join("graph.json");
        fs::write(&file, graph.to_string()).unwrap();
        let words: Vec<&str> = ["publish", file.to_str().unwrap()]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        self.command(&words).await
    }

    /// Sends a request of the operator.
    async fn admin(&self, method: &str, below: &str, body: Option<&Value>) -> Answer {
        let request = Request::new(method, &format!("/api/v2/admin/models{below}"));
        let request = match body {
            Some(body) => request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        self.server
            .send(&authorized(request, &self.key))
            .await
            .unwrap()
    }

    async fn call(&self, model: &str, body: &Value) -> Answer {
        self.server.send(&run(model, body)).await.unwrap()
    }

    /// The ids of published models and of easel's own that are listed.
    async fn listed(&self) -> Vec<String> {
        let page = get(&self.server, "/v1/models?limit=100").await.json();
        let entries = page["data"].as_array().unwrap().iter();
        let ids = entries.map(|entry| entry["id"].as_str().unwrap().to_owned());
        let shipped = ["easel/blend", "easel/postcard", "easel/resize"];
        ids.filter(|id| !shipped.contains(&id.as_str())).collect()
    }

    /// Waits until nodes of a model can be used.
    async fn until_class(&self, class: &str) {
        let target = format!("/api/object_info/{class}");
        while get(&self.server, &target).await.json()[class].is_null() {
            tokio::task::yield_now().await;
        }
    }
}

fn ok(done: Operated) -> String {
    assert_eq!(done.code, 0, "{}", done.stderr);
    done.stdout
}

fn size(answer: &Answer) -> (usize, usize) {
    let picture = inline(answer);
    (picture.width, picture.height)
}

fn photo() -> Value {
    json!({"photo": data_url(&small()), "inline": true})
}

#[tokio::test]
async fn a_workflow_becomes_a_model_that_is_one_as_any() {
    let rig = Rig::start(&[]).await;
    let words = [
        "--name",
        "scale",
        "--input",
        "width=2.width",
        "--price",
        "7",
        "--description",
        "Scales.",
        "--json",
    ];
    let told = ok(rig.publish(&scales(), &words).await);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["id"], &told["version"]),
        (&json!("easel/scale"), &json!(1))
    );
    assert_eq!(told["inputs"], json!(["photo", "width", "inline"]));
    assert_eq!(rig.listed().await, ["easel/scale"]);

    let answer = rig.call("easel/scale", &photo()).await;
    let picture = inline(&answer);
    assert_eq!((picture.width, picture.height), (4, 4));
    assert_eq!(picture.at(3, 3), small().at(1, 1));
    let mut wide = photo();
    wide["width"] = json!(6);
    assert_eq!(size(&rig.call("easel/scale", &wide).await), (6, 4));

    // The schema is that of the nodes, and judged before anything runs.
    let document = get(&rig.server, "/v1/models/easel/scale/openapi.json").await;
    assert!(
        document.text().contains("\"Scales.\""),
        "{}",
        document.text()
    );
    for (field, value) in [
        ("width", json!(-1)),
        ("width", json!("x")),
        ("height", json!(4)),
    ] {
        let mut body = photo();
        body[field] = value;
        let refused = rig.call("easel/scale", &body).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(refused.json()["detail"][0]["loc"], json!(["body", field]));
    }
    let missing = rig.call("easel/scale", &json!({})).await;
    assert_eq!(missing.json()["detail"][0]["type"], "missing");
    assert_eq!(jobs(&rig.server, TOKEN).await.len(), 2);

    // Estimate, idempotency and queued form are the router's.
    let estimate = authorized(
        Request::post_json("/v1/models/easel/scale/estimate", &photo()),
        TOKEN,
    );
    let estimate = rig.server.send(&estimate).await.unwrap().json();
    assert_eq!(
        (&estimate["source"], &estimate["amount_cents"]),
        (&json!("exact"), &json!(7))
    );
    let keyed = || run("easel/scale", &photo()).header("Idempotency-Key", "once");
    let first = rig.server.send(&keyed()).await.unwrap();
    let again = rig.server.send(&keyed()).await.unwrap();
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.body, first.body);
    let queued = authorized(
        Request::post_json("/v1/models/easel/scale/requests", &photo()),
        TOKEN,
    );
    let queued = rig.server.send(&queued).await.unwrap();
    assert_eq!(queued.status, 201, "{}", queued.text());
    let id = queued.json()["request_id"].as_str().unwrap().to_owned();
    let result = format!("/v1/models/easel/scale/requests/{id}");
    let result = loop {
        let answer = get(&rig.server, &result).await;
        if answer.status != 202 {
            break answer;
        }
    };
    assert_eq!(size(&result), (4, 4));
    let record = get(&rig.server, &format!("/v1/generations/{id}"))
        .await
        .json();
    assert_eq!(record["model"], "easel/scale", "{record}");
}

#[tokio::test]
async fn versions_are_called_by_number_and_withdrawn_over_a_restart() {
    let rig = Rig::start(&[]).await;
    let words = ["--name", "easel/scale", "--input", "width=2.width"];
    ok(rig.publish(&scales(), &words).await);
    // The same again is no new version; over HTTP neither.
    ok(rig.publish(&scales(), &words).await);
    let mut body = json!({"graph": scales(), "inputs": {"width": "2.width"}});
    let same = rig.admin("PUT", "/easel/scale", Some(&body)).await;
    assert_eq!(
        (same.status, &same.json()["version"]),
        (200, &json!(1)),
        "{}",
        same.text()
    );
    body["graph"]["2"]["inputs"]["width"] = json!(8);
    let second = rig.admin("PUT", "/easel/scale", Some(&body)).await.json();
    assert_eq!(second["version"], 2);
    assert_eq!(second["versions"][0]["id"], "easel/scale.v1");
    assert_eq!(second["schema"]["properties"]["width"]["default"], 8);
    let of = async |rig: &Rig, model: &str| size(&rig.call(model, &photo()).await);
    assert_eq!(of(&rig, "easel/scale").await, (8, 4));
    assert_eq!(of(&rig, "easel/scale.v1").await, (4, 4));
    assert_eq!(of(&rig, "easel/scale.v2").await, (8, 4));
    assert_eq!(
        rig.listed().await,
        ["easel/scale"],
        "versions are not listed"
    );

    let rig = rig.again().await;
    assert_eq!(of(&rig, "easel/scale").await, (8, 4));
    assert_eq!(of(&rig, "easel/scale.v1").await, (4, 4));
    let left = rig.admin("DELETE", "/easel/scale?version=2", None).await;
    assert_eq!(
        (left.status, &left.json()["version"]),
        (200, &json!(1)),
        "{}",
        left.text()
    );
    assert_eq!(of(&rig, "easel/scale").await, (4, 4), "the one before");
    let gone = async |rig: &Rig, model: &str| {
        let refused = rig.call(model, &photo()).await;
        assert_eq!(refused.status, 404, "{}", refused.text());
        assert_eq!(
            refused.header("x-service-error-type"),
            Some("model_not_found")
        );
        assert!(
            refused.text().contains("the model was withdrawn"),
            "{}",
            refused.text()
        );
    };
    gone(&rig, "easel/scale.v2").await;
    let shown = ok(rig.command(&["show", "scale"]).await);
    assert!(shown.contains("easel/scale.v2"), "{shown}");
    let said = rig.command(&["withdraw", "scale"]).await;
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stderr.contains("easel/scale is withdrawn"),
        "{}",
        said.stderr
    );
    gone(&rig, "easel/scale").await;
    gone(&rig, "easel/scale.v1").await;
    assert!(rig.listed().await.is_empty());

    let rig = rig.again().await;
    gone(&rig, "easel/scale").await;
    let listed = ok(rig.command(&["list"]).await);
    assert!(listed.contains("easel/scale  withdrawn"), "{listed}");
    ok(rig.publish(&scales(), &words).await);
    assert_eq!(of(&rig, "easel/scale.v3").await, (4, 4), "numbers go on");
}

#[tokio::test]
async fn models_call_models_and_never_themselves() {
    let rig = Rig::start(&[]).await;
    ok(rig.publish(&scales(), &["--name", "scale"]).await);
    rig.until_class("partner:easel:scale").await;
    let mut through = calls("easel/scale");
    through["2"]["inputs"] = json!({"photo": ["1", 0]});
    ok(rig.publish(&through, &["--name", "through"]).await);
    let body = json!({"image": data_url(&small()), "inline": true});
    let answer = rig.call("easel/through", &body).await;
    assert_eq!(size(&answer), (4, 4));
    let models: Vec<Value> = jobs(&rig.server, TOKEN)
        .await
        .iter()
        .map(|job| job["metadata"]["model"].clone())
        .collect();
    assert!(models.contains(&json!("easel/scale")) && models.contains(&json!("easel/through")));

    rig.until_class("partner:easel:through").await;
    let back = calls("easel/through");
    let refused = rig.publish(&back, &["--name", "scale"]).await;
    assert_eq!(refused.code, 2);
    let way = "easel/scale -> easel/through -> easel/scale";
    assert!(refused.stderr.contains(way), "{}", refused.stderr);
    let own = rig
        .admin(
            "PUT",
            "/easel/new",
            Some(&json!({"graph": calls("easel/new")})),
        )
        .await;
    assert_eq!(own.status, 422);
    assert!(
        own.text().contains("easel/new -> easel/new"),
        "{}",
        own.text()
    );
    assert_eq!(rig.listed().await, ["easel/scale", "easel/through"]);
}

#[tokio::test]
async fn what_cannot_be_published_is_told_with_what_to_do() {
    let rig = Rig::start(&[]).await;
    let mut wrong = scales();
    wrong["2"]["class_type"] = json!("Unheard");
    for (graph, words, told) in [
        (&wrong, &["--name", "x"][..], "Unheard"),
        (
            &scales(),
            &["--name", "x", "--input", "a=2.wide"],
            "no input `wide`",
        ),
        (
            &scales(),
            &["--name", "x", "--input", "a"],
            "NAME=NODE.FIELD",
        ),
        (
            &scales(),
            &["--name", "easel/resize"],
            "model of the catalog's files",
        ),
        (
            &scales(),
            &["--name", "bfl/mine"],
            "is a partner of the catalog",
        ),
        (&scales(), &["--name", "Easel/X"], "lower-case"),
        (&scales(), &["--name", "x.v1"], "does not end with `.v`"),
        (&json!({"nodes": [], "links": []}), &["--name", "x"], "API"),
    ] {
        let refused = rig.publish(graph, words).await;
        assert_eq!(refused.code, 2, "{told}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{told}: {}", refused.stderr);
    }
    assert!(rig.listed().await.is_empty(), "nothing was published");
    let graph = json!({"graph": scales()});
    for (method, below, body, status) in [
        ("PUT", "/easel/x", Some(json!({"grap": {}})), 422),
        ("PUT", "/easel/resize", Some(graph.clone()), 409),
        ("GET", "/easel/x", None, 404),
        ("DELETE", "/easel/x", None, 404),
        ("DELETE", "/easel/x?version=all", None, 400),
        ("DELETE", "/easel/x?vresion=1", None, 400),
    ] {
        let answer = rig.admin(method, below, body.as_ref()).await;
        assert_eq!(answer.status, status, "{method} {below}: {}", answer.text());
    }
    let user = account(&rig.folder.path().join("data"), "user");
    let request = Request::get("/api/v2/admin/models");
    let refused = rig.server.send(&authorized(request, &user)).await.unwrap();
    assert_eq!(refused.status, 403);

    // Commands reach a server anywhere.
    let key = rig.folder.path().join("key");
    fs::write(&key, &rig.key).unwrap();
    let server = format!("http://{}", rig.server.address);
    let there = [
        "--server",
        &server,
        "--admin-key-file",
        key.to_str().unwrap(),
    ];
    let words: Vec<&str> = ["--name", "there"].into_iter().chain(there).collect();
    ok(rig.publish(&scales(), &words).await);
    let words: Vec<&str> = ["list"].into_iter().chain(there).collect();
    assert!(ok(rig.command(&words).await).contains("easel/there"));
    let words: Vec<&str> = ["withdraw", "there@1"].into_iter().chain(there).collect();
    ok(rig.command(&words).await);
    assert!(rig.listed().await.is_empty());
}

#[tokio::test]
async fn a_published_model_runs_at_a_comfyui_worker() {
    let worker = Comfy::start(Version::Recorded).await.unwrap();
    let url = worker.url();
    let rig = Rig::start(&["--comfyui", &url]).await;
    rig.until_class("Wait").await;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": 1}, "_meta": {"title": "input: steps"}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "waited"}}
    });
    ok(rig.publish(&graph, &["--name", "wait"]).await);
    let answer = rig
        .call("easel/wait", &json!({"inline": true, "steps": 2}))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let output = answer.json()["outputs"][0].clone();
    assert_eq!(
        (&output["kind"], &output["content_type"]),
        (&json!("image"), &json!("image/png"))
    );
    assert!(
        output["url"]
            .as_str()
            .unwrap()
            .starts_with("data:image/png;base64,")
    );
    assert_eq!(worker.ran().len(), 1, "it ran there");

    // Without any worker the model is still there, and says what is the matter.
    worker.stop().await;
    let without = Rig {
        flags: Vec::new(),
        ..rig
    };
    let rig = without.again().await;
    assert_eq!(rig.listed().await, ["easel/wait"]);
    let refused = rig.call("easel/wait", &json!({})).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(
        refused.header("x-service-error-type"),
        Some("service_unavailable")
    );
}
