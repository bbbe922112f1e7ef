//! Commands over a socket and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use accounts::{AccountId, KeyHash, MemoryAccounts};
use asset_store::MemoryRecords;
use futures_util::FutureExt;
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Opening};
use super::wire::{Answer, Problem, Reply, Request};
use super::*;

fn ports(store: &Arc<MemoryAccounts>) -> AdminPorts {
    AdminPorts {
        accounts: store.clone(),
        admin: store.clone(),
        records: Some(Arc::new(MemoryRecords::new())),
        sweeps: Arc::new(MemoryRecords::new()),
        workers: None,
    }
}

/// A server of nothing but commands.
struct Server {
    root: TempDir,
    store: Arc<MemoryAccounts>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    fn start() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (store, stop) = (Arc::new(MemoryAccounts::new()), CancellationToken::new());
        let socket = AdminSocket::bind(root.path()).expect("a socket");
        let task = tokio::spawn(socket.serve(ports(&store), stop.clone()));
        Self {
            root,
            store,
            stop,
            task,
        }
    }

    async fn ask(&self, request: Request) -> Result<Answer, Problem> {
        let asked = socket::ask(self.root.path(), &request).await;
        match asked.expect("the server answers").expect("it listens") {
            Reply::Done(answer) => Ok(answer),
            Reply::Refused(problem) => Err(problem),
        }
    }

    /// Sends bytes as they are; what comes back.
    async fn say(&self, bytes: &[u8]) -> String {
        let path = self.root.path().join("admin.sock");
        let mut stream = UnixStream::connect(path).await.expect("it listens");
        stream.write_all(bytes).await.expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("it answers");
        answer
    }
}

fn add(id: &str) -> Request {
    Request::AddAccount {
        id: id.to_owned(),
        changes: Vec::new(),
    }
}

fn add_key(account: &str, id: &str, hash: KeyHash) -> Request {
    Request::AddKey {
        account: account.to_owned(),
        id: id.to_owned(),
        hash: *hash.as_bytes(),
        name: None,
        scopes: "jobs:read".to_owned(),
        expires_in_s: None,
    }
}

fn look(id: &str) -> Request {
    Request::Account { id: id.to_owned() }
}

#[tokio::test]
async fn a_key_counts_from_its_adding_to_its_revocation() {
    let server = Server::start();
    let hash = KeyHash::of("a credential");
    let now = Timestamp::now();
    server.ask(add("acme")).await.expect("it is new");
    server
        .ask(add_key("acme", "aaaaaaaa", hash))
        .await
        .expect("it is new");
    let principal = server
        .store
        .by_key(&hash, now)
        .await
        .expect("memory answers");
    assert_eq!(principal.expect("it counts").account.as_str(), "acme");
    let id = "aaaaaaaa".to_owned();
    server
        .ask(Request::RevokeKey { id })
        .await
        .expect("it is there");
    let principal = server.store.by_key(&hash, now).await;
    assert_eq!(principal.expect("memory answers"), None);
}

#[tokio::test]
async fn what_cannot_be_done_is_told_with_what_to_do() {
    let server = Server::start();
    server.ask(add("acme")).await.expect("it is new");
    let again = server.ask(add("acme")).await.expect_err("it is there");
    assert!(again.usage && again.taken, "{again:?}");
    let problem = server.ask(look("nobody")).await.expect_err("nobody");
    assert!(
        problem.usage && problem.message.contains("account list"),
        "{problem:?}"
    );
    let problem = server.ask(look("No Name")).await.expect_err("no id");
    assert!(problem.message.contains("a-z"), "{problem:?}");
    let key = add_key("nobody", "aaaaaaaa", KeyHash::of("x"));
    let problem = server.ask(key).await.expect_err("nobody");
    assert!(problem.message.contains("no account nobody"), "{problem:?}");
    let held = Request::HoldAsset {
        id: "not an id".to_owned(),
        held: true,
    };
    let problem = server.ask(held).await.expect_err("no id");
    assert!(problem.message.contains("UUID"), "{problem:?}");
}

#[tokio::test]
async fn the_socket_is_the_users_alone_and_goes_with_the_server() {
    let server = Server::start();
    let path = server.root.path().join("admin.sock");
    let mode = fs::metadata(&path)
        .expect("the socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    server.stop.cancel();
    server.task.await.expect("it ends");
    assert!(!path.exists());
    let asked = socket::ask(server.root.path(), &look("local")).await;
    assert!(asked.expect("no failure").is_none(), "nobody listens");
}

#[tokio::test]
async fn what_a_killed_server_left_is_replaced() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("admin.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let asked = socket::ask(root.path(), &look("local")).await;
    assert!(asked.expect("no failure").is_none(), "nobody listens");
    AdminSocket::bind(root.path()).expect("it is replaced");
}

#[tokio::test]
async fn a_long_path_is_gone_round() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let deep = root.path().join("d".repeat(120));
    fs::create_dir(&deep).expect("a directory");
    let (store, stop) = (Arc::new(MemoryAccounts::new()), CancellationToken::new());
    let socket = AdminSocket::bind(&deep).expect("a socket");
    let task = tokio::spawn(socket.serve(ports(&store), stop.clone()));
    let asked = socket::ask(&deep, &add("acme")).await.expect("an answer");
    assert!(
        matches!(asked, Some(Reply::Done(Answer::Done))),
        "{asked:?}"
    );
    stop.cancel();
    task.await.expect("it ends");
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_harms_nobody() {
    let server = Server::start();
    let unknown = server.say(b"{\"drop_everything\":{}}\n").await;
    assert!(unknown.contains("does not know"), "{unknown}");
    assert_eq!(server.say(&vec![b'x'; 200 * 1024][..128 * 1024]).await, "");
    server.ask(add("acme")).await.expect("it still answers");
}

fn client<'a>(data_dir: &Path, open: &'a mut dyn FnMut() -> Opening) -> Client<'a> {
    Client {
        data_dir: data_dir.to_owned(),
        open,
        ports: None,
    }
}

#[tokio::test]
async fn without_a_server_the_installation_is_opened_once() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let (store, mut opened) = (Arc::new(MemoryAccounts::new()), 0);
    let mut open = || {
        opened += 1;
        let opened = Ok(ports(&store));
        async move { opened }.boxed()
    };
    let mut client = client(root.path(), &mut open);
    client
        .ask(add("acme"))
        .await
        .expect("it is asked")
        .expect("it is new");
    client
        .ask(look("local"))
        .await
        .expect("it is asked")
        .expect("it is there");
    assert_eq!(opened, 1);
    let local = store.by_id(&AccountId::local()).await;
    assert!(local.expect("memory answers").is_some());
}

#[tokio::test]
async fn a_server_that_only_begins_is_waited_for() {
    let server = Server::start();
    let (named, hidden): (PathBuf, PathBuf) = (
        server.root.path().join("admin.sock"),
        server.root.path().join("later"),
    );
    fs::rename(&named, &hidden).expect("it has a name");
    let mut open = || {
        // It has the installation already, and listens a moment later.
        fs::rename(&hidden, &named).expect("it has another name");
        let failure = Failure {
            exit_code: 1,
            message: "in use".to_owned(),
        };
        async move { Err(Unopened::InUse(failure)) }.boxed()
    };
    let mut client = client(server.root.path(), &mut open);
    client
        .ask(add("acme"))
        .await
        .expect("it is asked")
        .expect("it is new");
}
