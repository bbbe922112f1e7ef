//! Restarts that nobody notices: two replicas behind nginx, as `deploy/replicas` has it, while they restart in turn, and plain clients,
//! the official one and the web page are at work.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;

use it::{Form, Request, root};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Child;
use tokio::sync::watch;

use super::*;

/// How many restarts there are, of both replicas together, unless [`RESTARTS`] says otherwise.
const FEW: usize = 6;

/// Names a variable with another number of restarts.
const RESTARTS: &str = "EASEL_RESTARTS";

/// What the official client does, again and again. `.ci/run` installs it.
const CLIENT: &str = "EASEL_SDK_0_5_0";

/// How long a replica that was asked to end takes requests. nginx asks one that refused it again after a second.
const DRAIN_DELAY: &str = "2s";

/// nginx with the configuration of `deploy/replicas`, in front of replicas at these addresses.
struct Nginx {
    _process: Child,
    address: SocketAddr,
}

impl Nginx {
    async fn start(folder: &Path, replicas: [SocketAddr; 2]) -> Self {
        let address = free_address();
        let mut site = std::fs::read_to_string(root().join("deploy/replicas/nginx.conf")).unwrap();
        let [one, other] = replicas.map(|replica| format!("server {replica} "));
        let words = [
            ("listen 8189;", format!("listen {address};")),
            ("server api-1:8189 ", one),
            ("server api-2:8189 ", other),
        ];
        for (word, here) in words {
            assert!(site.contains(word), "{word} is in {site}");
            site = site.replace(word, &here);
        }
        std::fs::write(folder.join("site.conf"), site).unwrap();
        let at = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|kind| format!("{kind}_temp_path {at}/nginx-{kind};"));
        // It keeps its user: its folder is for nobody else.
        let is_root = rustix::process::geteuid().is_root();
        let user = if is_root { "user root;" } else { "" };
        let configuration = format!(
            "daemon off; master_process off; {user} pid {at}/nginx.pid; error_log stderr notice;\nevents {{ worker_connections 1024; }}\n\
             http {{ access_log {at}/nginx.log; {} include {at}/site.conf; }}\n",
            temporary.concat()
        );
        std::fs::write(folder.join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder);
        command.arg("-c").arg(folder.join("nginx.conf"));
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("start worker process") && !said.contains("OS: ") {
            let line = in_time(lines.next_line()).await.unwrap();
            said.push_str(&line.unwrap_or_else(|| panic!("nginx ended: {said}")));
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            _process: process,
            address,
        }
    }

    fn is_installed() -> bool {
        let version = std::process::Command::new("nginx").arg("-v").output();
        version.is_ok_and(|version| version.status.success())
    }
}

/// An address that a replica can have again after it ended: outgoing connections, which take ports of their own, do not have such
/// ones.
fn free_address() -> SocketAddr {
    static NEXT: Mutex<u16> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap();
    if *next == 0 {
        let own = std::process::id() % 9_000;
        *next = 20_000 + u16::try_from(own).unwrap();
    }
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *next));
        *next += 1;
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// What the clients behind nginx have in common.
struct Clients<'a> {
    fleet: &'a Fleet,
    nginx: SocketAddr,
    stop: watch::Receiver<bool>,
    /// How many requests were answered as they should be.
    served: watch::Sender<usize>,
    /// Those that were not, in words.
    failed: Mutex<Vec<String>>,
}

