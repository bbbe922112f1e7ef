//! Files: uploads by their content, views, masks, saved workflows.

use it::{Form, Request, Server};
use serde_json::{Value, json};

use super::{get, photo, post, run, tiny_graph, upload};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Follows a view to the bytes, as a client does: without any credential.
async fn bytes(server: &Server, target: &str) -> Vec<u8> {
    let answer = server.send(&Request::get(target)).await.unwrap();
    assert_eq!(answer.status, 302, "{target}: {}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("private, no-store"));
    let link = answer.header("location").unwrap();
    let path = link.split_once("://").unwrap().1;
    let path = &path[path.find('/').unwrap()..];
    let answer = server.send(&Request::get(path)).await.unwrap();
    assert_eq!(answer.status, 200);
    answer.body
}

async fn send_form(server: &Server, target: &str, form: Form) -> it::Answer {
    let request = Request::new("POST", target)
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    server.send(&request).await.unwrap()
}

#[tokio::test]
async fn an_upload_keeps_its_name_and_comes_back_as_it_was() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let (photo, text) = (photo(), b"not a picture".to_vec());
    let first = upload(&server, "x.png", &photo).await;
    assert_eq!(
        upload(&server, "x.png", &photo).await,
        first,
        "again is no news"
    );
    assert_eq!(
        (&first["type"], &first["asset"]["mime_type"]),
        (&json!("input"), &json!("image/png"))
    );
    assert_eq!(first["name"], "x.png");
    let hash = first["asset"]["asset_hash"].as_str().unwrap();
    let hash = hash.strip_prefix("blake3:").unwrap();
    for target in [
        format!("/view?filename={hash}.png&type=input"),
        "/api/view?filename=x.png&type=input&subfolder=&rand=0.5".to_owned(),
        format!("/api/view?filename=blake3:{hash}"),
        "/view?filename=x.png%20[input]".to_owned(),
    ] {
        assert_eq!(bytes(&server, &target).await, photo, "{target}");
    }
    upload(&server, "..%2Fb.txt", &text).await;
    assert_eq!(
        bytes(&server, "/view?filename=b.txt&type=input").await,
        text
    );
}

#[tokio::test]
async fn other_bytes_of_a_name_get_a_number_and_replace_nothing_unasked() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let view = |name: &str| format!("/view?filename={}&type=input", name.replace(' ', "%20"));
    for round in 0..2 {
        for n in 0..6 {
            let told = upload(&server, "x.png", format!("picture {n}").as_bytes()).await;
            let expected = match n {
                0 => "x.png".to_owned(),
                n => format!("x ({n}).png"),
            };
            assert_eq!(told["name"], expected.as_str(), "round {round}");
            let shown = bytes(&server, &view(&expected)).await;
            assert_eq!(shown, format!("picture {n}").as_bytes());
        }
    }
    let listed = get(&server, "/internal/files/input").await;
    assert_eq!(
        listed.as_array().unwrap().len(),
        6,
        "nothing twice: {listed}"
    );

    let form = Form::new()
        .file("image", "x.png", b"another")
        .field("overwrite", "true");
    let told = send_form(&server, "/upload/image", form).await.json();
    assert_eq!(told["name"], "x.png");
    assert_eq!(bytes(&server, &view("x.png")).await, b"another");
    assert_eq!(bytes(&server, &view("x (1).png")).await, b"picture 1");
}

#[tokio::test]
async fn uploads_at_once_under_one_name_all_stay() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for round in 0..8 {
        let (name, pictures): (_, Vec<_>) = (
            format!("race{round}.png"),
            (0..4).map(|n| format!("picture {n}")).collect(),
        );
        let sent = pictures
            .iter()
            .map(|picture| upload(&server, &name, picture.as_bytes()));
        let told = futures_util::future::join_all(sent).await;
        let mut names = Vec::new();
        for (told, picture) in told.iter().zip(&pictures) {
            let name = told["name"].as_str().unwrap();
            let target = format!("/view?filename={}&type=input", name.replace(' ', "%20"));
            assert_eq!(bytes(&server, &target).await, picture.as_bytes(), "{name}");
            names.push(name);
        }
        names.sort_unstable();
        let stem = format!("race{round}");
        let expected = [" (1)", " (2)", " (3)", ""].map(|number| format!("{stem}{number}.png"));
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn a_file_that_is_uploaded_again_is_kept_for_longer() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let ends = async |told: &Value| {
        let id = told["asset"]["id"].as_str().unwrap();
        let asset = get(&server, &format!("/api/v2/assets/{id}")).await;
        asset["expires_at"].as_str().unwrap().to_owned()
    };
    let first = upload(&server, "x.png", b"bytes").await;
    let before = ends(&first).await;
    let again = upload(&server, "x.png", b"bytes").await;
    assert_eq!(again, first);
    assert!(ends(&again).await > before, "{before}");
}

