//! What platforms expect of a server: Unix sockets, sockets that systemd passes on, word of how far the server is, a configuration that
//! is read again, and an end that costs no client its request.

mod leaving;
mod reload;
mod sockets;
mod systemd;

use std::io;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// The programs that serve.
const SERVERS: [&str; 3] = ["all-in-one", "router-server", "workflow-server"];

/// A server whose listener a test chose; killed when dropped.
struct Started {
    child: Child,
    welcome: String,
}

/// The command that serves from `data` and listens there.
fn serve(package: &str, data: &Path, listen: &str) -> Command {
    let mut command = Command::new(it::process::binary_of(package));
    command.args(["serve", "--log-format", "json", "--listen", listen]);
    command.arg("--data-dir").arg(data);
    if package != "router-server" {
        command.args(["--min-free", "0B"]);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

impl Started {
    /// Starts a server and reads what it says until it serves.
    async fn wait_for(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines();
        let mut welcome = String::new();
        while !welcome.contains("Ctrl-C") {
            let Some(line) = lines.next_line().await? else {
                let status = child.wait().await?;
                return Err(io::Error::other(format!("the server ended: {status}")));
            };
            welcome.push_str(&line);
            welcome.push('\n');
        }
        Ok(Self { child, welcome })
    }

    /// Asks it to end, and waits until it has.
    async fn terminate(self) {
        signal(&self.child, "TERM").await;
        self.ended().await;
    }

    /// Waits until it has ended well.
    async fn ended(mut self) {
        assert!(self.child.wait().await.unwrap().success());
    }
}

/// Sends a signal to a process.
async fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status().await;
    assert!(sent.unwrap().success());
}

/// Sends a request to a Unix socket; the status and the whole answer.
async fn ask(socket: &Path, path: &str, headers: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Runs a server that must not start: its exit code and what it said.
async fn refusal(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}
