//! The older API over workers: what the page of ComfyUI needs.

use it::{Message, Socket};

use super::*;

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
