//! SIGHUP while calls run: none is lost, and partners' credentials and limits change.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use it::partners::{Outcome, Partner, Plan, Step};
use it::{Connection, Log, Request};

use super::*;

const READ_AGAIN: &str = "the configuration was read again";
const REFUSED: &str = "the configuration is refused; the one before stays in force";

/// How often the configuration is read again while calls run.
const RELOADS: usize = 20;

/// A rig whose router has a configuration file, and the partner's key in a file.
async fn rig(config: &str, key: &str) -> Rig {
    let mut rig = Rig::with(&[], &[]).await;
    rig.end().await;
    fs::remove_file(rig.folder.path().join("log")).unwrap();
    fs::write(rig.folder.path().join("easel.toml"), config).unwrap();
    fs::write(rig.folder.path().join("bfl.key"), key).unwrap();
    let file = |name: &str| rig.folder.path().join(name).to_str().unwrap().to_owned();
    let (config, key) = (file("easel.toml"), file("bfl.key"));
    rig.launch
        .arguments
        .extend(["--config".into(), config.into()]);
    rig.launch
        .variables
        .retain(|(name, _)| name != "BFL_API_KEY");
    rig.launch
        .variables
        .push(("BFL_API_KEY_FILE".to_owned(), key));
    rig.begin().await;
    rig
}

fn put(rig: &Rig, name: &str, text: &str) {
    fs::write(rig.folder.path().join(name), text).unwrap();
}

#[tokio::test]
async fn calls_that_run_while_the_configuration_is_read_again_are_all_answered() {
    let secret = Partner::Bfl.secret();
    let mut rig = rig("rate_windows = \"100000/24h\"\n", &secret).await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let address = rig.server().address;

    // Held at the partner from before the first reading until after the last.
    rig.partners.plan(Partner::Bfl, Plan::held());
    let mut held = Connection::open(address).await.unwrap();
    let bytes = call_of("acme", POLLED, &prompt("held")).bytes(address);
    held.write(&bytes).await.unwrap();
    rig.partners.seen(Partner::Bfl, Step::Poll, 1).await;

    let done = Arc::new(AtomicBool::new(false));
    let clients = (0..4).map(|client| {
        let done = Arc::clone(&done);
        tokio::spawn(async move {
            let mut answered = 0;
            while !done.load(Ordering::Relaxed) {
                let body = prompt(&format!("{client} {answered}"));
                let answer = call_of("acme", AT_ONCE, &body).send(address).await.unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
                answered += 1;
            }
            answered
        })
    });
    let clients: Vec<_> = clients.collect();
    for reload in 0..RELOADS {
        // Calls are under way between any two of them.
        rig.partners
            .seen(Partner::FalSync, Step::Submit, 4 * (reload + 1))
            .await;
        put(
            &rig,
            "easel.toml",
            &format!("rate_windows = \"{}/24h\"\n", 100_001 + reload),
        );
        rig.server().hang_up().await.unwrap();
        let told = log.next(READ_AGAIN).await;
        assert_eq!(told["changed"], "rate_windows", "{told}");
    }
    done.store(true, Ordering::Relaxed);
    let mut answered = 0;
    for client in clients {
        answered += client.await.unwrap();
    }
    let task = rig.partners.tasks(Partner::Bfl).remove(0);
    rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    let answer = held.answer(false).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), 1);
    assert_eq!(rig.submits(Partner::FalSync), answered);
    assert_eq!(rig.record().await.len(), answered + 1);
}

#[tokio::test]
async fn a_partner_gets_the_credential_that_its_file_has_since() {
    let mut rig = rig("", "a key that was revoked\n").await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    let refused = rig.call(POLLED, &prompt("a")).await;
    assert_eq!(refused.status, 503, "{}", refused.text());

    put(&rig, "bfl.key", &format!("{}\n", Partner::Bfl.secret()));
    rig.server().hang_up().await.unwrap();
    let told = log.next(READ_AGAIN).await;
    assert_eq!(told["changed"], "", "{told}");
    let answer = rig.call(POLLED, &prompt("b")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    // A file that is gone leaves the partner without a credential, as at a start: its models are listed no more.
    let is_listed = async |rig: &Rig| {
        let page = rig.get("/v1/models?limit=100").await;
        page.text().contains(&format!("\"{POLLED}\""))
    };
    assert!(is_listed(&rig).await);
    fs::remove_file(rig.folder.path().join("bfl.key")).unwrap();
    rig.server().hang_up().await.unwrap();
    let told = log
        .next("the file that BFL_API_KEY_FILE names cannot be read")
        .await;
    assert_eq!(told["level"], "WARN");
    log.next(READ_AGAIN).await;
    assert!(!is_listed(&rig).await);
    assert!(!rig.log().contains(&Partner::Bfl.secret()));
    rig.end().await;
}

#[tokio::test]
async fn limits_of_accounts_and_the_catalog_change_together_or_not_at_all() {
    let secret = Partner::Bfl.secret();
    let rig = rig("rate_windows = \"1/24h\"\n", &secret).await;
    let mut log = Log::of(&rig.folder.path().join("log"));
    assert_eq!(rig.call(AT_ONCE, &prompt("a")).await.status, 200);
    assert_eq!(rig.call(AT_ONCE, &prompt("b")).await.status, 429);

    // A broken file of the catalog refuses the whole of it.
    let broken = rig.folder.path().join("catalog/bfl/broken.toml");
    fs::write(&broken, "surprise = 1\n").unwrap();
    put(&rig, "easel.toml", "rate_windows = \"1000/24h\"\n");
    rig.server().hang_up().await.unwrap();
    let told = log.next(REFUSED).await;
    assert!(
        told["reason"]
            .as_str()
            .unwrap()
            .contains("bfl/broken.toml:1: "),
        "{told}"
    );
    assert_eq!(rig.call(AT_ONCE, &prompt("c")).await.status, 429);

    fs::remove_file(&broken).unwrap();
    rig.server().hang_up().await.unwrap();
    log.next(READ_AGAIN).await;
    assert_eq!(rig.call(AT_ONCE, &prompt("d")).await.status, 200);
    let text = rig.send(Request::get("/metrics")).await.text();
    for line in [
        "easel_config_reloads_total{result=\"succeeded\"} 1",
        "easel_config_reloads_total{result=\"refused\"} 1",
        "easel_config_last_reload_successful 1",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
