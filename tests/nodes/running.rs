//! What a run of a partner node makes, asks for and costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use asset_store::BlobHash;
use it::file_host::FileHost;
use it::partners::{Outcome, Plan};
use it::{Message, Socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Far longer than a file takes to be kept.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_picture_goes_to_the_model_and_what_comes_back_is_saved() {
    let mut rig = Rig::start().await;
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let picture = rig.upload(&small()).await;
    let job = rig.run(&edit(&picture, "make it blue")).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());

    let asked = rig.partners.requests_of(Partner::Bfl, Step::Submit);
    assert_eq!(asked.len(), 1);
    let mut body: Value = serde_json::from_slice(&asked[0].body).unwrap();
    let sent = body["input_image"].take();
    let sent = STANDARD.decode(sent.as_str().unwrap()).unwrap();
    assert_eq!(decoded(&sent), small(), "the very pixels");
    assert_eq!(
        body,
        json!({"prompt": "make it blue", "input_image": null, "seed": 7})
    );

    // A result that is kept is not paid for again, and another prompt is another generation.
    let again = rig.run(&edit(&picture, "make it blue")).await;
    assert_eq!(decoded(&rig.output(&again).await), edited());
    assert_eq!(rig.submits(Partner::Bfl), 1);
    let other = rig.run(&edit(&picture, "make it green")).await;
    assert_eq!(other["status"], "succeeded", "{other:#}");
    assert_eq!(rig.submits(Partner::Bfl), 2);
    let mut asked_again = edit(&picture, "make it green");
    asked_again["2"]["inputs"]["ask_again"] = 1.into();
    assert_eq!(rig.run(&asked_again).await["status"], "succeeded");
    assert_eq!(rig.submits(Partner::Bfl), 3);
    assert_eq!(rig.spent("acme").await, 3 * PRICE);
}

/// What was paid for is there, even if the job fails behind it.
#[tokio::test]
async fn files_of_a_result_are_kept_and_found_by_the_job() {
    let files = FileHost::start().await.unwrap();
    let host = files.host();
    let rig = Rig::with(&["--keep-results", "--plain-partners", &host], &[]).await;
    let sample = json!({"id": "t", "status": "Ready", "result": {"sample": files.url("/file/a")}});
    rig.partners
        .answer_with(Partner::Bfl, "application/json", sample.to_string());
    let picture = rig.upload(&small()).await;
    // The node takes the file, which is no picture.
    let job = rig.run(&edit(&picture, "make it blue")).await;
    assert_eq!(job["status"], "failed");
    let calls = rig.get("/v1/calls").await;
    let call = &calls["data"][0];
    assert_eq!(call["generation"]["status"], "ok", "{calls}");
    assert_eq!(call["labels"], json!({"job": job["id"]}));

    let id = call["request_id"].as_str().unwrap();
    let started = Instant::now();
    let kept = loop {
        let record = rig.get(&format!("/v1/generations/{id}")).await;
        let result = record["results"][0].clone();
        if result["state"] != "waiting" {
            break result;
        }
        assert!(started.elapsed() < PATIENCE, "{record}: {}", rig.log());
    };
    let file = FileHost::file("a");
    assert_eq!(
        (&kept["state"], &kept["hash"]),
        (&json!("kept"), &json!(BlobHash::of(&file).to_string()))
    );
    let asset = kept["asset_id"].as_str().unwrap();
    let content = rig.read(asset).await;
    assert!(content == file, "the bytes of {asset}");
    let by_job = rig.get("/v1/usage?label=job").await;
    assert_eq!(by_job["data"][0]["label"], job["id"], "{by_job}");
}