#[tokio::test]
async fn outputs_are_shown_whole_in_part_and_small() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    run(&server, &tiny_graph(0xff0000)).await;
    let whole = bytes(&server, "/api/view?filename=tiny_00001_.png&type=output").await;
    assert!(whole.starts_with(PNG));
    for (more, media_type, start) in [
        ("channel=rgb", "image/png", PNG),
        ("channel=a", "image/png", PNG),
        ("preview=webp;90", "image/webp", &b"RIFF"[..]),
        ("preview=jpeg;80", "image/jpeg", &b"\xff\xd8"[..]),
        ("res=64", "image/jpeg", &b"\xff\xd8"[..]),
    ] {
        let target = format!("/view?filename=tiny_00001_.png&{more}");
        let answer = server.send(&Request::get(&target)).await.unwrap();
        assert_eq!(answer.status, 200, "{more}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some(media_type), "{more}");
        assert!(answer.body.starts_with(start), "{more}");
    }
    for (query, status) in [
        ("", 400),
        ("filename=", 400),
        ("filename=..%2Fx", 400),
        ("filename=%2Fetc%2Fpasswd", 400),
        ("filename=x&subfolder=..", 400),
        ("filename=x&type=models", 400),
        ("filename=x&res=1", 400),
        ("filename=nothing.png", 404),
        ("filename=tiny_00001_.png&type=input", 404),
        (
            "filename=blake3:0000000000000000000000000000000000000000000000000000000000000000",
            404,
        ),
    ] {
        let answer = server
            .send(&Request::get(&format!("/api/view?{query}")))
            .await
            .unwrap();
        assert_eq!(answer.status, status, "{query}");
        let body = answer.json();
        assert!(
            body["code"].is_string() && body["message"].is_string(),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_folder_shows_its_own_files_only() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let mut graph = tiny_graph(0x00ff00);
    graph["3"] = json!({"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}});
    let id = run(&server, &graph).await;
    let history = get(&server, &format!("/api/history/{id}")).await;
    let shown = &history[&id]["outputs"]["3"]["images"][0];
    assert_eq!(shown["type"], json!("temp"), "{shown}");
    let temp = shown["filename"].as_str().unwrap();
    let name = upload(&server, "up.png", &photo()).await["name"]
        .as_str()
        .unwrap()
        .to_owned();
    for (file, folder) in [
        ("tiny_00001_.png", "output"),
        (temp, "temp"),
        (&name, "input"),
    ] {
        for kind in ["output", "temp", "input"] {
            // What was uploaded as a temporary file is known in either place.
            let is_there = kind == folder || (folder, kind) == ("input", "temp");
            let target = format!("/api/view?filename={file}&type={kind}");
            let answer = server.send(&Request::get(&target)).await.unwrap();
            assert_eq!(answer.status, if is_there { 302 } else { 404 }, "{target}");
        }
    }
    let listed = get(&server, "/internal/files/output").await;
    assert_eq!(listed, json!(["tiny_00001_.png [output]"]));
}

#[tokio::test]
async fn a_page_that_was_uploaded_is_downloaded_and_never_shown() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let stored = upload(&server, "evil.html", b"<script>alert(1)</script>").await;
    let target = format!(
        "/api/view?filename={}&type=input",
        stored["name"].as_str().unwrap()
    );
    let answer = server.send(&Request::get(&target)).await.unwrap();
    let link = answer.header("location").unwrap();
    let path = link.split_once("://").unwrap().1;
    let answer = server
        .send(&Request::get(&path[path.find('/').unwrap()..]))
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    let disposition = answer.header("content-disposition").unwrap();
    assert!(disposition.starts_with("attachment"), "{disposition}");
    assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn a_mask_becomes_the_alpha_of_its_picture() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    run(&server, &tiny_graph(0x00ff00)).await;
    let mask = bytes(&server, "/view?filename=tiny_00001_.png").await;
    let original = json!({"filename": "tiny_00001_.png", "subfolder": "", "type": "output"});
    let form = || {
        Form::new()
            .file("image", "mask.png", &mask)
            .field("subfolder", "clipspace")
    };
    let answer = send_form(
        &server,
        "/upload/mask",
        form().field("original_ref", &original.to_string()),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    assert_eq!(
        (&told["subfolder"], &told["metadata"]["is_mask"]),
        (&json!(""), &json!(true))
    );
    let name = told["name"].as_str().unwrap();
    let made = bytes(&server, &format!("/view?filename={name}&type=input")).await;
    // Colour type 6: RGBA.
    assert!(made.starts_with(PNG) && made[25] == 6);

    for (reference, status) in [
        (None, 400),
        (Some("no JSON"), 400),
        (Some("[]"), 400),
        (Some("{}"), 400),
        (Some(r#"{"filename": "gone.png"}"#), 404),
    ] {
        let form = match reference {
            Some(reference) => form().field("original_ref", reference),
            None => form(),
        };
        let answer = send_form(&server, "/api/upload/mask", form).await;
        assert_eq!(answer.status, status, "{reference:?}: {}", answer.text());
    }
    let small = Form::new()
        .file("image", "mask.png", &photo())
        .field("original_ref", &original.to_string());
    let answer = send_form(&server, "/upload/mask", small).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("same size"), "{}", answer.text());
}

/// What the page's mask editor does: a picture and its mask are sent to the subfolder `clipspace`, and the node then loads
/// `clipspace/<name> [input]`.
#[tokio::test]
async fn what_was_sent_to_a_subfolder_is_loaded_from_it() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let form = |name: &str| {
        Form::new()
            .file("image", name, &photo())
            .field("type", "input")
            .field("subfolder", "clipspace")
    };
    let painted = send_form(
        &server,
        "/api/upload/image",
        form("clipspace-painted-7.png"),
    )
    .await;
    let painted = painted.json()["name"].as_str().unwrap().to_owned();
    let original =
        json!({"filename": "clipspace-painted-7.png", "subfolder": "clipspace", "type": "input"});
    let masked =
        form("clipspace-painted-masked-7.png").field("original_ref", &original.to_string());
    let masked = send_form(&server, "/api/upload/mask", masked).await;
    assert_eq!(masked.status, 200, "{}", masked.text());
    let masked = masked.json()["name"].as_str().unwrap().to_owned();
    for name in [
        "clipspace/clipspace-painted-7.png [input]",
        "clipspace/clipspace-painted-masked-7.png [input]",
        "clipspace/clipspace-painted-masked-7.png",
        &format!("clipspace/{painted} [input]"),
        &format!("clipspace/{masked} [input]"),
    ] {
        let graph = json!({
            "1": {"class_type": "LoadImage", "inputs": {"image": name}},
            "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        });
        let id = run(&server, &graph).await;
        let status = get(&server, &format!("/api/job/{id}/status")).await;
        assert_eq!(status["status"], "success", "{name}");
    }
    let shown = "/api/view?filename=clipspace-painted-masked-7.png&subfolder=clipspace&type=input";
    assert!(bytes(&server, shown).await.starts_with(PNG));
    // Uploads have no folders in the older API alone.
    let graph = json!({
        "1": {"class_type": "LoadImage", "inputs": {"image": "clipspace/clipspace-painted-7.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
    });
    let refused = post(&server, "/api/v2/jobs", &json!({"workflow": graph})).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
}

/// What the page does when a graph with `RecordAudio` is run: the recording is sent to the subfolder `audio` of what is
/// temporary, and the node then loads `audio/<name> [temp]`.
#[tokio::test]
async fn a_recording_of_the_page_is_a_sound() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let told = get(&server, "/api/object_info/RecordAudio").await;
    let audio = &told["RecordAudio"]["input"]["required"]["audio"];
    assert_eq!(audio, &json!(["AUDIO_RECORD"]), "a widget and no choices");
    let form = Form::new()
        .file("image", "recording-7.wav", &wave())
        .field("type", "temp")
        .field("subfolder", "audio");
    let sent = send_form(&server, "/api/upload/image", form).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let graph = |name: &str| {
        json!({
            "1": {"class_type": "RecordAudio", "inputs": {"audio": name}},
            "2": {"class_type": "SaveAudio", "inputs": {"audio": ["1", 0], "filename_prefix": "voice"}},
        })
    };
    let id = run(&server, &graph("audio/recording-7.wav [temp]")).await;
    let status = get(&server, &format!("/api/job/{id}/status")).await;
    assert_eq!(status["status"], "success", "{status:#}");
    let saved = bytes(&server, "/view?filename=voice_00001_.flac&type=output").await;
    assert!(saved.starts_with(b"fLaC"));
    // The page sends an empty name if nothing was recorded.
    let refused = post(&server, "/prompt", &json!({"prompt": graph("")})).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let errors = &refused.json()["node_errors"]["1"]["errors"];
    assert_eq!(errors[0]["extra_info"]["input_name"], "audio", "{errors:#}");
}

/// A tenth of a second at 8000 samples a second, as 16-bit samples of one channel.
fn wave() -> Vec<u8> {
    let samples = (0..800_i16).flat_map(|at| (at % 50 * 400).to_le_bytes());
    let samples: Vec<u8> = samples.collect();
    let mut wave = b"RIFF".to_vec();
    wave.extend((36 + samples.len() as u32).to_le_bytes());
    wave.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wave.extend(8000_u32.to_le_bytes());
    wave.extend(16000_u32.to_le_bytes());
    wave.extend(b"\x02\0\x10\0data");
    wave.extend((samples.len() as u32).to_le_bytes());
    wave.extend(samples);
    wave
}

#[tokio::test]
async fn a_form_that_is_none_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    for form in [
        Form::new(),
        Form::new().field("image", "no file"),
        Form::new().file("image", "", b"x"),
        Form::new().file("image", "..", b"x"),
        Form::new()
            .file("image", "x", b"x")
            .file("image", "y", b"y"),
        Form::new().file("image", "x", b"x").field("type", "models"),
    ] {
        let answer = send_form(&server, "/upload/image", form.clone()).await;
        let code = answer.json()["code"].clone();
        assert_eq!(
            (answer.status, code),
            (400, json!("INVALID_REQUEST")),
            "{form:?}"
        );
    }
}

#[tokio::test]
async fn saved_workflows_are_files_of_the_account() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path()).await.unwrap();
    let list = "/api/userdata?dir=workflows&recurse=true&split=false&full_info=true";
    assert_eq!(get(&server, list).await, json!([]), "never saved to");
    let save = |name: &str, query: &str, body: &str| {
        let target = format!("/api/userdata/{name}{query}");
        Request::new("POST", &target).body(body.to_owned())
    };
    let saved = save("workflows%2Fa%20b.json", "?full_info=true", "{\"one\": 1}");
    let saved = server.send(&saved).await.unwrap().json();
    assert_eq!(
        (&saved["path"], &saved["size"]),
        (&json!("workflows/a b.json"), &json!(10))
    );
    let again = save("workflows%2Fa%20b.json", "?overwrite=false", "{}");
    assert_eq!(server.send(&again).await.unwrap().status, 409);
    let read = Request::get("/userdata/workflows%2Fa%20b.json");
    let read = server.send(&read).await.unwrap();
    assert_eq!(read.text(), "{\"one\": 1}");
    assert_eq!(
        read.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    let moved =
        "/api/userdata/workflows%2Fa%20b.json/move/workflows%2Fdeep%2Fc.json?overwrite=false";
    let moved = server.send(&Request::new("POST", moved)).await.unwrap();
    assert_eq!(moved.json(), json!("workflows/deep/c.json"));
    server.terminate().await.unwrap();

    let server = Server::start(data.path()).await.unwrap();
    let listed = get(&server, list).await;
    assert_eq!(listed[0]["path"], "deep/c.json");
    assert!(listed[0]["modified"].is_number());
    let plain = get(&server, "/userdata?dir=workflows&recurse=true&split=true").await;
    assert_eq!(plain, json!([["deep/c.json", "deep", "c.json"]]));
    assert_eq!(get(&server, "/userdata?dir=workflows").await, json!([]));
    // What a page asks for before anything was saved.
    assert_eq!(get(&server, "/userdata?dir=subgraphs").await, json!([]));
    assert_eq!(
        get(&server, "/userdata/comfy.templates.json").await,
        json!([])
    );
    let bookmarks = "/userdata/workflows%2F.index.json";
    assert_eq!(get(&server, bookmarks).await, json!({}));
    // Once there are any, they are no workflow in a list of those.
    let favorites = json!({"favorites": ["workflows/deep/c.json"]});
    assert_eq!(post(&server, bookmarks, &favorites).await.status, 200);
    assert_eq!(get(&server, "/userdata?dir=workflows").await, json!([]));
    let style = Request::get("/api/userdata/user.css");
    let style = server.send(&style).await.unwrap();
    assert_eq!((style.status, style.text().as_str()), (200, ""));
    assert_eq!(
        style.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    let gone = Request::new("DELETE", "/api/userdata/workflows%2Fdeep%2Fc.json");
    assert_eq!(server.send(&gone).await.unwrap().status, 204);
    assert_eq!(server.send(&gone).await.unwrap().status, 404);
    // What the server keeps for itself is no file of anybody, and nothing leads outside.
    post(&server, "/history", &json!({"clear": true})).await;
    for name in [
        ".easel%2Fhistory.json",
        "..%2Fx",
        "%2Fetc%2Fpasswd",
        "a%2F..%2F..%2Fx",
        "a%00",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let request = Request::new(method, &format!("/api/userdata/{name}"));
            let answer = server.send(&request).await.unwrap();
            assert_eq!(answer.status, 400, "{method} {name}");
        }
    }
    assert_eq!(get(&server, "/userdata?dir=").await, json!([]));
    let all: Value = get(&server, "/userdata?dir=&recurse=true").await;
    assert_eq!(all, json!([]));
}
