//! A server that is asked to end: its clients connect anew elsewhere, and none of them loses a request for it.

use std::net::SocketAddr;
use std::time::Duration;

use it::http::{Answer, Connection, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{SERVERS, Started, serve, signal};

/// Longer than any of it takes: reached only when the server hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many clients of each kind there are.
const CLIENTS: usize = 8;

/// How long a server goes on to accept that is asked to end: clients notice within one request.
const DELAY: &str = "5s";

/// What a client does with its connection after an answer.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// It sends the next request on it.
    Keeps,
    /// It connects anew.
    Connects,
}

/// Where the welcome says that the server listens.
fn address(server: &Started) -> SocketAddr {
    let text = server.welcome.split("http://").nth(1).unwrap();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    text[..end.unwrap_or(text.len())].parse().unwrap()
}

fn closes(answer: &Answer) -> bool {
    let connection = answer.header("connection").unwrap_or_default();
    connection.eq_ignore_ascii_case("close")
}

/// Asks again and again until an answer ends the connection. Every request must be answered; how many were.
async fn ask(client: Client, address: SocketAddr, path: &str, asked: watch::Sender<usize>) {
    let request = Request::get(path).bytes(address);
    let mut connection = Connection::open(address).await.unwrap();
    loop {
        let answer = connection.send(&request).await.unwrap();
        assert_eq!(answer.status, 200, "{client:?}: {}", answer.text());
        asked.send_modify(|count| *count += 1);
        if closes(&answer) {
            return;
        }
        if matches!(client, Client::Connects) {
            connection = Connection::open(address).await.unwrap();
        }
    }
}

#[tokio::test]
async fn clients_of_a_server_that_leaves_connect_elsewhere_and_no_request_fails() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = "/api/v2/jobs?limit=1";
    for (package, path) in SERVERS.iter().zip([jobs, "/health", jobs]) {
        let mut command = serve(package, &folder.path().join(package), "127.0.0.1:0");
        command.args(["--drain-delay", DELAY]);
        let server = Started::wait_for(&mut command).await.unwrap();
        let address = address(&server);
        let mut clients = JoinSet::new();
        let mut counts = Vec::new();
        for number in 0..2 * CLIENTS {
            let client = [Client::Keeps, Client::Connects][number % 2];
            let (asked, count) = watch::channel(0);
            counts.push(count);
            clients.spawn(ask(client, address, path, asked));
        }
        for count in &mut counts {
            count.wait_for(|count| *count >= 3).await.unwrap();
        }
        signal(&server.child, "TERM").await;
        let moved = timeout(PATIENCE, clients.join_all()).await;
        moved.expect("every client is told to connect anew");
        server.ended().await;
    }
}

#[tokio::test]
async fn who_waits_to_be_accepted_when_the_signal_comes_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    for package in SERVERS {
        let mut command = serve(package, &folder.path().join(package), "127.0.0.1:0");
        let server = Started::wait_for(&mut command).await.unwrap();
        let address = address(&server);
        // The process sleeps, so it is the system alone that they have connected to.
        signal(&server.child, "STOP").await;
        let request = Request::get("/health").bytes(address);
        let mut waiting = Vec::new();
        for _ in 0..64 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&request).await.unwrap();
            waiting.push(Connection::over(stream).unwrap());
        }
        signal(&server.child, "TERM").await;
        signal(&server.child, "CONT").await;
        for connection in &mut waiting {
            let answer = connection.answer(false).await.unwrap();
            assert_eq!(answer.status, 200, "{package}");
        }
        server.ended().await;
    }
}