#[tokio::test]
async fn the_older_api_runs_them_too_and_tells_of_them() {
    let mut rig = Rig::start().await;
    let body = json!({"data": [{"b64_json": base64_of(&edited())}]}).to_string();
    rig.partners
        .answer_with(Partner::OpenaiImages, "application/json", body);
    let prompt =
        json!({"prompt": make("a cat"), "client_id": "c", "extra_data": {"extra_pnginfo": {}}});
    let answer = rig.send(Request::post_json("/api/prompt", &prompt)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["prompt_id"].as_str().unwrap().to_owned();
    let job = rig.ended(&id).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());
    let history = rig.get(&format!("/api/history/{id}")).await;
    assert_eq!(history[&id]["status"]["status_str"], "success");
    let shown = &history[&id]["outputs"]["2"]["images"];
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{history:#}");
    assert_eq!(rig.submits(Partner::OpenaiImages), 1);
    assert!(rig.spent("acme").await > 0);
}

#[tokio::test]
async fn the_example_runs() {
    let rig = Rig::start().await;
    rig.partners
        .answer_with(Partner::Bfl, "application/json", ready(&edited()));
    let photo = std::fs::read(it::root().join("examples/photo.png")).unwrap();
    rig.upload_bytes("photo.png", &photo).await;
    let graph = std::fs::read(it::root().join("examples/edit.json")).unwrap();
    let job = rig.run(&serde_json::from_slice(&graph).unwrap()).await;
    let framed = decoded(&rig.output(&job).await);
    assert_eq!((framed.width, framed.height), (3 + 32, 1 + 32));
    assert_eq!(framed.at(16, 16), edited().at(0, 0));
}

#[tokio::test]
async fn sounds_are_saved_as_they_came() {
    let rig = Rig::start().await;
    let sound = b"ID3\x04 not much of a song".to_vec();
    rig.partners
        .answer_with(Partner::Elevenlabs, "audio/mpeg", sound.clone());
    let graph = json!({
        "1": {"class_type": SOUND, "inputs": {"text": "rain"}},
        "2": {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "audio/rain"}},
    });
    let job = rig.run(&graph).await;
    assert_eq!(rig.output(&job).await, sound);
    let output = &job["outputs"][0];
    assert_eq!(output["content_type"], "audio/mpeg", "{output:#}");
    assert!(
        output["file_path"]
            .as_str()
            .or(output["filename"].as_str())
            .is_none_or(|name| name.ends_with(".mp3")),
        "{output:#}"
    );
}

#[tokio::test]
async fn a_video_is_saved_as_it_came_and_heard_of_at_the_socket() {
    let video = b"\0\0\0\x20ftypisom not much of a film".to_vec();
    let (port, asked) = site(video.clone()).await;
    let host = format!("127.0.0.1:{port}");
    let rig = Rig::with(&["--plain-partners", &host], &[]).await;
    let done = json!({"id": "t", "state": "completed", "assets": {"video": format!("http://{host}/v.mp4")}});
    rig.partners
        .answer_with(Partner::Luma, "application/json", done.to_string());
    let server = rig.server.as_ref().unwrap();
    let socket = of("acme", Request::get("/ws?clientId=c"));
    let mut socket = Socket::open(server.address, socket).await.unwrap();
    socket.next().await.unwrap();
    let graph = json!({
        "1": {"class_type": VIDEO, "inputs": {"prompt": "a sea", "model": "ray-2"}},
        "2": {"class_type": "SaveVideo",
            "inputs": {"video": ["1", 0], "filename_prefix": "video/sea", "format": "auto", "codec": "auto"}},
    });
    let prompt = json!({"prompt": graph, "client_id": "c"});
    let answer = rig.send(Request::post_json("/api/prompt", &prompt)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["prompt_id"].as_str().unwrap().to_owned();
    let is_end =
        |message: &Message| message.kind() == "executing" && message.data()["node"].is_null();
    let heard = socket.until(is_end).await.unwrap();

    let job = rig.ended(&id).await;
    assert_eq!(rig.output(&job).await, video);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let output = &job["outputs"][0];
    assert_eq!(
        (&output["type"], &output["content_type"]),
        (&json!("video"), &json!("video/mp4"))
    );
    let executed: Vec<&Message> = heard
        .iter()
        .filter(|message| message.kind() == "executed")
        .collect();
    assert_eq!(executed.len(), 1, "{heard:#?}");
    let shown = &executed[0].data()["output"];
    assert_eq!(shown["animated"], json!([true]));
    let file = &shown["images"][0];
    assert_eq!(file["type"], "output");
    let name = file["filename"].as_str().unwrap();
    assert!(name.ends_with(".mp4"), "{file}");
    let view = format!(
        "/api/view?filename={name}&subfolder={}&type=output",
        file["subfolder"].as_str().unwrap()
    );
    let redirect = rig.send(Request::get(&view)).await;
    assert_eq!(redirect.status, 302, "{view}: {}", redirect.text());
}

/// A server of one file; answers its port and counts who asks.
async fn site(file: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                file.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.write_all(&file).await;
        }
    });
    (port, asked)
}

