//! A configuration that is read again by SIGHUP, in each server.

use std::fs;
use std::path::PathBuf;

use it::pty::Terminal;
use it::{Answer, Launch, Log, Request, Server, operate};
use serde_json::Value;
use tokio::net::UnixDatagram;
use tokio::process::Command;

use super::{SERVERS, Started, serve, signal};

const READ_AGAIN: &str = "the configuration was read again";
const REFUSED: &str = "the configuration is refused; the one before stays in force";
const WAITING: &str = "changed settings wait for a restart";

/// A server over a configuration file, and its log.
struct Rig {
    folder: tempfile::TempDir,
    server: Server,
    log: Log,
}

impl Rig {
    async fn start(package: &'static str, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, log) = (folder.path().join("easel.toml"), folder.path().join("log"));
        fs::write(&file, config).unwrap();
        let launch = Launch {
            arguments: vec!["--config".into(), file.into()],
            log: Some(log.clone()),
            ..Launch::of(package)
        };
        let server = Server::launch(&folder.path().join("data"), &launch).await;
        Self {
            server: server.unwrap(),
            log: Log::of(&log),
            folder,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Replaces the file and asks for it to be read.
    async fn put(&self, config: &str) {
        fs::write(self.folder.path().join("easel.toml"), config).unwrap();
        self.server.hang_up().await.unwrap();
    }

    async fn ask(&self, path: &str, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let request = Request::get(path).header("Authorization", &bearer);
        self.server.send(&request).await.unwrap()
    }

    async fn notes(&self) -> Value {
        let ready = self.server.send(&Request::get("/ready")).await.unwrap();
        assert_eq!(ready.status, 200, "{}", ready.text());
        ready.json()["notes"].clone()
    }

    fn whole_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

/// What only a request with a credential may see.
fn path_of(package: &str) -> &'static str {
    match package {
        "router-server" => "/v1/models",
        _ => "/api/v2/jobs",
    }
}

#[tokio::test]
async fn every_server_takes_the_token_that_its_file_has_since() {
    for package in SERVERS {
        let path = path_of(package);
        let mut rig = Rig::start(package, "token = \"the-first-token-of-it\"\n").await;
        assert_eq!(
            rig.ask(path, "the-first-token-of-it").await.status,
            200,
            "{package}"
        );

        rig.put("token = \"the-second-token-of-it\"\n").await;
        let told = rig.log.next(READ_AGAIN).await;
        assert_eq!(told["changed"], "token", "{told}");
        assert_eq!(
            rig.ask(path, "the-first-token-of-it").await.status,
            401,
            "{package}"
        );
        assert_eq!(
            rig.ask(path, "the-second-token-of-it").await.status,
            200,
            "{package}"
        );
        assert!(!rig.whole_log().contains("-token"), "{package}");
        assert!(rig.server.terminate().await.unwrap().success());
    }
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_and_is_told_with_its_line() {
    let good = "token = \"the-first-token-of-it\"\nlog_level = \"info\"\n";
    let mut rig = Rig::start("workflow-server", good).await;
    for (config, told) in [
        (
            "token = \"another-token-of-it\"\nlog_levle = \"debug\"\n",
            "line 2: unknown key `log_levle`",
        ),
        (
            "token = \"another-token-of-it\"\n\nqueue_total = \"many\"\n",
            "line 3",
        ),
        (
            "token = \"another-token-of-it\"\nqueue_total = [\n",
            "line 2: unclosed",
        ),
        (
            "token = \"another-token-of-it\"\nrole = \"api\"\n",
            "`role` cannot be api",
        ),
        (
            "token = \"another-token-of-it\"\njwt_keys = \"/nowhere\"\n",
            "the file of keys /nowhere",
        ),
    ] {
        rig.put(config).await;
        let refused = rig.log.next(REFUSED).await;
        assert_eq!(refused["level"], "ERROR");
        assert!(
            refused["reason"].as_str().unwrap().contains(told),
            "{refused}"
        );
        assert_eq!(
            rig.ask("/api/v2/jobs", "the-first-token-of-it")
                .await
                .status,
            200
        );
        assert_eq!(
            rig.ask("/api/v2/jobs", "another-token-of-it").await.status,
            401
        );
        let notes = rig.notes().await.to_string();
        assert!(
            notes.contains("the changed configuration is refused"),
            "{notes}"
        );
        let successful = rig.server.metric("easel_config_last_reload_successful");
        assert_eq!(successful.await.unwrap(), 0.0);
    }
    rig.put(good).await;
    rig.log.next(READ_AGAIN).await;
    assert_eq!(rig.notes().await, Value::Null);
    let successful = rig.server.metric("easel_config_last_reload_successful");
    assert_eq!(successful.await.unwrap(), 1.0);
}

#[tokio::test]
async fn what_needs_a_restart_is_named_until_it_is_taken_back() {
    let mut rig = Rig::start(
        "all-in-one",
        "token = \"the-token-of-this-test\"\nqueue_per_account = 5\n",
    )
    .await;
    let key = operate(&rig.data(), ["key", "add", "local", "--scopes", "admin"]).await;
    let settings = async |rig: &Rig| {
        let answer = rig.ask("/api/v2/admin/settings", key.stdout.trim()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let settings = answer.json()["settings"].clone();
        let settings = settings.as_array().unwrap().clone();
        move |name: &str| {
            let found = settings.iter().find(|setting| setting["name"] == name);
            found.unwrap()["value"].as_str().unwrap().to_owned()
        }
    };
    let before = settings(&rig).await;

    rig.put("token = \"the-token-of-this-test\"\nqueue_per_account = 6\njob_slots = 1\nlisten = \"127.0.0.1:1\"\nlog_level = \"debug\"\n")
        .await;
    let told = rig.log.next(READ_AGAIN).await;
    assert_eq!(told["changed"], "log_level, queue_per_account", "{told}");
    let told = rig.log.next(WAITING).await;
    // A flag of the test says where it listens, which wins over the file.
    assert_eq!(told["settings"], "job_slots", "{told}");
    let now = settings(&rig).await;
    assert_eq!(now("queue_per_account"), "6");
    assert_eq!(now("job_slots"), before("job_slots"));
    let notes = rig.notes().await;
    assert_eq!(notes[0], "changed settings wait for a restart: job_slots");

    // What is logged since: requests are, at `debug`.
    assert_eq!(
        rig.ask("/api/v2/jobs", "the-token-of-this-test")
            .await
            .status,
        200
    );
    assert_eq!(rig.log.next("\"/api/v2/jobs\"").await["level"], "DEBUG");

    // Whether a credential is needed at all cannot change, and so the token stays.
    rig.put("queue_per_account = 5\n").await;
    let told = rig.log.next(WAITING).await;
    assert_eq!(told["settings"], "token", "{told}");
    assert_eq!(rig.ask("/api/v2/jobs", "no").await.status, 401);
    assert_eq!(
        rig.ask("/api/v2/jobs", "the-token-of-this-test")
            .await
            .status,
        200
    );

    rig.put("token = \"the-token-of-this-test\"\n").await;
    let told = rig.log.next(READ_AGAIN).await;
    assert_eq!(told["changed"], "queue_per_account", "{told}");
    assert_eq!(rig.notes().await, Value::Null);
}

#[tokio::test]
async fn systemd_hears_when_a_configuration_is_read_and_when_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = serve("router-server", &folder.path().join("data"), "127.0.0.1:0");
    command.env("NOTIFY_SOCKET", &path);
    let server = Started::wait_for(&mut command).await.unwrap();
    let mut bytes = [0; 64];
    let mut heard = async || {
        let read = socket.recv(&mut bytes).await.unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    };
    assert_eq!(heard().await, "READY=1");
    signal(&server.child, "HUP").await;
    assert_eq!(heard().await, "RELOADING=1");
    assert_eq!(heard().await, "READY=1");
    server.terminate().await;
    assert_eq!(heard().await, "STOPPING=1");
}

#[tokio::test]
async fn a_server_ends_well_when_its_terminal_closes() {
    let folder = tempfile::tempdir().unwrap();
    let command = serve("router-server", &folder.path().join("data"), "127.0.0.1:0");
    let mut terminal = Terminal::start(command).unwrap();
    terminal.wait_for("Ctrl-C").await;
    // While the terminal is open it is a request to read the configuration.
    let id = terminal.pid().to_string();
    let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
    assert!(sent.await.unwrap().success());
    terminal.wait_for(READ_AGAIN).await;
    let status = terminal.close().await.unwrap();
    assert!(status.success(), "{status}");
}
