//! `cargo xtask bench webhooks`: messages to receivers that hang, fail, redirect and answer slowly, and what the healthy ones feel of it.
//!
//! Each account has twenty webhooks; each of its jobs makes two messages for each of them. The server is killed in the middle. At
//! the end the receivers are mended: then every message must have come, for each job in order. Server and receivers share the
//! machine with the bench.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use it::load::server::{self, Launch, Profile, Server};
use it::{Received, Receivers, Request};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::samples::Samples;
use super::{disk, machine, say, until_interrupted};

/// Webhooks of an account by what their receivers do.
const WEBHOOKS: [(&str, usize); 6] = [
    ("takes", 6),
    ("hangs", 3),
    ("later", 3),
    ("redirects", 2),
    ("slow/500", 3),
    ("flaky/4", 3),
];

/// What healthy receivers should wait at most.
const PROMPT_MS: f64 = 2_000.0;

/// How long the mended receivers have to get what is left.
const PATIENCE: Duration = Duration::from_secs(600);

/// What to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Accounts.
    #[arg(long, default_value_t = 5)]
    accounts: usize,
    /// Jobs of each account: 2 messages for each of its 20 webhooks.
    #[arg(long, default_value_t = 50)]
    jobs: usize,
    /// How often the server is killed meanwhile.
    #[arg(long, default_value_t = 2)]
    kills: usize,
    /// Measure this program instead of building one in the profile `dist`.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// What runs.
struct Bench {
    launch: Launch,
    server: Option<Server>,
    receivers: Receivers,
    /// The keys of the accounts, and that of the operator.
    keys: Vec<String>,
    admin: String,
    /// The webhooks: id and path of the receiver.
    webhooks: Vec<(String, String)>,
    /// When each job was accepted, with its account.
    accepted: BTreeMap<String, (usize, Instant)>,
}

/// Measures and writes one JSON line; whether nothing was lost, nothing out of order, and healthy receivers heard in time.
///
/// # Errors
/// When something cannot be built, started or reached.
pub fn run(root: &Path, options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => server::build(root, Profile::Dist, &[])?,
    };
    let folder = root.join("target");
    fs::create_dir_all(&folder)?;
    let folder = TempDir::with_prefix_in("bench-", folder)?;
    let disk = disk::Disk::measure(folder.path())?;
    let mut told = until_interrupted(measure(&program, folder.path(), options))?;
    told["machine"] = machine::machine();
    told["disk_fsync_p50_ms"] = json!(disk.append_p50_ms);
    writeln!(out, "{told}")?;
    let is_none = |name: &str| told[name] == json!(0);
    let is_prompt = told["healthy_p99_ms"]
        .as_f64()
        .is_some_and(|ms| ms <= PROMPT_MS);
    Ok(is_none("lost") && is_none("out_of_order") && is_none("invented") && is_prompt)
}

async fn measure(program: &Path, folder: &Path, options: &Options) -> io::Result<Value> {
    let receivers = Receivers::start().await?;
    let launch = Launch {
        program: program.to_owned(),
        under: Vec::new(),
        data_dir: folder.join("data"),
        log: folder.join("log"),
        arguments: vec![
            "--require-credentials".to_owned(),
            "--log-level=warn".to_owned(),
            format!("--webhook-private-hosts={}", receivers.host()),
        ],
        variables: Vec::new(),
    };
    let mut bench = Bench {
        server: Some(Server::start(&launch).await?),
        launch,
        receivers,
        keys: Vec::new(),
        admin: String::new(),
        webhooks: Vec::new(),
        accepted: BTreeMap::new(),
    };
    bench.set_up(options.accounts).await?;
    let began = Instant::now();
    let mut kills = 0;
    for round in 0..options.jobs {
        bench.submit_round(round).await?;
        // In equal parts, none of which is empty.
        let due = (round + 1) * (options.kills + 1) / options.jobs.max(1);
        if kills < due && kills < options.kills {
            say("killing the server");
            bench.restart().await?;
            kills += 1;
        }
    }
    let submitted_s = began.elapsed().as_secs_f64();
    let expected = bench.accepted.len() * 2 * bench.webhooks.len() / options.accounts.max(1);
    let healthy = bench
        .webhooks
        .iter()
        .filter(|(_, path)| path.starts_with("/takes"));
    let healthy = bench.accepted.len() * 2 * healthy.count() / options.accounts.max(1);
    say(&format!(
        "{expected} messages, {healthy} of them for healthy receivers"
    ));
    let count = |all: &[Received], kind: &str| {
        let taken = all
            .iter()
            .filter(|it| it.taken && it.path.starts_with(kind));
        taken
            .map(|it| (&it.path, &it.id))
            .collect::<BTreeSet<_>>()
            .len()
    };
    let told = tokio::time::timeout(
        PATIENCE,
        bench.receivers.until(|all| count(all, "/takes") >= healthy),
    );
    let in_time = told.await.is_ok();
    let healthy_s = began.elapsed().as_secs_f64();
    let before_mending = count(&bench.receivers.received(), "/");
    bench.mend().await?;
    let all_came = tokio::time::timeout(
        PATIENCE,
        bench.receivers.until(|all| count(all, "/") >= expected),
    );
    let all_came = all_came.await.is_ok();
    let mut told = bench.judge(expected);
    told["messages"] = json!(expected);
    told["webhooks"] = json!(bench.webhooks.len());
    told["kills"] = json!(kills);
    told["submitted_s"] = json!(submitted_s);
    told["healthy_complete_s"] = json!(healthy_s);
    told["taken_before_mending"] = json!(before_mending);
    told["all_s"] = json!(began.elapsed().as_secs_f64());
    told["waited_in_vain"] = json!(!in_time || !all_came);
    Ok(told)
}

