//! The folder of one's own models is read again while everything runs.

use std::fs;

use it::{Launch, Log};

use super::catalog::{MODEL, write};
use super::*;

const READ_AGAIN: &str = "the catalog changed and was read again";
const REFUSED: &str = "the changed catalog is refused; the one before stays";

async fn listed(server: &Server) -> Vec<String> {
    let page = get(server, "/v1/models?limit=100").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.json();
    let entries = page["data"].as_array().unwrap().iter();
    let ids = entries.map(|entry| entry["id"].as_str().unwrap().to_owned());
    ids.filter(|id| id.starts_with("mine/")).collect()
}

/// Puts a text into a file of a catalog in one step: half a file would be one that is wrong.
fn put(file: &Path, text: &str) {
    let catalog = file.ancestors().nth(2).unwrap();
    let fresh = catalog.with_extension("fresh");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, file).unwrap();
}

/// Runs a model, and answers whether the picture came back inverted.
async fn inverts(server: &Server, model: &str) -> bool {
    let body = json!({"image": data_url(&small()), "inline": true});
    let answer = server.send(&run(model, &body)).await.unwrap();
    let expected: Vec<u8> = small().rgb[..9].iter().map(|value| 255 - value).collect();
    inline(&answer).rgb[..9] == expected
}

#[tokio::test]
async fn a_new_file_is_a_model_at_once_and_a_broken_one_takes_none_away() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog");
    write(&catalog, None);
    let log = folder.path().join("log");
    let arguments = ["--token", TOKEN, "--catalog", catalog.to_str().unwrap()];
    let launch = Launch {
        arguments: arguments.into_iter().map(Into::into).collect(),
        log: Some(log.clone()),
        ..Launch::of("all-in-one")
    };
    let server = Server::launch(&folder.path().join("data"), &launch).await;
    let server = server.unwrap();
    let mut log = Log::of(&log);
    assert_eq!(listed(&server).await, ["mine/invert"]);

    // One file more is one model more, which is listed and runs.
    let second = catalog.join("mine/second.toml");
    put(&second, MODEL);
    log.next(READ_AGAIN).await;
    assert_eq!(listed(&server).await, ["mine/invert", "mine/second"]);
    assert!(inverts(&server, "mine/second").await);

    // Files that are wrong in each of the three ways are told with file, line and reason, and every model stays and runs.
    let graph = catalog.join("mine/invert.graph.json");
    let schema = catalog.join("mine/invert.schema.json");
    for (file, from, to, told) in [
        (
            &second,
            "node = \"3\"",
            "node = \"2\"",
            "mine/second.toml:5: node 2 (ImageInvert) makes no outputs",
        ),
        (
            &graph,
            "ImageInvert",
            "Unheard",
            "mine/invert.graph.json:3: node 2",
        ),
        (
            &schema,
            "\"inline\"",
            "\"other\"",
            "mine/invert.toml:7: the schema has no property `inline`",
        ),
    ] {
        let right = fs::read_to_string(file).unwrap();
        put(file, &right.replace(from, to));
        let refused = log.next(REFUSED).await;
        assert_eq!(refused["level"], "ERROR", "{refused}");
        assert!(refused.to_string().contains(told), "{refused}");
        assert_eq!(listed(&server).await, ["mine/invert", "mine/second"]);
        for model in ["mine/invert", "mine/second"] {
            assert!(inverts(&server, model).await, "{model} after {told}");
        }
        put(file, &right);
        log.next(READ_AGAIN).await;
    }
    assert!(server.terminate().await.unwrap().success());
}
