//! The older API over workers: what the page of ComfyUI needs.

use it::{Message, Socket};

use super::*;
use crate::v1::page::{drive_at, judge_windows, web_root};

#[tokio::test]
async fn the_page_has_the_nodes_menus_and_previews_of_the_workers() {
    let other = Comfy::start_with(Version::New, &["b.safetensors"], &[])
        .await
        .unwrap();
    let rig = Rig::with(vec![Comfy::start(Version::Recorded).await.unwrap(), other]).await;
    let info = rig.send(Request::get("/api/object_info")).await.json();
    assert_eq!(
        info["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0],
        json!(["b.safetensors", "a.safetensors"]),
        "menus offer what any worker has"
    );
    assert_eq!(info["Sampler"]["output"], json!(["LATENT"]));
    assert!(!info["LoadImage"].to_string().contains("of-somebody.png"));
    let facts = rig.send(Request::get("/api/easel")).await.json();
    let has = |list: &Value, class: &str| list.as_array().unwrap().contains(&json!(class));
    assert!(has(&facts["native"], "LoadImage") && !has(&facts["native"], "Sampler"));
    assert!(!has(&facts["needs"]["model"], "CheckpointLoaderSimple"));

    let request = Request::get("/ws?clientId=page");
    let mut socket = Socket::open(rig.server.address, request).await.unwrap();
    socket
        .say(r#"{"type":"feature_flags","data":{"supports_preview_metadata":true}}"#)
        .await
        .unwrap();
    let body = json!({"prompt": sampled("page", "a.safetensors", 5), "client_id": "page"});
    let answer = rig.send(Request::post_json("/api/prompt", &body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["prompt_id"].as_str().unwrap().to_owned();
    let is_end =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    let heard = socket.until(is_end).await.unwrap();
    let kinds: Vec<String> = heard.iter().map(Message::kind).collect();
    assert!(kinds.contains(&"execution_success".to_owned()), "{kinds:?}");
    assert!(
        kinds.contains(&"binary 4".to_owned()),
        "a preview: {kinds:?}"
    );
    let progress = heard.iter().filter(|message| message.kind() == "progress");
    assert_eq!(progress.count(), 5, "{kinds:?}");
    let executed = heard
        .iter()
        .find(|message| message.kind() == "executed")
        .unwrap();
    assert_eq!(executed.data()["prompt_id"], json!(id));
    let image = &executed.data()["output"]["images"][0];
    let target = format!(
        "/api/view?filename={}&subfolder=&type=output",
        image["filename"].as_str().unwrap()
    );
    assert_eq!(rig.send(Request::get(&target)).await.status, 302);
    let history = rig
        .send(Request::get(&format!("/api/history/{id}")))
        .await
        .json();
    assert_eq!(
        history[&id]["status"]["status_str"], "success",
        "{history:#}"
    );
    assert_eq!(history[&id]["outputs"]["4"]["images"][0], *image);
}

#[tokio::test]
async fn previews_are_those_that_the_page_asks_for() {
    let rig = Rig::start().await;
    for (asked, sent) in [
        (json!({"preview_method": "none"}), "none"),
        (json!({"preview_method": "latent2rgb"}), "latent2rgb"),
        (json!({"preview_method": "nonsense"}), "auto"),
        (json!({}), "auto"),
    ] {
        let graph = sampled("previews", "a.safetensors", 1);
        let body = json!({"prompt": graph, "extra_data": asked});
        let answer = rig.send(Request::post_json("/api/prompt", &body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        rig.ended(answer.json()["prompt_id"].as_str().unwrap())
            .await;
        let submissions = rig.worker().submissions();
        let last = submissions.last().unwrap();
        assert_eq!(last["extra_data"]["preview_method"], sent, "{asked}");
    }
}

#[tokio::test]
async fn the_model_library_has_the_files_of_all_workers() {
    let other = Comfy::start_with(Version::Latest, &["sdxl/b.safetensors"], &[]);
    let workers = vec![
        Comfy::start(Version::Recorded).await.unwrap(),
        other.await.unwrap(),
    ];
    let rig = Rig::with(workers).await;
    let get = async |target: &str| rig.send(Request::get(target)).await.json();
    assert_eq!(get("/api/models").await, json!(["checkpoints"]));
    assert_eq!(
        get("/models/checkpoints").await,
        json!(["sdxl/b.safetensors", "a.safetensors"])
    );
    assert_eq!(
        get("/api/experiment/models").await,
        json!([{"name": "checkpoints", "folders": []}])
    );
    assert_eq!(
        get("/api/experiment/models/checkpoints").await,
        json!([{"name": "sdxl/b.safetensors", "pathIndex": 0}, {"name": "a.safetensors", "pathIndex": 0}])
    );
    for folder in ["loras", "..", "nowhere"] {
        let target = format!("/api/experiment/models/{folder}");
        assert_eq!(get(&target).await, json!([]), "{folder}");
    }
}

#[tokio::test]
async fn names_of_models_are_not_for_strangers() {
    let worker = Comfy::start(Version::Latest).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let url = worker.url();
    let arguments = ["--comfyui", &url, "--token", "s3cret-of-a-test"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let get = async |target: &str, key: Option<&str>| {
        let request = Request::get(target);
        let request = match key {
            Some(key) => request.header("X-API-Key", key),
            None => request,
        };
        server.send(&request).await.unwrap()
    };
    let (folders, files) = (
        "/api/experiment/models",
        "/api/experiment/models/checkpoints",
    );
    // As soon as the worker is known.
    while get(folders, Some("s3cret-of-a-test")).await.json() == json!([]) {
        pause().await;
    }
    let known = get(files, Some("s3cret-of-a-test")).await.json();
    assert_eq!(known[0]["name"], "a.safetensors", "{known:#}");
    for target in [folders, files] {
        for key in [None, Some("wrong")] {
            let answer = get(target, key).await;
            assert_eq!((answer.status, answer.json()), (200, json!([])), "{target}");
        }
    }
    assert_eq!(get("/api/models", None).await.status, 401);
}

#[tokio::test]
async fn the_page_samples_with_models_and_previews_of_a_worker() {
    let test = "the_page_samples_with_models_and_previews_of_a_worker";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let other = Comfy::start_with(Version::Latest, &["b.safetensors"], &[]);
    let workers = vec![
        Comfy::start(Version::Recorded).await.unwrap(),
        other.await.unwrap(),
    ];
    let data = tempfile::tempdir().unwrap();
    let mut arguments = vec!["--web-root".to_owned(), web_root];
    for worker in &workers {
        arguments.extend(["--comfyui".to_owned(), worker.url()]);
        // A person could see each step.
        worker.pace(Duration::from_millis(200));
    }
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let rig = Rig {
        data,
        server,
        workers,
    };
    for worker in &rig.workers {
        rig.until_worker(worker, &["ready"]).await;
    }
    let told = drive_at(&rig.server, test, "web_sampling.mjs", &[]).await;
    judge_windows(&told);
    let both = json!(["b.safetensors", "a.safetensors"]);
    assert_eq!(told["menu"], both, "{told:#}");
    assert_eq!(told["library"], json!(["b", "a"]), "{told:#}");
    assert_eq!(
        told["preview"],
        json!({"width": 16, "height": 16}),
        "{told:#}"
    );
    assert_eq!(told["saved"], "page_00001_.png", "{told:#}");
}

#[tokio::test]
async fn the_page_marks_what_runs_without_a_worker() {
    let test = "the_page_marks_what_runs_without_a_worker";
    let Some(web_root) = web_root(test) else {
        return;
    };
    let workers = vec![Comfy::start(Version::Recorded).await.unwrap()];
    let data = tempfile::tempdir().unwrap();
    let url = workers[0].url();
    let arguments = ["--comfyui", &url, "--web-root", &web_root];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let rig = Rig {
        data,
        server,
        workers,
    };
    rig.until_worker(rig.worker(), &["ready"]).await;
    let told = drive_at(&rig.server, test, "web_workers.mjs", &["Sampler"]).await;
    judge_windows(&told);
    let badges = &told["badges"];
    for (class, native) in [("LoadImage", true), ("ImageBlur", true), ("Sampler", false)] {
        assert_eq!(badges[class], native, "{class}: {told:#}");
    }
}
