//! Where credentials go, and where they never do.

use hyper_kit::Host;
use it::partners::{Fault, Partner, Partners, Step};
use providers::{Exchange, Heard, LoadedModel, Settings, Source, load, try_model};
use router_core::{Done, Failure, Ran, Refusal, Submission, Submitted, Timer};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Bench, Clock, environment};

#[tokio::test]
async fn a_redirect_is_never_followed_with_the_credential() {
    let bench = Bench::start().await;
    let elsewhere = Partners::start().await.unwrap();
    let to = format!("{}/v1/get_result?id=x", elsewhere.base_url(Partner::Bfl));
    // Not even to a place where the credential may go.
    let allowed = format!(
        "{}/v1/get_result?id=x",
        bench.partners.base_url(Partner::Bfl)
    );
    for target in [&to, &allowed] {
        let fault = Fault::Redirect(target.clone());
        bench.partners.fault(Partner::Bfl, Step::Submit, fault);
        let failure = bench.submit("bfl/flux-pro-1.1", "{}").await.unwrap_err();
        assert!(
            matches!(
                failure,
                Failure::Failed {
                    ran: Ran::Perhaps,
                    ..
                }
            ),
            "{failure:?}"
        );
    }
    let handle = bench.accepted("bfl/flux-pro-1.1", "{}").await;
    let fault = Fault::Redirect(to);
    bench.partners.fault(Partner::Bfl, Step::Poll, fault);
    assert!(bench.collected("bfl/flux-pro-1.1", &handle).await.is_ok());
    assert!(elsewhere.requests().is_empty());
    assert_eq!(
        bench.partners.requests_of(Partner::Bfl, Step::Poll).len(),
        3
    );
}

