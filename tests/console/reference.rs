//! The documents of the APIs as pages: in headless Chromium by the keyboard alone, and as clients without a browser get them.

use std::fs;
use std::path::Path;

use it::{Launch, Request, Server, lacks, root};
use serde_json::{Value, json};
use tokio::process::Command;

/// What the test needs and `.ci/run` installs.
const NEEDED: [&str; 3] = ["EASEL_PLAYWRIGHT", "EASEL_CHROMIUM", "EASEL_AXE"];

/// The most bytes of the page on the wire, without a document.
const MOST_BYTES: u64 = 12 * 1024;

const VIEWS: [&str; 5] = ["overview", "operation", "schema", "failure", "narrow"];

/// The documents by the names that the page has for them.
const DOCUMENTS: [(&str, &str); 4] = [
    ("v2", "v2.json"),
    ("comfyui", "v1.json"),
    ("models", "router.json"),
    ("admin", "admin.json"),
];

/// How many pages a document has: one for each schema and each operation, but for HEAD beside GET.
fn pages(file: &str) -> usize {
    let text = fs::read_to_string(root().join("docs/openapi").join(file)).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let methods = ["get", "head", "post", "put", "patch", "delete"];
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.map(|path| {
        let path = path.as_object().unwrap();
        let keys = path.keys().filter(|key| methods.contains(&key.as_str()));
        keys.filter(|key| *key != "head" || !path.contains_key("get"))
            .count()
    });
    let schemas = document["components"]["schemas"].as_object().unwrap();
    operations.sum::<usize>() + schemas.len()
}

#[tokio::test]
async fn every_document_can_be_read_by_keyboard() {
    const TEST: &str = "every_document_can_be_read_by_keyboard";
    if lacks(TEST, &NEEDED) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let key = "a-key-of-the-reference-test";
    let server = Server::start_with(data.path(), ["--token", key]).await;
    let server = server.unwrap();
    // Kept for people to look at.
    let screenshots = root().join("target/ci/reference");
    fs::create_dir_all(&screenshots).unwrap();
    let driven = Command::new("node")
        .arg(root().join("tests/clients/reference.mjs"))
        .args([server.address.to_string(), key.to_owned()])
        .arg(&screenshots)
        .output();
    let driven = driven.await.unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    let complained = String::from_utf8_lossy(&driven.stderr);
    assert!(driven.status.success(), "{said}\n{complained}");
    let told: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for none in ["errors", "outside", "serious"] {
        assert_eq!(told[none], json!([]), "{none} in {told}");
    }
    assert_eq!(told["views"], json!(VIEWS), "{told}");
    for (id, file) in DOCUMENTS {
        assert_eq!(told["pages"][id], pages(file), "{id} in {told}");
    }
    let bytes = told["bytes"].as_u64().unwrap();
    assert!(bytes > 0 && bytes <= MOST_BYTES, "{bytes} bytes");
    assert_eq!(told["focused"], "MAIN");
    assert_eq!(told["second"], 1);
    assert_eq!(told["listed"], json!(["jobs"]));
    assert!(told["beside"].as_i64().unwrap() <= 0, "{told}");
    let submit = told["submit"].as_str().unwrap();
    let expected = format!("curl -X POST 'http://{}/api/v2/jobs'", server.address);
    assert!(submit.starts_with(&expected), "{submit}");
    assert!(submit.contains("-d '{"), "{submit}");
}

#[tokio::test]
async fn every_server_shows_its_own_documents_and_no_others() {
    for (package, documents) in [
        ("all-in-one", &DOCUMENTS[..]),
        (
            "workflow-server",
            &[DOCUMENTS[0], DOCUMENTS[1], DOCUMENTS[3]],
        ),
        ("router-server", &DOCUMENTS[2..]),
    ] {
        let data = tempfile::tempdir().unwrap();
        let launch = Launch {
            arguments: vec![
                "--mount-path".into(),
                "/a/b".into(),
                "--console=false".into(),
            ],
            ..Launch::of(package)
        };
        let server = Server::launch(data.path(), &launch).await.unwrap();
        let moved = server.send(&Request::get("/a/b/docs")).await.unwrap();
        assert_eq!(
            (moved.status, moved.header("location")),
            (308, Some("/a/b/docs/"))
        );
        let page = server.send(&Request::get("/a/b/docs/")).await.unwrap();
        assert_eq!(page.status, 200, "{package}");
        let text = page.text();
        let linked = text.split("data-document=\"..").skip(1);
        let linked: Vec<&str> = linked.map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(linked.len(), documents.len(), "{package}: {linked:?}");
        for (path, (_, file)) in linked.iter().zip(documents) {
            // Without a credential, as the page asks.
            let answer = server
                .send(&Request::get(&format!("/a/b{path}")))
                .await
                .unwrap();
            let expected = fs::read(root().join("docs/openapi").join(file)).unwrap();
            let expected: Value = serde_json::from_slice(&expected).unwrap();
            assert_eq!(
                answer.json()["info"]["title"],
                expected["info"]["title"],
                "{path}"
            );
        }
    }
}

/// A folder as PyPI installs the page, with a page of help.
fn install_page(folder: &Path) {
    let help = folder.join("comfyui_embedded_docs/docs/KSampler");
    fs::create_dir_all(&help).unwrap();
    fs::write(help.join("en.md"), "# KSampler").unwrap();
    let page = folder.join("comfyui_frontend_package/static");
    fs::create_dir_all(&page).unwrap();
    fs::write(page.join("index.html"), "<p>the page</p>").unwrap();
}

#[tokio::test]
async fn the_help_of_comfyuis_page_stays_where_the_page_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    install_page(folder.path());
    let web = folder.path().join("comfyui_frontend_package/static");
    let flags = ["--web-root", web.to_str().unwrap()];
    let server = Server::start_with(&folder.path().join("data"), flags).await;
    let server = server.unwrap();
    let help = server
        .send(&Request::get("/docs/KSampler/en.md"))
        .await
        .unwrap();
    assert_eq!((help.status, help.text().as_str()), (200, "# KSampler"));
    let page = server.send(&Request::get("/docs/")).await.unwrap();
    assert!(page.text().contains("API reference"), "{}", page.text());
}
