//! Socket activation and notification, with the variables that systemd sets and without systemd itself.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use it::Request;
use tokio::net::UnixDatagram;
use tokio::process::Command;

use super::{SERVERS, Started, ask, refusal, serve};

/// Becomes a server to which the socket at standard input was passed as the first one.
const PASS_ON: &str = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";

/// The command that serves on this socket.
fn activated(package: &str, data: &Path, socket: OwnedFd) -> Command {
    let command = serve(package, data, "systemd");
    let command = command.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", PASS_ON]).arg(command.get_program());
    shell.args(command.get_args()).kill_on_drop(true);
    shell.stdin(Stdio::from(socket));
    shell
}

#[tokio::test]
async fn every_server_serves_on_a_tcp_socket_that_it_is_passed() {
    let folder = tempfile::tempdir().unwrap();
    for package in SERVERS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let data = folder.path().join(package);
        let mut command = activated(package, &data, listener.into());
        let server = Started::wait_for(&mut command).await.unwrap();
        let ready = Request::get("/ready").send(address).await.unwrap();
        assert_eq!(ready.status, 200, "{package}: {}", ready.text());
        server.terminate().await;
    }
}

#[tokio::test]
async fn a_unix_socket_that_is_passed_stays_when_the_server_ends() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("easel.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = activated("router-server", folder.path(), listener.into());
    let server = Started::wait_for(&mut command).await.unwrap();
    assert_eq!(ask(&socket, "/health", "Host: localhost\r\n").await.0, 200);
    server.terminate().await;
    assert!(socket.exists(), "it is not the server's to remove");
}

#[tokio::test]
async fn a_socket_on_every_network_needs_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let command = activated("workflow-server", folder.path(), listener.into());
    let (code, text) = refusal(command).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("EASEL_TOKEN"), "{text}");
}

#[tokio::test]
async fn without_a_socket_it_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    for package in SERVERS {
        let (code, text) = refusal(serve(package, folder.path(), "systemd")).await;
        assert_eq!(code, Some(1), "{text}");
        let says = ["ListenStream", "--listen", "systemd passed 0 sockets"];
        assert!(says.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[tokio::test]
async fn systemd_hears_when_a_server_is_ready_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = serve("all-in-one", &folder.path().join("data"), "127.0.0.1:0");
    command.env("NOTIFY_SOCKET", &path);
    let server = Started::wait_for(&mut command).await.unwrap();
    let mut bytes = [0; 64];
    let read = socket.recv(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..read], b"READY=1");
    server.terminate().await;
    let read = socket.recv(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..read], b"STOPPING=1");
}
