//! The whole program with two accounts that know nothing of each other, and its partners.

use std::fs::File;
use std::path::PathBuf;

use accounts::{AccountChange, Scopes};
use it::attacks::{self, Target};
use it::partners::{Partner, Partners};
use it::{Neighbour, Server, Usage, process, root};
use secrecy::ExposeSecret;
use store_local::Store;
use tempfile::TempDir;
use tokio::process::Command;

use crate::router::{add_account, add_key, key_named};

/// Flags that make the program the same on every machine, and its bounds small enough to be met in seconds.
const FLAGS: &[&str] = &[
    "--require-credentials",
    "--job-slots",
    "2",
    "--threads",
    "2",
    "--job-memory",
    "256MiB",
    "--cache-size",
    "64MiB",
    "--queue-per-account",
    "100",
    "--json-limit",
    "4MiB",
];

/// The slots among the flags.
const JOB_SLOTS: usize = 2;

/// The limit of JSON among the flags: a program that is built for tests parses slowly.
const JSON_BYTES: usize = 4 << 20;

/// What the account that attacks may do beyond the defaults of the router, so that its quotas there stop nothing.
const CALLS: u32 = 100_000;
const CENTS: u64 = 1_000_000_000;

/// The program under attack.
pub(super) struct Rig {
    pub(super) target: Target,
    pub(super) neighbour: Neighbour,
    server: Server,
    folder: TempDir,
    /// They end with the rig.
    _partners: Partners,
}

impl Rig {
    /// Starts it with so many descriptors.
    pub(super) async fn start(descriptors: u32) -> Self {
        let partners = Partners::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (data, catalog) = (folder.path().join("data"), folder.path().join("catalog"));
        attacks::write_catalog(&root().join("crates/providers/catalog"), &catalog).unwrap();
        let store = Store::open(&data).unwrap();
        let rows = store.accounts();
        let attacker = vec![
            AccountChange::ConcurrentCalls(Some(CALLS)),
            AccountChange::CommittedSpendCents(Some(CENTS)),
        ];
        for (name, changes) in [
            ("attacker", attacker),
            ("penniless", vec![AccountChange::Billed(true)]),
            ("neighbour", Vec::new()),
        ] {
            add_account(&rows, name, changes).await;
            add_key(&rows, name, name, Scopes::standard()).await;
        }
        drop((rows, store));

        let relocations = partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let mut arguments: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        arguments.extend([
            "--catalog".to_owned(),
            catalog.to_str().unwrap().to_owned(),
            "--relocate-partners".to_owned(),
            relocations.join(","),
        ]);
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                &format!("ulimit -n {descriptors} && exec \"$@\""),
                "sh",
            ])
            .arg(process::binary())
            .env("EASEL_MIN_FREE", "0B")
            .env("BFL_API_KEY", Partner::Bfl.secret())
            .env("OPENAI_API_KEY", Partner::OpenaiImages.secret())
            .stderr(File::create(folder.path().join("log")).unwrap());
        let started = Server::start_as(command, &data, &arguments).await;
        let log = folder.path().join("log");
        let server = started.unwrap_or_else(|error| panic!("{error}: {}", read(&log)));
        let key = |name: &str| key_named(name).text.expose_secret().to_owned();
        Self {
            target: Target {
                server: server.address,
                key: key("attacker"),
                penniless: key("penniless"),
                json_bytes: JSON_BYTES,
                job_slots: JOB_SLOTS,
            },
            neighbour: Neighbour::new(server.address, &key("neighbour")),
            server,
            folder,
            _partners: partners,
        }
    }

    /// What the process uses now.
    pub(super) fn usage(&self) -> Usage {
        Usage::of(self.server.pid()).unwrap()
    }

    /// What it used and uses, and the end of its log: for a test that fails.
    pub(super) fn usage_told(&self, before: &Usage) -> String {
        let log = read(&self.folder.path().join("log"));
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        let now = Usage::of(self.server.pid());
        format!("before {before:?}\nnow {now:?}\n{}", lines.join("\n"))
    }

    /// Kills the program: what its partners hold would have the length of the drain otherwise.
    pub(super) async fn end(self) {
        let health = it::Request::get("/health");
        assert_eq!(self.server.send(&health).await.unwrap().status, 200);
        self.server.kill().await.unwrap();
    }
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
