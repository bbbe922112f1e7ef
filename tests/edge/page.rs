//! The folder of the web page, and who may sign in on it.

use std::ffi::OsString;
use std::os::unix::fs::symlink;

use it::{Form, Request, Server};
use serde_json::json;

#[tokio::test]
async fn links_out_of_the_folder_are_not_followed() {
    let data = tempfile::tempdir().unwrap();
    let page = data.path().join("page");
    std::fs::create_dir_all(page.join("assets")).unwrap();
    std::fs::write(page.join("index.html"), "<p>page").unwrap();
    let script: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(page.join("assets/app.js"), &script).unwrap();
    std::fs::write(data.path().join("secret.txt"), "secret").unwrap();
    symlink("/etc/passwd", page.join("passwd.txt")).unwrap();
    symlink("../secret.txt", page.join("secret.txt")).unwrap();
    symlink("/etc", page.join("etc")).unwrap();
    symlink("assets/app.js", page.join("again.js")).unwrap();
    // The folder itself may be named by a link.
    let named = data.path().join("named");
    symlink(&page, &named).unwrap();
    let arguments = [OsString::from("--web-root"), named.into()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    for path in ["/passwd.txt", "/secret.txt", "/etc/passwd", "/etc/hostname"] {
        let answer = server.send(&Request::get(path)).await.unwrap();
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    for path in ["/", "/index.html", "/assets/app.js", "/again.js"] {
        let answer = server.send(&Request::get(path)).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        let whole = if path.ends_with(".js") {
            script.as_slice()
        } else {
            b"<p>page"
        };
        assert!(answer.body == whole, "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("SAMEORIGIN"));
        let policy = answer.header("content-security-policy");
        assert_eq!(policy, Some("frame-ancestors 'self'"));
        let head = server.send(&Request::new("HEAD", path)).await.unwrap();
        let length = whole.len().to_string();
        assert_eq!(
            head.header("content-length"),
            Some(length.as_str()),
            "{path}"
        );
        let known = Request::get(path).header("If-None-Match", answer.header("etag").unwrap());
        assert_eq!(server.send(&known).await.unwrap().status, 304);
    }
}

#[tokio::test]
async fn templates_and_help_are_served_from_the_packages_beside_the_page() {
    let data = tempfile::tempdir().unwrap();
    let packages = data.path().join("site-packages");
    let page = packages.join("comfyui_frontend_package/static");
    let files = [
        ("comfyui_frontend_package/static/index.html", "page"),
        ("comfyui_frontend_package/static/templates/own.json", "own"),
        (
            "comfyui_workflow_templates_json/templates/index.json",
            "index",
        ),
        (
            "comfyui_workflow_templates_media_image/templates/a.webp",
            "media",
        ),
        (
            "comfyui_workflow_templates_json-1.dist-info/templates/x",
            "no",
        ),
        ("comfyui_embedded_docs/docs/LoadImage/en.md", "help"),
        ("comfyui_embedded_docs/__init__.py", "no"),
        ("other/templates/secret.json", "no"),
    ];
    for (path, text) in files {
        let path = packages.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    symlink(
        packages.join("other/templates/secret.json"),
        packages.join("comfyui_workflow_templates_json/templates/linked.json"),
    )
    .unwrap();
    let arguments = [OsString::from("--web-root"), page.into()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    for (path, text) in [
        ("/templates/index.json", "index"),
        ("/templates/a.webp", "media"),
        ("/templates/own.json", "own"),
        ("/docs/LoadImage/en.md", "help"),
    ] {
        let answer = server.send(&Request::get(path)).await.unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, text), "{path}");
    }
    for path in [
        "/templates/x",
        "/templates/secret.json",
        "/templates/linked.json",
        "/templates/..%2f..%2fother/templates/secret.json",
        "/templates/",
        "/docs/__init__.py",
        "/docs/LoadImage",
        "/comfyui_embedded_docs/docs/LoadImage/en.md",
    ] {
        let answer = server.send(&Request::get(path)).await.unwrap();
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn subgraphs_are_listed_from_the_package_beside_the_page() {
    let data = tempfile::tempdir().unwrap();
    let packages = data.path().join("site-packages");
    let page = packages.join("comfyui_frontend_package/static");
    let blueprints = packages.join("comfyui_subgraph_blueprints/blueprints");
    for folder in [&page, &blueprints] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let graph = json!({
        "nodes": [{"id": 1, "type": "the-subgraph"}],
        "definitions": {"subgraphs": [{"id": "the-subgraph", "name": "Soft Light", "nodes": []}]},
    });
    let graph = graph.to_string();
    std::fs::write(page.join("index.html"), "page").unwrap();
    std::fs::write(blueprints.join("soft_light.json"), &graph).unwrap();
    std::fs::write(blueprints.join("broken.json"), "{").unwrap();
    let token = "the-token-of-this-test";
    let arguments = ["--token", token, "--web-root", page.to_str().unwrap()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    for prefix in ["/api", ""] {
        // The files are public, and so is the list.
        let path = format!("{prefix}/global_subgraphs");
        let list = server.send(&Request::get(&path)).await.unwrap();
        assert_eq!(list.status, 200, "{}", list.text());
        let list = list.json();
        let (id, told) = list.as_object().unwrap().iter().next().unwrap();
        let expected =
            json!({"source": "templates", "name": "Soft Light", "info": {"node_pack": "comfyui"}});
        assert_eq!((told, list.as_object().unwrap().len()), (&expected, 1));
        let one = server
            .send(&Request::get(&format!("{path}/{id}")))
            .await
            .unwrap();
        assert_eq!(one.json()["data"], graph);
        let none = server
            .send(&Request::get(&format!("{path}/none")))
            .await
            .unwrap();
        assert_eq!(none.status, 404, "{}", none.text());
    }
}

#[tokio::test]
async fn wrong_keys_lock_nobody_out_who_has_a_right_one() {
    let data = tempfile::tempdir().unwrap();
    let token = "the-token-of-this-test";
    let arguments = ["--token", token, "--trusted-proxies", "127.0.0.1"];
    let server = Server::start_with(data.path(), arguments).await.unwrap();
    let attempt = async |key: &str, client: &str| {
        let request = Request::post_json("/api/session", &json!({ "key": key }));
        let request = request.header("X-Forwarded-For", client);
        server.send(&request).await.unwrap()
    };
    for n in 0..12 {
        let answer = attempt("wrong", "198.51.100.7").await;
        assert_eq!(answer.status, if n < 10 { 401 } else { 429 }, "{n}");
    }
    // The same address with a right key, and another client of the same proxy.
    let right = attempt(token, "198.51.100.7").await;
    assert_eq!(right.status, 204, "{}", right.text());
    assert!(right.header("set-cookie").is_some());
    assert_eq!(attempt("wrong", "198.51.100.8").await.status, 401);
    let refused = attempt("wrong", "198.51.100.7").await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").is_some());
}

#[tokio::test]
async fn the_page_gets_our_extension_words_and_index_beside_what_is_installed() {
    let data = tempfile::tempdir().unwrap();
    let packages = data.path().join("site-packages");
    let graph = |class: &str| json!({"nodes": [{"id": 1, "type": class}]}).to_string();
    let index = json!([{"moduleName": "default", "title": "All", "templates": [
        {"name": "runs", "description": "One.", "tags": ["Image"]},
        {"name": "lacks", "description": "Two."},
        {"name": "absent", "description": "Three."},
        {"name": "loads", "description": "Four.", "io": {"inputs": [{"file": "a.png"}]}},
    ]}]);
    let files = [
        (
            "comfyui_frontend_package/static/index.html",
            "page".to_owned(),
        ),
        (
            "comfyui_workflow_templates_json/templates/index.json",
            index.to_string(),
        ),
        (
            "comfyui_workflow_templates_json/templates/index.de.json",
            "no index".to_owned(),
        ),
        (
            "comfyui_workflow_templates_json/templates/runs.json",
            graph("EmptyImage"),
        ),
        (
            "comfyui_workflow_templates_json/templates/lacks.json",
            graph("KSampler"),
        ),
        (
            "comfyui_workflow_templates_json/templates/loads.json",
            graph("LoadImage"),
        ),
    ];
    for (path, text) in files {
        let path = packages.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let page = packages.join("comfyui_frontend_package/static");
    let arguments = [OsString::from("--web-root"), page.clone().into()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    let get = async |path: &str| server.send(&Request::get(path)).await.unwrap();

    let listed = get("/api/extensions").await.json();
    let script = get(listed[0].as_str().unwrap()).await;
    assert_eq!(
        script.header("content-type"),
        Some("application/javascript; charset=utf-8")
    );
    assert!(script.text().contains("registerExtension"));
    let words = get("/api/i18n").await.json();
    assert_eq!(words["de"], json!(null), "the page has no German");
    for language in ["fr", "it"] {
        assert!(words[language]["rightSidePanel"].is_object(), "{language}");
    }
    assert_eq!(get("/api/easel").await.json()["console"], "console/");
    let news = "Comfy.Notification.ShowVersionUpdates";
    assert_eq!(get("/api/settings").await.json()[news], false);
    let chosen = Request::post_json("/api/settings", &json!({news: true}));
    assert_eq!(server.send(&chosen).await.unwrap().status, 200);
    assert_eq!(
        get("/api/settings").await.json()[news],
        true,
        "a person's choice counts"
    );

    let index = get("/templates/index.json").await.json();
    assert_eq!(index[0]["templates"][0]["name"], "easel-first-picture");
    let templates = &index[1]["templates"];
    assert_eq!(templates[0]["tags"], json!(["Runs here", "Image"]));
    assert_eq!(templates[1]["tags"], json!(["Needs a model"]));
    assert_eq!(
        templates[1]["description"],
        "Needs a ComfyUI worker for KSampler. Two."
    );
    assert_eq!(templates[2]["tags"], json!(null), "nothing is known of it");
    assert_eq!(templates[3]["tags"], json!(["Needs your files"]));
    assert_eq!(
        templates[3]["description"],
        "Runs here with files of yours in place of a.png. Four."
    );
    assert_eq!(get("/templates/index.de.json").await.text(), "no index");
    for language in ["it", "he"] {
        let same = get(&format!("/templates/index.{language}.json")).await;
        assert_eq!((same.status, same.json()), (200, index.clone()), "English");
    }
    assert_eq!(get("/templates/index.nl.json").await.status, 404);
    // Strangers learn nothing of the classes that are here.
    let arguments = [
        "--web-root",
        page.to_str().unwrap(),
        "--token",
        "a-token-of-a-test",
    ];
    let store = data.path().join("guarded");
    let guarded = Server::start_with(&store, arguments).await.unwrap();
    let asked = Request::get("/templates/index.json");
    let told = guarded.send(&asked).await.unwrap().json();
    assert_eq!(told[0]["templates"][0]["tags"], json!(["Image"]));
    let italian = Request::get("/templates/index.it.json");
    assert_eq!(guarded.send(&italian).await.unwrap().json(), told);
    let known = asked.header("X-API-Key", "a-token-of-a-test");
    let told = guarded.send(&known).await.unwrap().json();
    assert_eq!(
        told[1]["templates"][0]["tags"],
        json!(["Runs here", "Image"])
    );

    // With a file of that name it runs as it is.
    let photo = std::fs::read(it::root().join("examples/photo.png")).unwrap();
    let form = Form::new().file("image", "a.png", &photo);
    let upload = Request::new("POST", "/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    assert_eq!(server.send(&upload).await.unwrap().status, 200);
    let index = get("/templates/index.json").await.json();
    assert_eq!(index[1]["templates"][3]["tags"], json!(["Runs here"]));

    // A file that changes is read again.
    let lacks = packages.join("comfyui_workflow_templates_json/templates/lacks.json");
    std::fs::write(lacks, graph("ImageInvert")).unwrap();
    let index = get("/templates/index.json").await.json();
    assert_eq!(index[1]["templates"][1]["tags"], json!(["Runs here"]));
    let picture = get("/templates/lacks-1.webp").await;
    assert_eq!(
        (picture.status, picture.header("content-type")),
        (200, Some("image/svg+xml"))
    );
    assert_eq!(get("/templates/nothing.json").await.status, 404);
}

#[tokio::test]
async fn only_the_first_visit_of_a_browser_is_led_to_a_template() {
    let data = tempfile::tempdir().unwrap();
    let page = data.path().join("page");
    std::fs::create_dir_all(&page).unwrap();
    std::fs::write(page.join("index.html"), "page").unwrap();
    let arguments = [OsString::from("--web-root"), page.into()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    let files = async || {
        let listed = server.send(&Request::get("/internal/files/input")).await;
        listed.unwrap().json()
    };
    let visit = Request::get("/").header("Accept", "text/html,*/*;q=0.8");
    assert_eq!(server.send(&Request::get("/")).await.unwrap().status, 200);
    assert_eq!(files().await, json!([]), "a client that is no browser");
    for _ in 0..2 {
        let first = server.send(&visit).await.unwrap();
        assert_eq!(first.status, 302);
        assert_eq!(
            first.header("location"),
            Some("/?template=easel-first-picture")
        );
        assert_eq!(files().await, json!(["example.png"]), "and not twice");
    }
    let led = Request::get("/?template=easel-first-picture").header("Accept", "text/html");
    assert_eq!(server.send(&led).await.unwrap().text(), "page");
    let template = Request::get("/templates/easel-first-picture.json");
    assert_eq!(server.send(&template).await.unwrap().status, 200);
    let done = Request::post_json("/api/settings/Comfy.TutorialCompleted", &json!(true));
    assert_eq!(server.send(&done).await.unwrap().status, 200);
    assert_eq!(server.send(&visit).await.unwrap().text(), "page");
}

#[tokio::test]
async fn the_example_picture_is_there_whenever_the_page_is_opened() {
    let data = tempfile::tempdir().unwrap();
    let page = data.path().join("page");
    std::fs::create_dir_all(&page).unwrap();
    std::fs::write(page.join("index.html"), "<p>page").unwrap();
    let arguments = [OsString::from("--web-root"), page.into()];
    let store = data.path().join("data");
    let server = Server::start_with(&store, arguments).await.unwrap();
    let open = async || {
        let visit = Request::get("/").header("Accept", "text/html");
        server.send(&visit).await.unwrap().status
    };
    let example = Request::get("/api/view?filename=example.png&type=input");
    let is_there = async || server.send(&example).await.unwrap().status == 302;

    assert!(!is_there().await);
    assert_eq!(open().await, 302, "to the first template");
    assert!(is_there().await);
    let visited = json!({"Comfy.TutorialCompleted": true});
    let visited = Request::post_json("/api/settings", &visited);
    assert_eq!(server.send(&visited).await.unwrap().status, 200);

    // The same bytes under the same name are the same record.
    let bytes = std::fs::read(it::root().join("examples/photo.png")).unwrap();
    let form = Form::new().file("image", "example.png", &bytes);
    let again = Request::new("POST", "/upload/image")
        .header("Content-Type", &Form::content_type())
        .body(form.body());
    let told = server.send(&again).await.unwrap().json();
    let id = told["asset"]["id"].as_str().unwrap();
    let gone = Request::new("DELETE", &format!("/api/v2/assets/{id}"));
    assert_eq!(server.send(&gone).await.unwrap().status, 204);
    assert!(!is_there().await);
    assert_eq!(open().await, 200, "the page itself");
    assert!(is_there().await);
}
