//! `--listen unix:PATH`: who may open the socket, what is answered on it, and what becomes of its file.

use std::os::unix::fs::PermissionsExt;

use super::{SERVERS, Started, ask, refusal, serve};

const LOCAL: &str = "Host: localhost\r\n";

#[tokio::test]
async fn every_server_listens_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    for package in SERVERS {
        let socket = folder.path().join("easel.sock");
        let listen = format!("unix:{}", socket.display());
        let data = folder.path().join(package);
        let mut command = serve(package, &data, &listen);
        let server = Started::wait_for(&mut command).await.unwrap();
        assert!(server.welcome.contains(&listen), "{}", server.welcome);
        let mode = socket.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660, "{package}");
        for (path, headers, status) in [
            ("/health", LOCAL, 200),
            ("/ready", LOCAL, 200),
            // What speaks there may be a proxy that passes strangers on.
            ("/metrics", LOCAL, 401),
            ("/health", "", 400),
        ] {
            let (answered, text) = ask(&socket, path, headers).await;
            assert_eq!(answered, status, "{package} {path}: {text}");
        }
        server.terminate().await;
        assert!(!socket.exists(), "{package} removes its socket");
    }
}

#[tokio::test]
async fn a_page_under_another_name_is_refused_where_no_credential_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("easel.sock");
    let listen = format!("unix:{}", socket.display());
    let mut command = serve("workflow-server", &folder.path().join("data"), &listen);
    let _server = Started::wait_for(&mut command).await.unwrap();
    let (status, text) = ask(&socket, "/api/v2/jobs", "Host: rebound.example\r\n").await;
    assert_eq!(status, 403, "{text}");
    let (status, text) = ask(&socket, "/api/v2/jobs", LOCAL).await;
    assert_eq!(status, 200, "{text}");
}

#[tokio::test]
async fn a_socket_of_a_killed_server_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("easel.sock");
    let listen = format!("unix:{}", socket.display());
    let server = |name: &str| serve("router-server", &folder.path().join(name), &listen);
    let mut command = server("a");
    command.args(["--listen-mode", "600"]);
    let mut first = Started::wait_for(&mut command).await.unwrap();
    let mode = socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (code, text) = refusal(server("b")).await;
    assert_eq!(code, Some(1), "{text}");
    let named = text.contains(socket.to_str().unwrap());
    assert!(
        named && text.contains("another server listens on it"),
        "{text}"
    );
    assert!(!folder.path().join("b").exists(), "nothing was left behind");
    assert_eq!(ask(&socket, "/health", LOCAL).await.0, 200);

    first.child.kill().await.unwrap();
    assert!(socket.exists(), "a killed server removes nothing");
    let second = Started::wait_for(&mut server("a")).await.unwrap();
    assert_eq!(ask(&socket, "/health", LOCAL).await.0, 200);
    second.terminate().await;
}
