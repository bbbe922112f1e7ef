//! Sign-in sessions over restarts: what a browser's cookie stands for is in the store and in no process.

use std::path::Path;

use it::{Request, Server, operate};
use serde_json::json;

/// Credentials are asked for, and tokens are accepted.
const ARGUMENTS: [&str; 3] = [
    "--token",
    "the-token-of-this-test",
    "--jwt-secret=a secret of more than 32 bytes, for tests alone",
];

async fn command(data: &Path, arguments: &[&str]) -> String {
    let done = operate(data, arguments).await;
    assert_eq!(done.code, 0, "{arguments:?}: {}", done.stderr);
    done.stdout.trim_end().to_owned()
}

/// Signs in with a credential; the cookie as a browser sends it.
async fn sign_in(server: &Server, key: &str) -> String {
    let answer = super::post(server, "/api/session", &json!({ "key": key })).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    let cookie = answer.header("set-cookie").unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// The status of a request that shows nothing but the cookie.
async fn status(server: &Server, method: &'static str, path: &str, cookie: &str) -> u16 {
    let request = Request::new(method, path).header("Cookie", cookie);
    server.send(&request).await.unwrap().status
}

async fn queue(server: &Server, cookie: &str) -> u16 {
    status(server, "GET", "/api/queue", cookie).await
}

/// Whether any file of the installation holds a text.
fn is_at_rest(data: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(data).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    // The ballast has no rows and many bytes.
    let holds_rows = |path: &std::path::PathBuf| path.is_file() && !path.ends_with("ballast");
    files.filter(holds_rows).any(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    })
}

#[tokio::test]
async fn a_browser_stays_signed_in_over_restarts_until_its_session_ends() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path();
    let start = async || Server::start_with(path, ARGUMENTS).await.unwrap();
    let server = start().await;
    command(path, &["account", "add", "acme"]).await;
    command(path, &["account", "add", "gone"]).await;
    let key = command(path, &["key", "add", "acme"]).await;
    let revoked = command(path, &["key", "add", "acme"]).await;
    let of_gone = command(path, &["key", "add", "gone"]).await;
    let issue = ["token", "issue", "--workspace", "acme", ARGUMENTS[2]];
    let jwt = command(path, &issue).await;

    let kept = [
        sign_in(&server, &key).await,
        sign_in(&server, &jwt).await,
        sign_in(&server, ARGUMENTS[1]).await,
    ];
    let signed_out = sign_in(&server, &key).await;
    let of_revoked = sign_in(&server, &revoked).await;
    let of_suspended = sign_in(&server, &of_gone).await;
    for cookie in kept.iter().chain([&signed_out, &of_revoked, &of_suspended]) {
        assert_eq!(queue(&server, cookie).await, 200);
        let token = cookie.split_once('=').unwrap().1;
        assert!(!is_at_rest(path, token), "a browser's token is in no file");
    }
    assert!(!is_at_rest(path, jwt.rsplit_once('.').unwrap().1));
    assert_eq!(
        status(&server, "DELETE", "/api/session", &signed_out).await,
        204
    );

    // A crash and an orderly end.
    server.kill().await.unwrap();
    let server = start().await;
    for cookie in &kept {
        assert_eq!(queue(&server, cookie).await, 200, "after a crash");
    }
    assert_eq!(queue(&server, &signed_out).await, 401);
    let id = revoked.split('_').nth(1).unwrap();
    command(path, &["key", "revoke", id]).await;
    command(path, &["account", "suspend", "gone"]).await;
    command(path, &["account", "resume", "gone"]).await;
    assert_eq!(queue(&server, &of_revoked).await, 401, "its key is revoked");
    assert_eq!(
        queue(&server, &of_suspended).await,
        401,
        "a suspension ends sessions for good"
    );
    assert!(server.terminate().await.unwrap().success());

    let server = start().await;
    for cookie in &kept {
        assert_eq!(queue(&server, cookie).await, 200, "after a restart");
    }
    for cookie in [&signed_out, &of_revoked, &of_suspended] {
        assert_eq!(queue(&server, cookie).await, 401);
    }
    server.terminate().await.unwrap();

    // Another secret and another token: what they verified before counts no more.
    let changed = [
        "--token",
        "another-token-of-this-test",
        "--jwt-secret=another secret of more than 32 bytes, for tests",
    ];
    let server = Server::start_with(path, changed).await.unwrap();
    let seen = [
        queue(&server, &kept[0]).await,
        queue(&server, &kept[1]).await,
        queue(&server, &kept[2]).await,
    ];
    assert_eq!(seen, [200, 401, 401]);
}
