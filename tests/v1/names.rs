//! Names of uploads: in lists and menus, and the kind that a client sent them as.

use it::Server;
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
