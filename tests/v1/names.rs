//! Names of uploads: in lists and menus, and the kind that a client sent them as.

use it::{Request, Server};
use serde_json::json;

use super::{get, upload};

#[tokio::test]
async fn lists_are_newest_first_and_menus_sorted_by_what_their_input_takes() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let names = ["b.png", "a.mp4", "c.flac", "a.png", "d.txt"];
    for name in names {
        upload(&server, name, name.as_bytes()).await;
    }
    let listed = get(&server, "/internal/files/input").await;
    let newest_first: Vec<&str> = names.into_iter().rev().collect();
    assert_eq!(listed, json!(newest_first));

    let info = get(&server, "/api/object_info").await;
    for (class, input, expected) in [
        ("LoadImage", "image", json!(["a.png", "b.png"])),
        ("LoadAudio", "audio", json!(["a.mp4", "c.flac"])),
        ("LoadVideo", "file", json!(["a.mp4"])),
    ] {
        let spec = &info[class]["input"]["required"][input];
        let menu = match spec[0].is_array() {
            true => &spec[0],
            false => &spec[1]["options"],
        };
        assert_eq!(*menu, expected, "{class}: {spec}");
    }
}

#[tokio::test]
async fn a_class_whose_name_has_a_slash_can_be_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for (name, known) in [
        ("KSampler%20%2F%2FInspire", false),
        ("Load%49mage", true),
        ("LoadImage", true),
    ] {
        let target = format!("/api/object_info/{name}");
        let answer = server.send(&Request::get(&target)).await.unwrap();
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(answer.json()["LoadImage"].is_object(), known, "{name}");
    }
}
