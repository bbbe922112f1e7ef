//! What the embedded engine makes, as clients of the API see it: kinds of outputs, previews, refused addresses.

use it::{Request, Server};
use serde_json::{Value, json};

use super::jobs::{events_of, look, submit};

/// Two pictures that differ, and one of every kind of output.
fn everything() -> Value {
    let picture = |color: u32| json!({"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": color}});
    json!({
        "red": picture(0x00ff_0000),
        "blue": picture(0x0000_00ff),
        "both": {"class_type": "ImageBatch", "inputs": {"image1": ["red", 0], "image2": ["blue", 0]}},
        "number": {"class_type": "PrimitiveInt", "inputs": {"value": 7}},
        "stills": {"class_type": "SaveImage", "inputs": {"images": ["both", 0], "filename_prefix": "still"}},
        "webp": {"class_type": "SaveAnimatedWEBP", "inputs": {"images": ["both", 0], "filename_prefix": "moving", "fps": 6.0, "lossless": true, "quality": 80, "method": "default"}},
        "apng": {"class_type": "SaveAnimatedPNG", "inputs": {"images": ["both", 0], "filename_prefix": "moving", "fps": 6.0, "compress_level": 4}},
        "text": {"class_type": "PreviewAny", "inputs": {"source": ["number", 0]}},
        "look": {"class_type": "PreviewImage", "inputs": {"images": ["red", 0]}},
        "shown": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["blue", 0]}},
    })
}

#[tokio::test]
async fn every_kind_of_output_has_its_type_and_its_bytes() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let job = submit(&server, &json!({"workflow": everything()})).await;
    let told = events_of(&server, &job).await;
    let (_, last) = told.last().unwrap();
    assert_eq!(last["status"], json!("succeeded"), "{told:#?}");
    let outputs = last["outputs"].as_array().unwrap();
    let mut kinds: Vec<_> = outputs
        .iter()
        .map(|output| {
            let field = |name: &str| output[name].as_str().unwrap();
            (field("node_id"), field("type"), field("content_type"))
        })
        .collect();
    kinds.sort_unstable();
    let (image, text) = ("image", "text/plain; charset=utf-8");
    assert_eq!(
        kinds,
        [
            ("apng", image, "image/png"),
            ("look", image, "image/png"),
            ("stills", image, "image/png"),
            ("stills", image, "image/png"),
            ("text", "text", text),
            ("webp", image, "image/webp"),
        ]
    );
    for output in outputs {
        let target = format!("/api/v2/assets/{}/content", output["id"].as_str().unwrap());
        let content = server.send(&Request::get(&target)).await.unwrap();
        assert_eq!(content.status, 200);
        assert_eq!(
            content.header("content-type"),
            output["content_type"].as_str()
        );
        let bytes = &content.body;
        assert_eq!(bytes.len() as u64, output["size_bytes"].as_u64().unwrap());
        let has = |what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
        match output["node_id"].as_str().unwrap() {
            "text" => assert_eq!(&bytes[..], b"7"),
            "apng" => assert!(has(b"acTL"), "it moves"),
            "webp" => assert!(has(b"ANMF"), "it moves"),
            _ => assert!(bytes.starts_with(b"\x89PNG") && !has(b"acTL")),
        }
    }
    let previews: Vec<_> = told.iter().filter(|(name, _)| name == "preview").collect();
    for (_, preview) in &previews {
        assert_eq!(preview["node_id"], json!("shown"));
        assert_eq!(preview["content_type"], json!("image/png"));
        let data = preview["data_base64"].as_str().unwrap();
        assert!(data.starts_with("iVBORw0KGgo"), "{data}");
    }
}

#[tokio::test]
async fn a_picture_inside_the_network_is_not_fetched() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "https://169.254.169.254/latest/meta-data?key=secret"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    });
    let job = submit(&server, &json!({"workflow": graph})).await;
    events_of(&server, &job).await;
    let last = look(&server, &job).await;
    assert_eq!(last["status"], json!("failed"));
    let error = &last["error"];
    assert_eq!(error["code"], json!("node_execution_error"), "{error}");
    assert_eq!(error["node_id"], json!("1"), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("not on the public internet"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn an_object_with_a_name_of_the_parser_is_refused_and_told() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mark = "$serde_json::private::RawValue";
    let graph = json!({
        "1": {"class_type": "PreviewAny", "inputs": {"source": {mark: "[1,2]"}}},
    });
    for (target, member, status) in [
        ("/api/v2/jobs", "workflow", 400),
        ("/api/prompt", "prompt", 400),
    ] {
        let body = json!({member: graph}).to_string();
        let request = Request::new("POST", target)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", "key")
            .body(body.into_bytes());
        let refused = server.send(&request).await.unwrap();
        let text = refused.text();
        assert_eq!(refused.status, status, "{text}");
        assert!(
            text.contains(mark) && text.contains("another name"),
            "{text}"
        );
    }
}
