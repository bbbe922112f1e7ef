//! The folder of a catalog is read again while the router runs.

use std::fs;

use it::partners::{Outcome, Partner, Plan, Step};
use it::{Log, Request};

use super::*;

/// The model that comes and goes.
const ADDED: &str = "bfl/second";

const READ_AGAIN: &str = "the catalog changed and was read again";
const REFUSED: &str = "the changed catalog is refused; the one before stays";

async fn listed(rig: &Rig) -> Vec<String> {
    let page = rig.get("/v1/models?limit=100").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.json();
    assert_eq!(page["has_more"], false);
    let entries = page["data"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_folder_is_read_again_and_a_broken_one_changes_nothing() {
    let rig = Rig::start().await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let before = listed(&rig).await;
    assert!(!before.iter().any(|id| id == ADDED));
    assert_eq!(rig.call(ADDED, &prompt("a")).await.status, 404);

    // A file added is a model that is listed and can be called.
    let shipped = root().join("crates/providers/catalog/bfl/flux-2-pro.toml");
    let model = fs::read_to_string(shipped).unwrap();
    let file = rig.folder.path().join("catalog/bfl/second.toml");
    fs::write(&file, &model).unwrap();
    log.next(READ_AGAIN).await;
    let with_added = listed(&rig).await;
    let mut expected = before.clone();
    expected.push(ADDED.to_owned());
    expected.sort_unstable();
    assert_eq!(with_added, expected);
    let answer = rig.call(ADDED, &prompt("a")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);

    // A broken file is told with file, line and reason, and the catalog before stays, the changed model too.
    fs::write(&file, format!("# Two lines more\nsurprise = 1\n{model}")).unwrap();
    let refused = log.next(REFUSED).await;
    assert_eq!(refused["level"], "ERROR", "{refused}");
    let text = refused.to_string();
    assert!(text.contains("bfl/second.toml:2: "), "{text}");
    assert!(text.contains("unknown field `surprise`"), "{text}");
    assert_eq!(listed(&rig).await, with_added);
    let answer = rig.call(ADDED, &prompt("b")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    // A file removed is a model that is listed no more; a client that knows it may still call it.
    fs::remove_file(&file).unwrap();
    log.next(READ_AGAIN).await;
    assert_eq!(listed(&rig).await, before);
    let answer = rig.call(ADDED, &prompt("c")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 3);
}

#[tokio::test]
async fn a_call_under_way_outlives_its_model() {
    let rig = Rig::start().await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let shipped = root().join("crates/providers/catalog/bfl/flux-2-pro.toml");
    let file = rig.folder.path().join("catalog/bfl/second.toml");
    fs::copy(shipped, &file).unwrap();
    log.next(READ_AGAIN).await;

    rig.partners.plan(Partner::Bfl, Plan::held());
    let mut connection = it::Connection::open(rig.server().address).await.unwrap();
    let call = call_of("acme", ADDED, &prompt("a"));
    let bytes = call.bytes(rig.server().address);
    connection.write(&bytes).await.unwrap();
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;

    fs::remove_file(&file).unwrap();
    log.next(READ_AGAIN).await;
    assert!(!listed(&rig).await.iter().any(|id| id == ADDED));
    let before = rig.partners.requests_of(Partner::Bfl, Step::Poll).len();
    rig.partners
        .seen(Partner::Bfl, Step::Poll, before + 1)
        .await;
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    let answer = connection.answer(false).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn a_model_and_a_partner_are_switched_off_and_on_while_the_server_runs() {
    let mut rig = Rig::start().await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let before = listed(&rig).await;
    let catalog = rig.folder.path().join("catalog");
    let switch = async |rig: &Rig, state: &str, name: &str| {
        let words = [
            "catalog",
            state,
            name,
            "--catalog",
            catalog.to_str().unwrap(),
        ];
        super::limits::operate(rig, &words).await
    };
    // What runs goes on, also over a restart.
    rig.partners.plan(Partner::Bfl, Plan::held());
    let call = call_of("acme", POLLED, &prompt("a")).header("Idempotency-Key", "k");
    let mut connection = it::Connection::open(rig.server().address).await.unwrap();
    let bytes = call.bytes(rig.server().address);
    connection.write(&bytes).await.unwrap();
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;

    let said = switch(&rig, "off", POLLED).await;
    assert!(
        said.starts_with("bfl/flux-2-pro is switched off;"),
        "{said}"
    );
    log.next(READ_AGAIN).await;
    let mut rest = before.clone();
    rest.retain(|id| id != POLLED);
    assert_eq!(listed(&rig).await, rest);
    let detail = "the model is switched off for now; use another model, or try again later";
    let answer = rig.call(POLLED, &prompt("b")).await;
    assert_error(&answer, 503, "service_unavailable", detail, &[]);
    assert_eq!(rig.get(&path_of(POLLED)).await.status, 503);
    assert_eq!(rig.submits(Partner::Bfl), 1);

    switch(&rig, "off", "fal-sync").await;
    log.next(READ_AGAIN).await;
    let answer = rig.call(AT_ONCE, &prompt("b")).await;
    assert_error(&answer, 503, "service_unavailable", detail, &[]);

    rig.kill().await;
    drop(connection);
    rig.begin().await;
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    assert_eq!(rig.call(AT_ONCE, &prompt("b")).await.status, 503);
    let mut log = Log::of(&rig.folder.path().join("log"));
    for name in [POLLED, "fal-sync/*"] {
        switch(&rig, "on", name).await;
    }
    while listed(&rig).await != before {
        log.next(READ_AGAIN).await;
    }
    let picked_up = rig.send(call).await;
    assert_eq!(picked_up.status, 200, "{}", picked_up.text());
    assert_eq!(rig.call(AT_ONCE, &prompt("b")).await.status, 200);
    assert_eq!(rig.submits(Partner::Bfl), 1);
}

#[tokio::test]
async fn what_a_partner_lacks_is_told_to_its_operator_alone() {
    let rig = Rig::start().await;
    let words = ["key", "add", "acme", "--scopes", "router:run,admin"];
    let key = super::limits::operate(&rig, &words).await;
    let bearer = format!("Bearer {}", key.trim_end());
    let path = path_of("luma/ray-2");
    let asked = Request::post_json(&path, &prompt("a")).header("Authorization", &bearer);
    let detail = "the model is not offered because LUMAAI_API_KEY is not set; give the server the partner's credential and start it again";
    assert_error(&rig.send(asked).await, 404, "model_not_found", detail, &[]);
    let plain = rig.call("luma/ray-2", &prompt("a")).await;
    assert_eq!(plain.status, 404);
    assert!(!plain.text().contains("LUMAAI"), "{}", plain.text());
}
