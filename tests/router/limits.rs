//! What operators change counts at the next request, and what holds where they set nothing.

use it::partners::Plan;
use tokio::process::Command;

use super::*;

/// Runs a command on the installation of a running server.
pub(super) async fn operate(rig: &Rig, words: &[&str]) -> String {
    let output = Command::new(it::process::binary_of("router-server"))
        .args(words)
        .arg("--data-dir")
        .arg(rig.data())
        .output()
        .await
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn a_suspension_and_a_switch_count_at_once() {
    let rig = Rig::start().await;
    for (words, status) in [
        (["account", "suspend", "acme"].as_slice(), 401),
        (&["account", "resume", "acme"], 200),
        (&["account", "router", "acme", "off"], 403),
        (&["account", "router", "acme", "on"], 200),
    ] {
        operate(&rig, words).await;
        assert_eq!(rig.get("/v1/models").await.status, status, "{words:?}");
    }
}

#[tokio::test]
async fn a_key_is_printed_alone_and_counts_until_it_is_revoked() {
    let rig = Rig::start().await;
    let key = operate(&rig, &["key", "add", "acme"]).await;
    let key = key.strip_suffix('\n').unwrap();
    let request = || Request::get("/v1/models").header("Authorization", &format!("Bearer {key}"));
    assert_eq!(rig.send(request()).await.status, 200);
    let id = key.split('_').nth(1).unwrap();
    operate(&rig, &["key", "revoke", id]).await;
    assert_eq!(rig.send(request()).await.status, 401);
}

#[tokio::test]
async fn a_token_calls_models_if_its_scopes_say_so() {
    let secret = "--jwt-secret=a secret of more than 32 bytes, for tests alone";
    let rig = Rig::with(&[secret], &[]).await;
    for (scopes, status) in [("router:run", 200), ("jobs:read", 403)] {
        let issue = [
            "token",
            "issue",
            "--workspace",
            "acme",
            "--scopes",
            scopes,
            secret,
        ];
        let token = operate(&rig, &issue).await;
        let bearer = format!("Bearer {}", token.trim_end());
        let list = Request::get("/v1/models").header("Authorization", &bearer);
        assert_eq!(rig.send(list).await.status, status, "{scopes}");
        let call = Request::post_json(&path_of(AT_ONCE), &prompt("a"));
        let call = call.header("Authorization", &bearer);
        assert_eq!(rig.send(call).await.status, status, "{scopes}");
    }
    assert_eq!(rig.submits(Partner::FalSync), 1);
}

#[tokio::test]
async fn usage_is_exported_and_totalled_with_and_without_a_server() {
    let mut rig = Rig::start().await;
    for key in ["k", "k"] {
        assert_eq!(rig.keyed(key, AT_ONCE, &prompt("a")).await.status, 200);
    }
    // A call is written down once its answer was delivered, which its caller cannot see: so it is looked for again.
    let both = "acme,fal-sync/flux-schnell,2,2,1,1\n";
    while !operate(&rig, &["usage", "totals"]).await.ends_with(both) {}
    let lines = operate(&rig, &["usage", "export", "--format", "csv"]).await;
    assert_eq!(lines.lines().count(), 1 + 2, "{lines}");
    // The server goes on as if nobody had looked.
    assert_eq!(rig.keyed("k", AT_ONCE, &prompt("a")).await.status, 200);
    rig.end().await;
    let lines = operate(&rig, &["usage", "export"]).await;
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(
        (&rows[0]["replayed"], &rows[0]["began"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (&rows[1]["replayed"], &rows[1]["began"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(rows[0]["generation_id"], rows[1]["generation_id"]);
    assert_eq!(rows[0]["status"], "ok");
    let totals = operate(&rig, &["usage", "totals"]).await;
    assert_eq!(
        totals,
        "workspace,model,calls,succeeded,generations,charge_cents\n\
         acme,fal-sync/flux-schnell,3,3,1,1\n"
    );
}

#[tokio::test]
async fn by_default_five_calls_run_at_a_time_and_a_body_has_32_mib_at_most() {
    let mut rig = Rig::start().await;
    rig.end().await;
    let at = |flag: &str| rig.launch.arguments.iter().position(|it| it == flag);
    let set = at("--concurrent-calls").unwrap();
    rig.launch.arguments.drain(set..set + 2);
    rig.begin().await;

    let shown = operate(&rig, &["config", "show"]).await;
    assert!(
        shown.contains("\ndeadline = \"10m\"  # default\n"),
        "{shown}"
    );

    let call = call_of("acme", POLLED, &prompt("a"));
    let bytes = call.bytes(rig.server().address);
    let mut held = Vec::new();
    for _ in 0..5 {
        rig.partners.plan(Partner::Bfl, Plan::held());
        let mut connection = it::Connection::open(rig.server().address).await.unwrap();
        connection.write(&bytes).await.unwrap();
        held.push(connection);
    }
    rig.partners.seen(Partner::Bfl, Step::Submit, 5).await;
    let sixth = rig.send(call).await;
    assert_eq!(sixth.status, 429);
    let bucket = sixth.header("x-service-error-type");
    assert_eq!(bucket, Some("concurrency_limit_exceeded"));
    drop(held);

    let large = Request::new("POST", &path_of(AT_ONCE)).body(vec![b' '; (32 << 20) + 1]);
    let refused = rig.send(of("acme", large)).await;
    let detail = "the body is larger than 33554432 bytes";
    assert_error(&refused, 413, "invalid_input", detail, &[]);
}

#[tokio::test]
async fn looks_at_the_record_count_and_need_the_switch() {
    let windows = accounts::RateWindow::read_list("3/366d").unwrap();
    let slow = ("slow", vec![AccountChange::RateWindows(Some(windows))]);
    let off = ("off", vec![AccountChange::Router(false)]);
    let rig = Rig::with(&[], &[slow, off]).await;
    let unknown = format!("/v1/generations/{}", Uuid::nil());
    let looks = ["/v1/calls", "/v1/usage", &unknown];
    for (path, status) in looks.into_iter().zip([200, 200, 404]) {
        let looked = rig.send(of("slow", Request::get(path))).await;
        assert_eq!(looked.status, status, "{path}: {}", looked.text());
    }
    for path in looks {
        let late = rig.send(of("slow", Request::get(path))).await;
        assert_eq!(late.status, 429, "{path}: {}", late.text());
        assert!(late.header("retry-after").is_some());
        let closed = rig.send(of("off", Request::get(path))).await;
        let bucket = closed.header("x-service-error-type");
        assert_eq!((closed.status, bucket), (403, Some("not_enabled")));
    }
}

#[tokio::test]
async fn a_page_of_calls_is_as_long_as_one_of_models() {
    let rig = Rig::start().await;
    for (limit, length) in [
        ("", 20),
        ("?limit=0", 20),
        ("?limit=-1", 20),
        ("?limit=7", 7),
        ("?limit=101", 100),
        ("?limit=999999999999999999999999", 100),
    ] {
        let page = rig.get(&format!("/v1/calls{limit}")).await;
        assert_eq!(page.status, 200, "{limit}: {}", page.text());
        assert_eq!(page.json()["limit"], length, "{limit}");
    }
    assert_eq!(rig.get("/v1/calls?limit=").await.status, 400);
}
