//! Names of uploads: in lists and menus, and the kind that a client sent them as.

use it::{Form, Request, Server};
use serde_json::{Value, json};

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

/// Uploads a file of a kind, in place of one of its name if it may be; answers its name.
async fn send(server: &Server, name: &str, kind: &str, bytes: &[u8]) -> String {
    let form = Form::new()
        .file("image", name, bytes)
        .field("type", kind)
        .field("overwrite", "true");
    let request = Request::new("POST", "/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let told = server.send(&request).await.unwrap().json();
    assert_eq!(told["type"], kind);
    told["name"].as_str().unwrap().to_owned()
}

/// The text that a view leads to; `null` for 404.
async fn seen(server: &Server, name: &str, kind: &str) -> Value {
    let name = name.replace(' ', "%20");
    let target = format!("/view?filename={name}&type={kind}");
    let answer = server.send(&Request::get(&target)).await.unwrap();
    if answer.status == 404 {
        return Value::Null;
    }
    let link = answer.header("location").unwrap();
    let path = link.split_once("://").unwrap().1;
    let path = &path[path.find('/').unwrap()..];
    server
        .send(&Request::get(path))
        .await
        .unwrap()
        .text()
        .into()
}

#[tokio::test]
async fn an_upload_is_seen_as_what_it_was_sent_as_and_replaces_no_other_kind() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    assert_eq!(send(&server, "o.txt", "output", b"out").await, "o.txt");
    assert_eq!(seen(&server, "o.txt", "output").await, "out");

    assert_eq!(send(&server, "a.txt", "input", b"mine").await, "a.txt");
    assert_eq!(seen(&server, "a.txt", "output").await, Value::Null);
    let temp = send(&server, "a.txt", "temp", b"passing").await;
    assert_eq!(temp, "a (1).txt");
    assert_eq!(seen(&server, "a.txt", "input").await, "mine");
    assert_eq!(seen(&server, &temp, "temp").await, "passing");

    // Its own kind is replaced, and by what was asked for: an input may be put over anything.
    assert_eq!(send(&server, "t.txt", "temp", b"one").await, "t.txt");
    assert_eq!(send(&server, "t.txt", "temp", b"two").await, "t.txt");
    assert_eq!(seen(&server, "t.txt", "temp").await, "two");
    assert_eq!(send(&server, "t.txt", "input", b"two").await, "t.txt");
    let temp = send(&server, "t.txt", "temp", b"three").await;
    assert_eq!(temp, "t (1).txt", "it is an input now");
    assert_eq!(seen(&server, "t.txt", "input").await, "two");
}

#[tokio::test]
async fn the_same_bytes_are_seen_as_each_kind_that_they_were_sent_as() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for (first, second) in [
        ("input", "output"),
        ("output", "input"),
        ("output", "temp"),
        ("temp", "output"),
        ("temp", "input"),
    ] {
        let name = format!("{first}-{second}.txt");
        for kind in [first, second, first] {
            assert_eq!(send(&server, &name, kind, b"same").await, name);
        }
        for kind in [first, second] {
            assert_eq!(seen(&server, &name, kind).await, "same", "{name} as {kind}");
        }
        // What is of two kinds is not replaced as one of them, unless an input is put over it.
        for kind in [first, second].into_iter().filter(|kind| *kind != "input") {
            let other = send(&server, &name, kind, kind.as_bytes()).await;
            assert_ne!(other, name, "replaced as {kind}");
        }
    }
}

#[tokio::test]
async fn two_uploads_of_one_content_at_once_are_of_both_their_kinds() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for round in 0..10 {
        for (one, other) in [("input", "output"), ("input", "temp"), ("output", "temp")] {
            let name = format!("{one}-{other}-{round}.txt");
            let names = tokio::join!(
                send(&server, &name, one, name.as_bytes()),
                send(&server, &name, other, name.as_bytes()),
            );
            assert_eq!(names, (name.clone(), name.clone()));
            for kind in [one, other] {
                assert_eq!(seen(&server, &name, kind).await, json!(name), "as {kind}");
            }
            let later = send(&server, &name, other, b"later").await;
            assert_ne!(later, name, "it is not lost to a file of one kind");
        }
    }
}

#[tokio::test]
async fn an_input_is_not_lost_to_a_file_of_another_kind_that_comes_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for round in 0..20 {
        let name = format!("{round}.txt");
        assert_eq!(send(&server, &name, "temp", b"before").await, name);
        let (mine, passing) = tokio::join!(
            send(&server, &name, "input", b"mine"),
            send(&server, &name, "temp", b"passing"),
        );
        assert_eq!(mine, name);
        assert_eq!(seen(&server, &name, "input").await, "mine", "{passing}");
    }
}

#[tokio::test]
async fn a_kind_among_the_tags_of_an_upload_of_v2_counts() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let form = Form::new()
        .file("file", "o.txt", b"made elsewhere")
        .field("content_type", "text/plain")
        .field("file_path", "o.txt")
        .field("tags", "output");
    let request = Request::new("POST", "/api/v2/assets")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    assert_eq!(server.send(&request).await.unwrap().status, 201);
    assert_eq!(seen(&server, "o.txt", "output").await, "made elsewhere");
}

#[tokio::test]
async fn the_same_bytes_keep_the_number_that_they_have() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for (name, bytes, expected) in [
        ("n.png", "one", "n.png"),
        ("n.png", "two", "n (1).png"),
        ("zz.png", "two", "zz.png"),
        ("n.png", "two", "n (1).png"),
        ("n.png", "three", "n (2).png"),
    ] {
        let told = upload(&server, name, bytes.as_bytes()).await;
        assert_eq!(told["name"], expected, "{bytes} as {name}");
    }
    // What was replaced under its number is there no more.
    assert_eq!(
        send(&server, "n (2).png", "input", b"four").await,
        "n (2).png"
    );
    let told = upload(&server, "n.png", b"three").await;
    assert_eq!(told["name"], "n (3).png");
}

#[tokio::test]
async fn a_name_that_cannot_be_one_is_told_what_to_change() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let long = format!("{}.png", "x".repeat(1100));
    for (name, told) in [
        ("a:b.png", "`:`"),
        ("a\tb.png", "tabs"),
        (long.as_str(), "1024 bytes"),
    ] {
        let form = Form::new().file("image", name, b"bytes");
        let request = Request::new("POST", "/upload/image")
            .header("Content-Type", &Form::content_type())
            .body(form.body());
        let refused = server.send(&request).await.unwrap();
        assert_eq!(refused.status, 400, "{name}");
        assert!(refused.text().contains(told), "{}", refused.text());
    }
}