impl Bench {
    /// Accounts, keys and webhooks.
    async fn set_up(&mut self, accounts: usize) -> io::Result<()> {
        self.admin = self
            .command(&["key", "add", "local", "--scopes", "admin"])
            .await?;
        for number in 0..accounts {
            let account = format!("account-{number}");
            self.command(&["account", "add", &account]).await?;
            let key = self.command(&["key", "add", &account]).await?;
            self.keys.push(key);
            for (kind, count) in WEBHOOKS {
                for place in 0..count {
                    let path = format!("/{kind}/{account}-{place}");
                    let body = json!({"url": self.receivers.url(&path), "events": "job.created,job.ended"});
                    let target = format!("/api/v2/admin/accounts/{account}/webhooks");
                    let added = self.operate(Request::post_json(&target, &body)).await?;
                    let id = added["id"].as_str().unwrap_or_default().to_owned();
                    self.webhooks.push((id, path));
                }
            }
        }
        Ok(())
    }

    /// A job of each account.
    async fn submit_round(&mut self, round: usize) -> io::Result<()> {
        for account in 0..self.keys.len() {
            let graph = json!({
                "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": round * 100 + account}},
                "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "told"}},
            });
            let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }))
                .header("Authorization", &format!("Bearer {}", self.keys[account]));
            let answer = request.send(self.address()?).await?.expect_status(201)?;
            let id = answer.try_json()?["id"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            self.accepted.insert(id, (account, Instant::now()));
        }
        Ok(())
    }

    async fn restart(&mut self) -> io::Result<()> {
        if let Some(server) = self.server.take() {
            server.kill().await?;
        }
        self.server = Some(Server::start(&self.launch).await?);
        Ok(())
    }

    /// Gives every webhook a receiver that takes everything, and has what waits sent at once.
    async fn mend(&mut self) -> io::Result<()> {
        self.receivers.open();
        for (id, path) in self.webhooks.clone() {
            let mended = path.starts_with("/hangs") || path.starts_with("/redirects");
            // The path stays what tells the webhooks apart.
            let url = self.receivers.url(&format!("/mended{path}"));
            let body = match mended {
                true => json!({"url": url, "enabled": true}),
                false => json!({"enabled": true}),
            };
            let request = Request::new("PATCH", &format!("/api/v2/admin/webhooks/{id}"))
                .header("Content-Type", "application/json")
                .body(body.to_string());
            self.operate(request).await?;
        }
        Ok(())
    }

    /// What came, compared with what was to come.
    fn judge(&self, expected: usize) -> Value {
        let mut told: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        let (mut met, mut repeats, mut latencies) = (BTreeSet::new(), 0, Vec::new());
        let mut invented = 0;
        for message in self.receivers.received().iter().filter(|it| it.taken) {
            let path = message.path.trim_start_matches("/mended").to_owned();
            if !met.insert((path.clone(), message.id.clone())) {
                repeats += 1;
                continue;
            }
            let event = message.json();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, job) = (text(&event["type"]), text(&event["data"]["id"]));
            match self.accepted.get(&job) {
                Some((_, at)) if kind == "job.created" && path.starts_with("/takes") => {
                    latencies.push(message.at.saturating_duration_since(*at));
                }
                Some(_) => {}
                None => invented += 1,
            }
            told.entry((path, job)).or_default().push(kind);
        }
        let in_order = ["job.created".to_owned(), "job.ended".to_owned()];
        let out_of_order = told
            .values()
            .filter(|kinds| !in_order.starts_with(kinds))
            .count();
        let latencies = Samples::of(&latencies);
        json!({
            "lost": expected.saturating_sub(met.len()),
            "out_of_order": out_of_order,
            "invented": invented,
            "repeats": repeats,
            "healthy_p50_ms": latencies.percentile_ms(50.0),
            "healthy_p99_ms": latencies.percentile_ms(99.0),
            "healthy_max_ms": latencies.percentile_ms(100.0),
        })
    }

    fn address(&self) -> io::Result<std::net::SocketAddr> {
        let server = self.server.as_ref().map(|server| server.address);
        server.ok_or_else(|| io::Error::other("no server runs"))
    }

    async fn operate(&self, request: Request) -> io::Result<Value> {
        let request = request.header("Authorization", &format!("Bearer {}", self.admin));
        let answer = request.send(self.address()?).await?;
        match answer.status {
            200..300 => answer.try_json(),
            status => Err(io::Error::other(format!("{status}: {}", answer.text()))),
        }
    }

    async fn command(&self, words: &[&str]) -> io::Result<String> {
        let done = Command::new(&self.launch.program)
            .args(words)
            .env("EASEL_DATA_DIR", &self.launch.data_dir)
            .output()
            .await?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(io::Error::other(said));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
    }
}
