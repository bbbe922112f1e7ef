//! The credentials of partners and callers are in no log, row or answer.

use std::path::Path;

use it::partners::{Fault, Outcome, Partner, Plan, Step};

use super::*;

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[tokio::test]
async fn credentials_are_nowhere() {
    let mut rig = Rig::start().await;
    let mut answers = Vec::new();
    for outcome in [
        Outcome::Succeed,
        Outcome::Fail,
        Outcome::Moderate,
        Outcome::RefuseInput,
        Outcome::RefuseFunds,
    ] {
        rig.partners.plan(Partner::Bfl, Plan::of(outcome));
        let key = format!("key of a caller {outcome:?}");
        answers.push(rig.keyed(&key, POLLED, &prompt("a")).await);
        answers.push(rig.keyed(&key, POLLED, &prompt("a")).await);
    }
    // A partner that tells what it was sent.
    let secret = Partner::FalSync.secret();
    let echo = format!(r#"{{"detail":"you sent Key {secret}"}}"#).into_bytes();
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    for status in [400, 401, 422, 500] {
        let fault = Fault::Answer(status, headers.clone(), echo.clone());
        rig.partners.fault(Partner::FalSync, Step::Submit, fault);
        answers.push(rig.call(AT_ONCE, &prompt("a")).await);
    }
    let metrics = rig.send(Request::get("/metrics")).await;
    assert!(
        metrics
            .text()
            .contains("easel_router_calls_total{model=\"bfl/flux-2-pro\",bucket=\"ok\"}")
    );
    answers.push(metrics);
    rig.end().await;

    let caller = key_named("acme");
    let secrets = [
        Partner::Bfl.secret(),
        secret,
        caller.text.expose_secret().to_owned(),
        "key of a caller".to_owned(),
    ];
    let mut everywhere: Vec<(String, Vec<u8>)> = answers
        .iter()
        .map(|answer| ("an answer".to_owned(), format!("{answer:?}").into_bytes()))
        .chain(
            answers
                .iter()
                .map(|answer| ("a body".to_owned(), answer.body.clone())),
        )
        .collect();
    let mut found = vec![rig.folder.path().join("log")];
    files(&rig.data(), &mut found);
    for path in found {
        let content = std::fs::read(&path).unwrap();
        everywhere.push((path.display().to_string(), content));
    }
    assert!(rig.log().contains("request answered"));
    for (place, content) in everywhere {
        for secret in &secrets {
            let held = content
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!held, "{place} holds a secret");
        }
    }
}
