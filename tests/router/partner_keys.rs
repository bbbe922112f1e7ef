//! Several keys of one partner: which one a call gets, and what becomes of a key that the partner refuses.

use std::collections::BTreeSet;

use it::partners::{Fault, Outcome, Plan, Recorded};

use super::durability::send_and_leave;
use super::*;

/// A model that others serve, too, and whose partner is given a fifth of a second.
const HASTY: &str = "hasty/flux-schnell";

/// A router that has a second key of a partner.
async fn rig_with_second_key(key: &str, weight: &str) -> Rig {
    let mut rig = Rig::start().await;
    rig.end().await;
    rig.launch.variables.extend([
        ("BFL_API_KEY_2".to_owned(), key.to_owned()),
        ("BFL_API_KEY_2_WEIGHT".to_owned(), weight.to_owned()),
    ]);
    rig.begin().await;
    rig
}

fn key_of(request: &Recorded) -> String {
    let mut headers = request.headers.iter();
    let key = headers.find(|(name, _)| name == "x-key");
    key.expect("the partner is shown a key").1.clone()
}

#[tokio::test]
async fn calls_are_spread_and_a_task_is_asked_after_with_its_own_key() {
    let rig = rig_with_second_key(&Partner::Bfl.second_secret(), "1").await;
    const CALLS: usize = 30;
    for _ in 0..CALLS {
        let answer = rig.call(POLLED, &prompt("a")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let submissions = rig.partners.requests_of(Partner::Bfl, Step::Submit);
    let keys: BTreeSet<String> = submissions.iter().map(key_of).collect();
    assert_eq!(keys.len(), 2, "thirty calls and one key");

    let tasks = rig.partners.tasks(Partner::Bfl);
    assert_eq!(tasks.len(), CALLS);
    let looks = rig.partners.requests_of(Partner::Bfl, Step::Poll);
    for (task, submission) in tasks.iter().zip(&submissions) {
        let mut of_task = looks
            .iter()
            .filter(|look| look.target.ends_with(&format!("id={task}")));
        assert!(of_task.clone().count() > 0, "{task} was asked after");
        assert!(of_task.all(|look| key_of(look) == key_of(submission)));
    }
}

#[tokio::test]
async fn a_retry_after_a_kill_asks_after_the_task_with_its_own_key() {
    let second = Partner::Bfl.second_secret();
    // Nearly every call gets the second key.
    let mut rig = rig_with_second_key(&second, "1000").await;
    let mut key = 0;
    let (call, connection, task) = loop {
        rig.partners.plan(Partner::Bfl, Plan::held());
        key += 1;
        let call = call_of("acme", POLLED, &prompt("a"));
        let call = call.header("Idempotency-Key", &format!("k{key}"));
        let looks = rig.partners.requests_of(Partner::Bfl, Step::Poll).len();
        let connection = send_and_leave(&rig, &call).await;
        // The task is asked after only once its handle is on disk.
        rig.partners.seen(Partner::Bfl, Step::Poll, looks + 1).await;
        let submissions = rig.partners.requests_of(Partner::Bfl, Step::Submit);
        let task = rig.partners.tasks(Partner::Bfl).pop().unwrap();
        if key_of(submissions.last().unwrap()) == second {
            break (call, connection, task);
        }
        rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    };
    let before = rig.partners.requests_of(Partner::Bfl, Step::Poll).len();
    rig.kill().await;
    drop(connection);
    rig.begin().await;
    let ending = async {
        rig.partners
            .seen(Partner::Bfl, Step::Poll, before + 2)
            .await;
        rig.partners.end(Partner::Bfl, &task, Outcome::Succeed);
    };
    let (answer, ()) = tokio::join!(rig.send(call), ending);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(rig.submits(Partner::Bfl), key);
    let looks = rig.partners.requests_of(Partner::Bfl, Step::Poll);
    let mut of_task = looks
        .iter()
        .filter(|look| look.target.ends_with(&format!("id={task}")));
    assert!(of_task.all(|look| key_of(look) == second), "{looks:?}");
}

#[tokio::test]
async fn a_key_that_is_refused_pauses_and_the_others_serve() {
    let rig = rig_with_second_key("no key of this partner", "1000").await;
    // The wrong key has a thousand times the weight of the right one.
    let mut refused = rig.call(POLLED, &prompt("a")).await;
    while refused.status == 200 {
        refused = rig.call(POLLED, &prompt("a")).await;
    }
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert_error(&refused, 503, "service_unavailable", &detail, &[]);
    for _ in 0..3 {
        assert_eq!(rig.call(POLLED, &prompt("a")).await.status, 200);
    }
    let metrics = rig.send(Request::get("/metrics")).await.text();
    for line in [
        r#"easel_partner_breaker{partner="bfl",key="1",state="closed"} 1"#,
        r#"easel_partner_breaker{partner="bfl",key="2",state="open"} 1"#,
        r#"easel_partner_breaker{partner="bfl",key="2",state="closed"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let log = rig.log();
    assert!(log.contains("the key of the partner pauses"), "{log}");
    assert!(!log.contains("no key of this partner"), "{log}");
}

#[tokio::test]
async fn keys_of_a_catalog_that_names_files_are_in_files_with_numbers() {
    let mut rig = Rig::start().await;
    rig.end().await;
    let key = rig.folder.path().join("key of bfl");
    let definition = rig.folder.path().join("catalog/bfl/partner.toml");
    let text = std::fs::read_to_string(&definition).unwrap();
    let in_file = text.replace(
        r#"{ env = "BFL_API_KEY" }"#,
        &format!("{{ file = {:?} }}", key.to_str().unwrap()),
    );
    assert_ne!(text, in_file);
    std::fs::write(&definition, in_file).unwrap();
    rig.launch.variables.retain(|one| one.0 != "BFL_API_KEY");
    std::fs::write(&key, Partner::Bfl.secret() + "\n").unwrap();
    let second = rig.folder.path().join("key of bfl_2");
    std::fs::write(second, Partner::Bfl.second_secret() + "\n").unwrap();
    rig.begin().await;
    for _ in 0..30 {
        assert_eq!(rig.call(POLLED, &prompt("a")).await.status, 200);
    }
    let submissions = rig.partners.requests_of(Partner::Bfl, Step::Submit);
    let keys: BTreeSet<String> = submissions.iter().map(key_of).collect();
    let both = [Partner::Bfl.secret(), Partner::Bfl.second_secret()];
    assert_eq!(keys, BTreeSet::from(both));
}

#[tokio::test]
async fn a_partner_that_only_fails_is_left_alone_for_a_while_and_others_serve_at_once() {
    let together = Partner::all().find(|partner| partner.prefix() == "together");
    let together = together.unwrap();
    let mut rig = Rig::start().await;
    rig.end().await;
    let key = ("TOGETHER_API_KEY".to_owned(), together.secret());
    rig.launch.variables.push(key);
    rig.begin().await;
    // The partner has a fifth of a second for each call, and takes it.
    let mut calls = 0;
    let refused = loop {
        rig.partners
            .fault(Partner::FalQueue, Step::Submit, Fault::Stall);
        let answer = rig.call(HASTY, &prompt("a")).await;
        if answer.status == 503 {
            break answer;
        }
        assert_eq!(answer.status, 504, "{}", answer.text());
        calls += 1;
    };
    assert!(calls >= 20, "{calls} calls in ten seconds at least");
    assert_eq!(rig.submits(Partner::FalQueue), calls);
    // The next provider is asked at once, and nothing is sent to the first. This comes first: the breaker is open for five seconds.
    let path = format!("{}?fallback_provider=together", path_of(HASTY));
    let call = of("acme", Request::post_json(&path, &prompt("a")));
    let answer = rig.send(call).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let served = answer.header("x-service-router-fallback-provider");
    assert_eq!(served, Some("together"));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    let told = "the provider does not answer as it should; try again in ";
    assert!(detail.starts_with(told), "{detail}");
    assert_error(&refused, 503, "service_unavailable", &detail, &[]);
    assert!(rig.log().contains("the key of the partner pauses"));
    let metrics = rig.send(Request::get("/metrics")).await.text();
    let line = r#"easel_partner_breaker{partner="hasty",key="1",state="closed"} 0"#;
    assert!(metrics.contains(line), "{line} in {metrics}");

    assert_eq!(rig.submits(Partner::FalQueue), calls);
    assert_eq!(rig.submits(together), 1);
    let record = rig.record().await;
    let generation = record.last().unwrap().generation.as_ref().unwrap();
    let failed = &generation.serving.as_ref().unwrap().failed;
    assert_eq!((failed.len(), generation.charge_cents), (1, Some(1)));
}

#[tokio::test]
async fn a_weight_that_is_none_is_told_at_start() {
    let mut rig = Rig::start().await;
    rig.end().await;
    let wrong = ("BFL_API_KEY_2_WEIGHT".to_owned(), "half".to_owned());
    let key = ("BFL_API_KEY_2".to_owned(), Partner::Bfl.second_secret());
    rig.launch.variables.extend([wrong, key]);
    let started = Server::launch(&rig.data(), &rig.launch).await;
    let told = started.expect_err("it does not start").to_string() + &rig.log();
    let reason = "BFL_API_KEY_2_WEIGHT is `half`; a weight is a whole number from 1 to 1000";
    assert!(told.contains(reason), "{told}");
}