#[tokio::test]
async fn results_are_fetched_from_hosts_that_may_be_asked_and_no_others() {
    let (port, asked) = site(edited().encode()).await;
    let result =
        |host: String| json!({"data": [{"url": format!("http://{host}/a.png")}]}).to_string();
    let exempt = format!("127.0.0.1:{port}");
    // `gpt-image-1` answers no addresses, so its shipped definition looks for none; the catalog's other one does.
    let graph = json!({
        "1": {"class_type": "partner:openai:dall-e-3", "inputs": {"prompt": "a cat"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "made"}},
    });
    let rig = Rig::with(&["--plain-partners", &exempt], &[]).await;
    rig.partners.answer_with(
        Partner::OpenaiImages,
        "application/json",
        result(exempt.clone()),
    );
    let job = rig.run(&graph).await;
    assert_eq!(decoded(&rig.output(&job).await), edited());
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let (other, not_asked) = site(edited().encode()).await;
    rig.partners.answer_with(
        Partner::OpenaiImages,
        "application/json",
        result(format!("127.0.0.1:{other}")),
    );
    let mut graph = graph;
    graph["1"]["inputs"]["prompt"] = "a dog".into();
    let job = rig.run(&graph).await;
    assert_eq!(job["status"], "failed", "{job:#}");
    assert_eq!(job["error"]["code"], "node_execution_error");
    assert_eq!(not_asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_a_partner_refuses_fails_the_node_in_words_for_people() {
    let mut rig = Rig::start().await;
    for (outcome, exception) in [
        (Outcome::RefusePolicy, "ContentPolicyError"),
        (Outcome::RefuseInput, "ValidationError"),
        (Outcome::Fail, "ServiceError"),
    ] {
        rig.partners.plan(Partner::OpenaiImages, Plan::of(outcome));
        let id = rig.submit(&make(exception)).await;
        let job = rig.ended(&id).await;
        assert_eq!(job["status"], "failed", "{job:#}");
        let error = &job["error"];
        assert_eq!(error["code"], "node_execution_error", "{error:#}");
        let history = rig.get(&format!("/api/history/{id}")).await;
        let messages = history[&id]["status"]["messages"]
            .as_array()
            .unwrap()
            .clone();
        let told = messages
            .iter()
            .find(|message| message[0] == "execution_error");
        let told = &told.unwrap()[1];
        assert_eq!(told["exception_type"], exception, "{told:#}");
        assert_eq!(
            (&told["node_id"], &told["node_type"]),
            (&json!("1"), &json!(AT_ONCE))
        );
    }
    assert_eq!(rig.spent("acme").await, 0);
}

#[tokio::test]
async fn a_body_that_breaks_the_schema_is_told_with_its_member() {
    let rig = Rig::start().await;
    let picture = rig.upload(&small()).await;
    let mut graph = edit(&picture, "a");
    graph["2"]["inputs"]["aspect_ratio"] = "wide".into();
    let job = rig.run(&graph).await;
    assert_eq!(job["status"], "failed", "{job:#}");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.contains("aspect_ratio"), "{message}");
    assert_eq!(rig.submits(Partner::Bfl), 0);
}

#[tokio::test]
async fn a_workflow_of_this_very_server_is_a_node_too_and_one_slot_is_enough() {
    let rig = Rig::with(&["--job-slots", "1"], &[]).await;
    let picture = rig.upload(&small()).await;
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": picture}},
        "2": {"class_type": "partner:easel:resize", "inputs": {"image": ["1", 0], "width": 4, "height": 4, "method": "nearest-exact"}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "resized"}},
    });
    let job = rig.run(&graph).await;
    let resized = decoded(&rig.output(&job).await);
    assert_eq!((resized.width, resized.height), (4, 4));
    assert_eq!(resized.at(0, 0), small().at(0, 0));
    assert_eq!(resized.at(3, 3), small().at(1, 1));
}