#[tokio::test]
async fn an_address_that_a_partner_names_must_be_allowed() {
    let bench = Bench::start().await;
    let elsewhere = Partners::start().await.unwrap();
    for polling_url in [
        format!("{}/v1/get_result?id=x", elsewhere.base_url(Partner::Bfl)),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://api.bfl.ai.evil.test/".to_owned(),
        "https://user@evil.test/".to_owned(),
        "http://api.bfl.ai/v1/get_result".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://api.bfl.ai/".to_owned(),
        "//api.bfl.ai/x".to_owned(),
        "not an address".to_owned(),
    ] {
        let body = json!({"id": "x", "polling_url": polling_url}).to_string();
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let fault = Fault::Answer(200, headers, body.into_bytes());
        bench.partners.fault(Partner::Bfl, Step::Submit, fault);
        let failure = bench.submit("bfl/flux-pro-1.1", "{}").await;
        // The work was taken: it may run, and nobody can ask for it.
        assert!(
            matches!(
                failure,
                Err(Failure::Failed {
                    ran: Ran::Perhaps,
                    ..
                })
            ),
            "{polling_url}: {failure:?}"
        );
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_handle_does_not_lead_a_credential_astray() {
    let bench = Bench::start().await;
    let elsewhere = Partners::start().await.unwrap();
    let handle = bench.accepted("bfl/flux-pro-1.1", "{}").await;
    let text = String::from_utf8(handle.0.to_vec()).unwrap();
    assert!(!text.contains(&Partner::Bfl.secret()));
    let changed = text.replace(
        &bench.partners.base_url(Partner::Bfl),
        &elsewhere.base_url(Partner::Bfl),
    );
    assert_ne!(changed, text);
    let changed = router_core::Handle(changed.into_bytes().into());
    let collected = bench
        .provider("bfl/flux-pro-1.1")
        .collect(&changed, &router_core::Contact::default())
        .await;
    assert!(matches!(collected, Err(Failure::Failed { .. })));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_private_address_needs_an_exemption_of_its_host_and_port() {
    let partners = Partners::start().await.unwrap();
    let clock = Clock::new();
    let timer: Arc<dyn Timer> = clock;
    let folder = tempfile::tempdir().unwrap();
    let port = partners.address().port();
    let write = |base: &str| {
        let partner = format!(
            "name = \"P\"\nbase_url = \"{base}\"\n[auth]\nkind = \"none\"\n\
             [call.x]\nstyle = \"sync\"\nsubmit = {{ path = \"/fal-sync/x\" }}\n"
        );
        let model = "charges_on_policy_rejection = \"no\"\n[price]\nkind = \"fixed\"\ncents = 1\n";
        std::fs::create_dir_all(folder.path().join("p")).unwrap();
        std::fs::write(folder.path().join("p/partner.toml"), partner).unwrap();
        std::fs::write(folder.path().join("p/x.toml"), model).unwrap();
    };
    let source = Source {
        builtin: false,
        folder: Some(folder.path().to_owned()),
    };
    let settings = |exempt: &[String]| {
        let exempt = exempt.iter().map(|host| Host::parse(host).unwrap());
        Settings::new(exempt.collect(), Vec::new(), None, Arc::clone(&timer)).unwrap()
    };
    // By TLS it may be written down, and is still not connected to.
    write(&format!("https://127.0.0.1:{port}"));
    let loaded = load(&source, &settings(&[]), &environment).unwrap();
    let bench = Bench {
        partners,
        loaded,
        clock: Clock::new(),
    };
    let failure = bench.submit("p/x", "{}").await;
    assert!(
        matches!(failure, Err(Failure::Transient { .. })),
        "{failure:?}"
    );
    // Without TLS it is refused where it is written down, unless it is exempted to the letter.
    write(&format!("http://127.0.0.1:{port}"));
    for other in [
        "127.0.0.1".to_owned(),
        format!("localhost:{port}"),
        "127.0.0.1:1".to_owned(),
    ] {
        assert!(load(&source, &settings(&[other]), &environment).is_err());
    }
    assert!(bench.partners.requests().is_empty());
    let exempt = [format!("127.0.0.1:{port}")];
    let loaded = load(&source, &settings(&exempt), &environment).unwrap();
    let bench = Bench { loaded, ..bench };
    // It is asked, and wants a credential that this catalog has not.
    let failure = bench.submit("p/x", "{}").await;
    assert!(
        matches!(
            failure,
            Err(Failure::Account {
                ran: Ran::Nothing,
                ..
            })
        ),
        "{failure:?}"
    );
    assert_eq!(bench.partners.requests().len(), 1);
}

#[tokio::test]
async fn a_partner_that_repeats_the_key_does_not_tell_it_to_callers() {
    let bench = Bench::start().await;
    let key = Partner::FalQueue.secret();
    for (status, body) in [
        (
            422,
            format!(r#"{{"detail":[{{"loc":["body"],"msg":"key {key}","type":"t"}}]}}"#),
        ),
        (400, format!(r#"{{"detail":"your key {key} is fine"}}"#)),
    ] {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let fault = Fault::Answer(status, headers, body.into_bytes());
        bench.partners.fault(Partner::FalSync, Step::Submit, fault);
        let failure = bench.submit("fal-sync/flux-dev", "{}").await;
        let Err(Failure::Refused {
            refusal: Refusal::Content { message, .. },
            ..
        }) = failure
        else {
            panic!("{failure:?}");
        };
        assert!(!message.contains(&key), "{message}");
    }
}

#[tokio::test]
async fn a_trial_shows_what_was_said_with_secrets_masked() {
    let bench = Bench::start().await;
    let key = Partner::Bfl.secret();
    // A partner that shows the key in its answer.
    let headers = vec![("x-seen".to_owned(), key.clone())];
    let fault = Fault::Answer(200, headers, format!("{{\"key\":\"{key}\"}}").into_bytes());
    bench.partners.fault(Partner::Bfl, Step::Poll, fault);
    let submission = bench.submission("bfl/flux-pro-1.1", r#"{"prompt":"a cat"}"#);
    let model = bench.model("bfl/flux-pro-1.1");
    let (heard, outcome) = tried(&bench, model, submission).await;
    assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
    let exchanges: Vec<&Exchange> = heard
        .iter()
        .map(|heard| {
            let Heard::Exchange(exchange) = heard else {
                panic!("{heard:?}");
            };
            exchange
        })
        .collect();
    let steps: Vec<&str> = exchanges.iter().map(|exchange| &*exchange.method).collect();
    assert_eq!(steps, ["POST", "GET", "GET", "GET"]);
    assert_eq!(exchanges[0].body, r#"{"prompt":"a cat"}"#);
    let shown = exchanges[0].headers.iter();
    let mut shown = shown.filter(|(name, _)| name == "x-key");
    assert_eq!(shown.next().unwrap().1, "***");
    assert!(!format!("{heard:?}").contains(&key));
}

#[tokio::test]
async fn a_trial_tells_a_stream_line_by_line_with_secrets_masked() {
    let bench = Bench::start().await;
    let sheet = it::partners::sheets().iter();
    let mut sheet = sheet.filter(|sheet| sheet.name == "anthropic");
    let partner = Partner::of_sheet(sheet.next().unwrap());
    let key = partner.secret();
    // A partner that shows the key, in two pieces, and ends in the middle of a line.
    let text = format!("event: ping\ndata: {key}\n\ndata: {key}");
    let half = text.find(&key).unwrap() + 4;
    let pieces = vec![
        text.as_bytes()[..half].to_vec(),
        text.as_bytes()[half..].to_vec(),
    ];
    let fault = Fault::Pieces(pieces, false);
    bench.partners.fault(partner, Step::Submit, fault);
    let id = "anthropic/claude-haiku-4-5-20251001";
    let body = r#"{"max_tokens":64,"messages":[{"role":"user","content":"Hi"}],"stream":true}"#;
    let submission = bench.submission(id, body);
    let trial = tried(&bench, bench.model(id), submission);
    let mut trial = std::pin::pin!(trial);
    let (heard, _) = loop {
        tokio::select! {
            biased;
            told = &mut trial => break told,
            () = tokio::task::yield_now() => bench.partners.release(),
        }
    };
    assert!(!format!("{heard:?}").contains(&key));
    let [Heard::Stream(head), more @ .., Heard::Ended(Ok(()))] = &heard[..] else {
        panic!("{heard:?}");
    };
    let received = head.outcome.as_ref().unwrap();
    assert!(received.status == 200 && received.body.is_empty());
    let lines: Vec<&[u8]> = more
        .iter()
        .map(|heard| {
            let Heard::More(lines) = heard else {
                panic!("{heard:?}");
            };
            &lines[..]
        })
        .collect();
    assert_eq!(
        lines,
        [&b"event: ping\n"[..], b"data: ***\n\n", b"data: ***"]
    );
}

/// What is heard of a trial, and how it ends.
async fn tried(
    bench: &Bench,
    model: &LoadedModel,
    submission: Submission,
) -> (Vec<Heard>, Option<Result<Done, Failure>>) {
    let timer: Arc<dyn Timer> = Arc::clone(&bench.clock) as Arc<dyn Timer>;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let listener = move |one| told.lock().unwrap().push(one);
    let limit = Duration::from_secs(60);
    let outcome = try_model(model, submission, limit, &timer, listener).await;
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    (heard, outcome)
}

#[tokio::test]
async fn the_generation_is_the_key_towards_a_partner_that_takes_one() {
    let bench = Bench::start().await;
    for (model, partner, header) in [
        (
            "openai/gpt-image-1",
            Partner::OpenaiImages,
            "idempotency-key",
        ),
        ("pixverse/text-to-video", Partner::Pixverse, "ai-trace-id"),
    ] {
        let submission = bench.submission(model, "{}");
        let generation = submission.generation.to_string();
        let submitted = bench.provider(model).submit(submission).await;
        assert!(matches!(
            submitted,
            Ok(Submitted::Done(_) | Submitted::Accepted { .. })
        ));
        let sent = bench.partners.requests_of(partner, Step::Submit);
        assert_eq!(sent[0].header(header), Some(&*generation));
    }
}
