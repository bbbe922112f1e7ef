//! Signing in, keys, and `doctor`.

use std::os::unix::fs::PermissionsExt;

use it::{Launch, operate};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::*;

const TOKEN: &str = "a-token-of-the-operator";

/// A server that accepts nobody without a credential.
async fn closed() -> (Server, TempDir) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(data.path(), ["--token", TOKEN]).await;
    (server.unwrap(), data)
}

/// Signs in with a key on standard input.
async fn sign_in(user: &User, address: &str, key: &str) -> Ran {
    let mut command = user.command(["login", address, "--key-stdin"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(key.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test]
async fn a_key_is_kept_for_its_server_alone_and_readable_by_nobody_else() {
    let (server, _data) = closed().await;
    let address = format!("http://{}", server.address);
    let user = User::new();
    let ran = sign_in(&user, &address, &format!("{TOKEN}\n")).await;
    assert_eq!(
        (ran.code, ran.out),
        (0, format!("signed in to {address}\n")),
        "{}",
        ran.err
    );
    let file = user.path("home/.config/easel/credentials.json");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let folder = std::fs::metadata(file.parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    user.json("jobs", &["jobs"]).await;

    // Another server gets no key.
    let (other, _other_data) = closed().await;
    let there = format!("http://{}", other.address);
    let (code, error) = user.error(&["jobs", "--server", &there]).await;
    assert_eq!((code, &error["status"]), (3, &json!(401)));
    assert_eq!(
        error["hint"],
        "sign in with `easel login`, or set EASEL_API_KEY"
    );

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = user.run(&["jobs"]).await;
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("chmod 600") && !ran.err.contains(TOKEN),
        "{}",
        ran.err
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();

    assert_eq!(
        user.json("logout", &["logout"]).await,
        json!({"server": address})
    );
    let (code, _) = user.error(&["jobs", "--server", &address]).await;
    assert_eq!(code, 3);
    let (code, error) = user.error(&["logout", &address]).await;
    assert_eq!((code, &error["kind"]), (4, &json!("not_found")));
}

#[tokio::test]
async fn a_wrong_key_is_told_and_not_kept() {
    let (server, _data) = closed().await;
    let user = User::new();
    let address = format!("http://{}", server.address);
    let ran = sign_in(&user, &address, "a-wrong-key").await;
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("does not accept this key"), "{}", ran.err);
    assert!(!ran.err.contains("a-wrong-key"), "{}", ran.err);
    assert!(!user.path("home/.config/easel/credentials.json").exists());
    let ran = sign_in(&user, &address, "\n").await;
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[tokio::test]
async fn without_a_terminal_nothing_is_asked() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let ran = user.run(&["login"]).await;
    assert_eq!(ran.code, 2);
    golden(
        "login_without_a_terminal.txt",
        &masked(&ran.err, &user, &server),
    );
    let told = user.json("login", &["login", "--no-key"]).await;
    let expected = json!({"server": format!("http://{}", server.address), "has_key": false,
        "workflows": "granted", "models": "refused"});
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_key_of_the_environment_wins_and_is_in_no_output() {
    let (server, data) = closed().await;
    let added = operate(data.path(), ["account", "add", "acme"]).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    let reader = operate(
        data.path(),
        ["key", "add", "acme", "--scopes", "assets:read"],
    )
    .await;
    let reader = reader.stdout.trim().to_owned();
    let user = User::of(&server).with("EASEL_API_KEY", &reader);
    // Known, and not allowed to do this.
    let (code, error) = user.error(&["jobs"]).await;
    assert_eq!((code, &error["code"]), (3, &json!("forbidden")));
    let ran = user.run(&["doctor"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!format!("{ran:?}").contains(&reader));
}

#[tokio::test]
async fn doctor_says_what_works_and_what_does_not() {
    let (server, _data) = server().await;
    let user = User::of(&server);
    let ran = user.run(&["doctor"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    golden("doctor.txt", &masked(&ran.out, &user, &server));
    let user = user.with("EASEL_API_KEY", &token(&server));
    let checks = user.json("doctor", &["doctor"]).await;
    let models = checks["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["check"] == "models");
    assert_eq!(models.unwrap()["state"], "good");

    let (server, _data) = closed().await;
    let user = User::of(&server);
    let ran = user.run(&["doctor"]).await;
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("BAD   workflows"), "{}", ran.out);

    // A port that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = User::at(&address).run(&["doctor"]).await;
    assert_eq!(ran.code, 6, "{}{}", ran.out, ran.err);
}

#[tokio::test]
async fn a_router_alone_runs_no_workflows() {
    let data = tempfile::tempdir().unwrap();
    let router = Launch {
        arguments: vec!["--token".into(), TOKEN.into()],
        ..Launch::of("router-server")
    };
    let router = Server::launch(data.path(), &router).await.unwrap();
    let user = User::of(&router).with("EASEL_API_KEY", TOKEN);
    user.json("models", &["models"]).await;
    let ran = user.run(&["doctor"]).await;
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.out.contains("does not offer the v2 workflow API"),
        "{}",
        ran.out
    );
    let workflows = tempfile::tempdir().unwrap();
    let server = Server::launch(workflows.path(), &Launch::of("workflow-server")).await;
    let server = server.unwrap();
    let user = User::of(&server).with("EASEL_API_KEY", TOKEN);
    let (code, error) = user.error(&["models"]).await;
    assert_eq!(
        (code, &error["kind"]),
        (8, &json!("not_offered")),
        "{error:#}"
    );
}
