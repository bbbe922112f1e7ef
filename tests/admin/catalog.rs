//! The catalog in the hands of operators: listed as it is served, and read again when they ask.

use std::fs;

use it::{Launch, operate};
use serde_json::Value;

use super::{Operated, command};

/// The state of a model in the answer.
fn state(catalog: &Value, id: &str) -> Option<String> {
    let models = catalog["models"].as_array().unwrap();
    let model = models.iter().find(|model| model["id"] == id)?;
    Some(model["state"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_operator_lists_the_catalog_and_has_it_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = folder.path().join("catalog");
    fs::create_dir_all(catalog.join("mine")).unwrap();
    let launch = Launch {
        arguments: vec!["--catalog".into(), catalog.clone().into()],
        variables: vec![("BFL_API_KEY".to_owned(), "a key of this test".to_owned())],
        ..Launch::of("router-server")
    };
    fs::remove_dir(catalog.join("mine")).unwrap();
    let it = Operated::launch(folder, launch).await;
    let listed = it.done("GET", "/catalog", Value::Null).await;
    assert_eq!(state(&listed, "bfl/flux-2-pro").as_deref(), Some("offered"));
    let lacking = listed["models"].as_array().unwrap().iter();
    let lacking = lacking.filter(|model| model["state"] == "no_credentials");
    assert!(lacking.count() > 10, "{listed:#}");
    assert!(!listed.to_string().contains("a key of this test"));

    let data = it.data.path().join("data");
    let shown = command(&data, &["catalog", "list", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), listed);
    let table = command(&data, &["catalog", "list"]).await;
    let line = |id: &str| table.lines().find(|line| line.starts_with(id)).unwrap();
    assert!(line("bfl/flux-2-pro ").ends_with(" offered"), "{table}");
    assert!(line("fal/").contains("FAL_KEY"), "{table}");

    fs::create_dir(catalog.join("broken")).unwrap();
    fs::write(catalog.join("broken/partner.toml"), "name = 1\n").unwrap();
    let refused = it.ask("POST", "/catalog/reload", Value::Null).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let faults = refused.json()["error"]["details"]["faults"].clone();
    assert!(
        faults[0].as_str().unwrap().contains("partner.toml"),
        "{faults}"
    );
    assert_eq!(it.done("GET", "/catalog", Value::Null).await, listed);
    let refused = operate(&data, ["catalog", "reload"]).await;
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("partner.toml"),
        "{}",
        refused.stderr
    );

    fs::remove_dir_all(catalog.join("broken")).unwrap();
    fs::write(
        catalog.join("switches.toml"),
        "off = [\"bfl/flux-2-pro\"]\n",
    )
    .unwrap();
    let read = it.done("POST", "/catalog/reload", Value::Null).await;
    assert_eq!(
        state(&read, "bfl/flux-2-pro").as_deref(),
        Some("switched_off")
    );
    assert_eq!(it.done("GET", "/catalog", Value::Null).await, read);
    fs::remove_file(catalog.join("switches.toml")).unwrap();
    let key = it.data.path().join("key");
    fs::write(&key, &it.key).unwrap();
    let server = format!("http://{}", it.server.address);
    let there = ["--server", &server, "--admin-key-file"];
    let nowhere = it.data.path().join("nowhere");
    for (word, out) in [("reload", ""), ("list", "bfl/flux-2-pro")] {
        let words = ["catalog", word].into_iter().chain(there);
        let done = operate(&nowhere, words.chain([key.to_str().unwrap()])).await;
        assert_eq!(done.code, 0, "{word}: {}", done.stderr);
        assert!(done.stdout.contains(out), "{word}: {}", done.stdout);
    }
    assert_eq!(it.done("GET", "/catalog", Value::Null).await, listed);
}

#[tokio::test]
async fn without_a_server_of_partner_models_no_catalog_is_listed() {
    let it = Operated::start("workflow-server").await;
    let data = it.data.path().join("data");
    let refused = operate(&data, ["catalog", "list"]).await;
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("no catalog is served here"),
        "{}",
        refused.stderr
    );
}
