//! Commands over a socket and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use accounts::{AccountId, KeyHash, MemoryAccounts};
use admin_http::wire::{Answer, Problem, ProblemKind, Reply, Request};
use asset_store::{LinkKeys, MemoryRecords};
use futures_util::FutureExt;
use installation::InstallationError;
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Opening};
use super::*;
use crate::config::{CloudPlace, InstallationPlace};

fn ports(store: &Arc<MemoryAccounts>) -> AdminPorts {
    AdminPorts {
        accounts: store.clone(),
        admin: store.clone(),
        records: Some(Arc::new(MemoryRecords::new())),
        sweeps: Arc::new(MemoryRecords::new()),
        workers: None,
        jobs: None,
        deployments: None,
        models: None,
        catalog: None,
        webhooks: webhook_admin(),
        settings: None,
    }
}

/// Webhooks in memory, with secrets that follow from nothing secret.
pub(crate) fn webhook_admin() -> WebhookAdmin {
    WebhookAdmin {
        webhooks: Arc::new(::webhooks::MemoryWebhooks::default()),
        keys: Arc::new(NoKeys),
        private_hosts: None,
    }
}

struct NoKeys;

#[async_trait::async_trait]
impl SigningKeys for NoKeys {
    async fn link_keys(&self) -> Result<LinkKeys, InstallationError> {
        Ok(LinkKeys::new(vec![(1, [1; 32])]))
    }

    async fn rotate_link_keys(&self) -> Result<(), InstallationError> {
        Ok(())
    }

    async fn installation_secret(&self) -> Result<[u8; 32], InstallationError> {
        Ok([1; 32])
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
    assert_eq!(again.kind, ProblemKind::Taken, "{again:?}");
    let problem = server.ask(look("nobody")).await.expect_err("nobody");
    assert!(
        problem.kind == ProblemKind::Absent && problem.message.contains("account list"),
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
async fn a_reference_grants_once_and_another_amount_is_refused() {
    let server = Server::start();
    server.ask(add("acme")).await.expect("it is new");
    let grant = async |reference: &str, cents| {
        let request = Request::Grant {
            account: "acme".to_owned(),
            reference: reference.to_owned(),
            cents,
        };
        server.ask(request).await.map(|answer| {
            let Answer::Credits(credits) = answer else {
                panic!("{answer:?}");
            };
            credits.balance_cents
        })
    };
    let first = "0198c0de-0000-7000-8000-000000000001";
    let second = "0198c0de-0000-7000-8000-000000000002";
    assert_eq!(grant(first, 500).await, Ok(500));
    assert_eq!(grant(first, 500).await, Ok(500), "a repeat");
    let refused = grant(first, 700).await.expect_err("another amount");
    assert_eq!(refused.kind, ProblemKind::Conflict);
    assert!(refused.message.contains("500 cents"), "{refused:?}");
    assert_eq!(grant(second, 700).await, Ok(1_200));
    let refused = grant("mine", 1).await.expect_err("no UUID");
    assert_eq!(refused.kind, ProblemKind::Invalid);
}

#[tokio::test]
async fn lists_come_in_pages_that_meet() {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        server.ask(add(id)).await.expect("it is new");
    }
    let (mut ids, mut after) = (Vec::new(), None);
    for _ in 0..4 {
        let limit = Some(1);
        let page = server.ask(Request::Accounts { after, limit }).await;
        let Answer::Accounts(page) = page.expect("a page") else {
            panic!("no page of accounts");
        };
        ids.extend(page.accounts.into_iter().map(|account| account.id));
        after = page.next_cursor;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["a", "b", "c"]);

    let texts = ["x", "y", "z"];
    for (id, text) in ["aaaaaaaa", "bbbbbbbb", "cccccccc"].iter().zip(texts) {
        let key = add_key("a", id, KeyHash::of(text));
        server.ask(key).await.expect("it is new");
    }
    let again = server.ask(add_key("a", "aaaaaaaa", KeyHash::of("x"))).await;
    assert!(
        matches!(again, Ok(Answer::Key(_))),
        "a repeat is the same key"
    );
    let other = server.ask(add_key("a", "aaaaaaaa", KeyHash::of("w"))).await;
    assert_eq!(other.expect_err("taken").kind, ProblemKind::Taken);
    let keys = |after: Option<&str>| Request::Keys {
        account: "a".to_owned(),
        after: after.map(str::to_owned),
        limit: Some(2),
    };
    let page = async |after| {
        let Ok(Answer::Keys(page)) = server.ask(keys(after)).await else {
            panic!("no page of keys");
        };
        let ids: Vec<_> = page.keys.into_iter().map(|key| key.id).collect();
        (ids.join(" "), page.next_cursor)
    };
    let first = ("aaaaaaaa bbbbbbbb".to_owned(), Some("bbbbbbbb".to_owned()));
    assert_eq!(page(None).await, first);
    assert_eq!(page(Some("bbbbbbbb")).await, ("cccccccc".to_owned(), None));
    let refused = server.ask(keys(Some("zzzzzzzz"))).await;
    assert_eq!(refused.expect_err("no key").kind, ProblemKind::Invalid);
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
async fn a_directory_has_the_socket_of_one_replica() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let place = InstallationPlace {
        data_dir: root.path().to_owned(),
        cloud: Some(CloudPlace {
            database: "postgres://me@db/name".into(),
            bucket: "s3://pictures".to_owned(),
            connections: CloudPlace::CONNECTIONS,
        }),
    };
    let first = AdminSocket::bind_at(&place).expect("nobody has it");
    let refused = AdminSocket::bind_at(&place).expect_err("it is taken");
    assert!(refused.to_string().contains("one of its own"), "{refused}");
    drop(first);
    AdminSocket::bind_at(&place).expect("it is free again");
}

#[tokio::test]
async fn a_directory_that_is_missing_is_made_for_its_user_alone() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let missing = root.path().join("a/b");
    let socket = AdminSocket::bind(&missing).expect("a socket");
    let mode = fs::metadata(&missing).expect("it was made").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    drop(socket);
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
        matches!(asked, Some(Reply::Done(Answer::Account(_)))),
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
        remote: None,
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