impl Clients<'_> {
    /// Sends a request, which has to succeed; `None`, written down, if it does not.
    async fn send(&self, request: Request) -> Option<Answer> {
        let answer = in_time(self.fleet.own(request.clone()).send(self.nginx)).await;
        let failure = match answer {
            Ok(answer) if answer.status < 300 => {
                self.served.send_modify(|count| *count += 1);
                return Some(answer);
            }
            Ok(answer) => format!("{} {}", answer.status, answer.text()),
            Err(error) => error.to_string(),
        };
        let failure = format!("{request:.120?}: {failure}");
        self.failed.lock().unwrap().push(failure);
        None
    }

    fn go_on(&self) -> bool {
        !*self.stop.borrow()
    }

    /// Submits jobs and follows each to its end; those that did not end well, and how many did.
    async fn run_jobs(&self, lane: usize) -> usize {
        let mut ended = 0;
        while self.go_on() {
            let graph = tiny_graph(lane * 1_000_000 + ended);
            let submission = Request::post_json("/api/v2/jobs", &json!({"workflow": graph}));
            let Some(job) = self.send(submission).await else {
                continue;
            };
            let job = job.json()["id"].as_str().unwrap().to_owned();
            // A replica that ends closes its streams, and clients open them again.
            loop {
                let events = Request::get(&format!("/api/v2/jobs/{job}/events"));
                let Some(events) = self.send(events).await else {
                    continue;
                };
                if let Some(last) = events_in(&events.text()).last()
                    && !["\"queued\"", "\"running\""]
                        .iter()
                        .any(|status| last.contains(status))
                    && last.contains("event: status")
                {
                    assert!(last.contains("succeeded"), "{last}");
                    break;
                }
            }
            let Some(job) = self
                .send(Request::get(&format!("/api/v2/jobs/{job}")))
                .await
            else {
                continue;
            };
            let output = job.json()["outputs"][0]["id"].as_str().unwrap().to_owned();
            let content = Request::get(&format!("/api/v2/assets/{output}/content"));
            self.send(content).await;
            ended += 1;
        }
        ended
    }

    async fn upload(&self) {
        let mut number = 0;
        while self.go_on() {
            number += 1;
            let mut content = vec![7; 300_000];
            content.extend_from_slice(format!("{number}").as_bytes());
            let form = Form::new()
                .field("content_type", "text/plain")
                .field("file_path", &format!("{number}.txt"))
                .file("file", "a.txt", &content);
            let request = Request::new("POST", "/api/v2/assets")
                .header("Content-Type", &Form::content_type())
                .body(form.body());
            let Some(asset) = self.send(request).await else {
                continue;
            };
            let id = asset.json()["id"].as_str().unwrap().to_owned();
            let read = Request::get(&format!("/api/v2/assets/{id}/content"));
            if let Some(read) = self.send(read).await {
                assert!(read.body == content, "{id} is another file");
            }
        }
    }

    async fn call_models(&self) -> usize {
        let mut called = 0;
        while self.go_on() {
            let key = format!("rolling-{called}");
            let body = json!({"prompt": "a cat"});
            let call = Request::post_json(&format!("/v1/models/{AT_ONCE}"), &body);
            if self
                .send(call.header("Idempotency-Key", &key))
                .await
                .is_some()
            {
                called += 1;
            }
        }
        called
    }
}

/// The official client, which says at its end how many jobs it ran.
fn official_client(python: &Path, nginx: SocketAddr, key: &str) -> Command {
    let mut command = Command::new(python);
    command
        .arg(root().join("tests/clients/rolling_scenario.py"))
        .arg(format!("http://{nginx}"))
        .env("COMFY_API_KEY", key);
    command
}

/// The web page in a browser, which says at its end what became of every request.
fn web_page(nginx: SocketAddr, key: &str) -> Command {
    let mut command = Command::new("node");
    command
        .arg(root().join("tests/clients/web_rolling.mjs"))
        .args([&nginx.to_string(), key]);
    command
}

/// A client at work until its input is closed, which says when it did its work once: only then is there something to notice. Answers
/// what it says at its end.
async fn at_work(
    mut command: Command,
    begun: watch::Sender<bool>,
    stop: &watch::Receiver<bool>,
) -> String {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut client = command.spawn().unwrap();
    let mut input = client.stdin.take().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let ended = client.wait_with_output();
    let mut stop = stop.clone();
    let stopping = async {
        stop.wait_for(|stop| *stop).await.unwrap();
        // It may have ended by itself, which its status tells.
        let _ = input.shutdown().await;
        drop(input);
    };
    let hearing = async {
        let mut said = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "at work" => _ = begun.send_replace(true),
                _ => said.push_str(&line),
            }
        }
        said
    };
    let (ended, (), said) = tokio::join!(ended, stopping, hearing);
    let ended = ended.unwrap();
    let complaint = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{complaint}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_notice_nothing_while_replicas_restart_in_turn() {
    let test = "clients_notice_nothing_while_replicas_restart_in_turn";
    let Some(python) = std::env::var_os(CLIENT).map(PathBuf::from) else {
        return missing(test, CLIENT);
    };
    let client = |nginx, key: &str| official_client(&python, nginx, key);
    if let Some(said) = restart_in_turn(test, &[], client).await {
        let ran: usize = said.trim().parse().unwrap();
        assert!(ran > 0, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_web_page_notices_nothing_while_replicas_restart_in_turn() {
    let test = "the_web_page_notices_nothing_while_replicas_restart_in_turn";
    let Some(page) = crate::v1::page::web_root(test) else {
        return;
    };
    let flags = ["--web-root", &page];
    let Some(said) = restart_in_turn(test, &flags, web_page).await else {
        return;
    };
    let told: Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(told["failed"], json!([]), "{told:#}");
    assert_eq!(told["errors"], json!([]), "{told:#}");
    let count = |name: &str| told[name].as_u64().unwrap();
    // Replicas that end take its socket along.
    assert!(
        count("runs") > 0 && count("sockets") > count("visits"),
        "{told:#}"
    );
}

/// How many restarts there are.
fn restarts() -> usize {
    let asked = std::env::var(RESTARTS).ok();
    asked.map_or(FEW, |number| number.parse().expect("a number"))
}

/// Says that something is not here; a failure where nothing may be skipped.
fn missing(test: &str, what: &str) {
    let in_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!in_ci, "{what} is there where nothing may be skipped");
    skipped(test, &format!("{what} is missing; `.ci/run` installs it"));
}

/// Restarts two replicas with these further flags in turn, while plain clients and another one are at work behind nginx: no request
/// may fail. Answers what the other one says at its end; `None` after saying that something is not here.
async fn restart_in_turn(
    test: &str,
    more: &[&str],
    client: impl FnOnce(SocketAddr, &str) -> Command,
) -> Option<String> {
    if !Nginx::is_installed() {
        missing(test, "nginx");
        return None;
    }
    let fleet = Fleet::start(test).await?;
    let addresses = [free_address(), free_address()];
    let listen = addresses.map(|address| address.to_string());
    let start = async |n: usize| {
        let own = [
            "--listen",
            &listen[n],
            "--drain-delay",
            DRAIN_DELAY,
            "--trusted-proxies",
            "127.0.0.1",
        ];
        let flags = [&own, more].concat();
        fleet.replica_with(["a", "b"][n], &flags).await
    };
    let (a, b) = tokio::join!(start(0), start(1));
    let nginx = Nginx::start(fleet.folder.path(), addresses).await;
    let (stop, stopped) = watch::channel(false);
    let clients = Clients {
        fleet: &fleet,
        nginx: nginx.address,
        stop: stopped.clone(),
        served: watch::Sender::new(0),
        failed: Mutex::default(),
    };
    let (begin, mut begun) = watch::channel(false);
    let restarts = async {
        begun.wait_for(|begun| *begun).await.unwrap();
        let mut served = clients.served.subscribe();
        let served_by_now = clients.served.subscribe();
        let mut more = async |count: usize| {
            let enough = *served.borrow() + count;
            in_time(served.wait_for(|served| *served >= enough))
                .await
                .unwrap();
        };
        let mut replicas = [a, b].map(Some);
        for number in 0..restarts() {
            let n = number % replicas.len();
            more(20).await;
            let ended = replicas[n].take().unwrap().terminate().await.unwrap();
            assert!(ended.success(), "{}", fleet.log(["a", "b"][n]));
            more(20).await;
            let started = start(n).await;
            let ready = started.send(&Request::get("/ready")).await.unwrap();
            assert_eq!(ready.status, 200);
            replicas[n] = Some(started);
            let failed = clients.failed.lock().unwrap().len();
            let served = *served_by_now.borrow();
            testing::tell(&format!(
                "{test}: {} restarts, {served} requests served, {failed} failed",
                number + 1
            ));
        }
        more(20).await;
        stop.send_replace(true);
        replicas
    };
    let other_client = client(nginx.address, &fleet.key);
    let (replicas, one, other, (), called, said) = tokio::join!(
        restarts,
        clients.run_jobs(1),
        clients.run_jobs(2),
        clients.upload(),
        clients.call_models(),
        at_work(other_client, begin, &stopped)
    );
    let failed = clients.failed.into_inner().unwrap();
    let served = *clients.served.borrow();
    assert!(
        failed.is_empty(),
        "{} of {served}: {failed:#?}",
        failed.len()
    );
    assert!(one > 0 && other > 0 && called > 0);
    // Every call was made once.
    assert_eq!(fleet.submits(Partner::FalSync), called);
    let shown = fleet.operate("a", &["account", "show", "acme", "--json"]);
    let shown: Value = serde_json::from_str(&shown.await).unwrap();
    // A cent each.
    let billed = shown["balance_cents"].as_i64().map(|balance| -balance);
    assert_eq!(billed, i64::try_from(called).ok(), "{shown}");
    for replica in replicas.into_iter().flatten() {
        assert!(replica.terminate().await.unwrap().success());
    }
    Some(said)
}
