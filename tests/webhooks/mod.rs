//! Webhooks on the real program: what receivers hear, in which order, signed how, and what becomes of receivers that misbehave.

mod operate;
mod own;
mod receivers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use it::{Launch, Received, Receivers, Request, Server, operate};
use serde_json::{Value, json};

/// A server with its receivers. Whoever asks is the account `local`.
struct Rig {
    receivers: Receivers,
    folder: tempfile::TempDir,
    launch: Launch,
    server: Option<Server>,
}

impl Rig {
    async fn start() -> Self {
        Self::start_as("workflow-server").await
    }

    async fn start_as(package: &'static str) -> Self {
        let receivers = Receivers::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--webhook-private-hosts".to_owned(), receivers.host()];
        let launch = Launch {
            arguments: arguments.into_iter().map(Into::into).collect(),
            log: Some(folder.path().join("log")),
            ..Launch::of(package)
        };
        let mut rig = Self {
            receivers,
            folder,
            launch,
            server: None,
        };
        rig.begin().await;
        rig
    }

    async fn begin(&mut self) {
        let started = Server::launch(&self.data(), &self.launch).await;
        self.server = Some(started.unwrap_or_else(|error| panic!("{error}: {}", self.log())));
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Runs a command, which has to succeed; what it prints.
    async fn command(&self, words: &[&str]) -> String {
        let done = operate(&self.data(), words).await;
        assert_eq!(done.code, 0, "{words:?}: {}", done.stderr);
        done.stdout.trim_end().to_owned()
    }

    /// Adds a webhook at a path of the receivers; its id and secret.
    async fn webhook(&self, path: &str, events: &str) -> (String, String) {
        let url = self.receivers.url(path);
        let words = ["webhook", "add", "local", "--url", &url, "--events", events];
        let done = operate(&self.data(), words).await;
        assert_eq!(done.code, 0, "{}", done.stderr);
        let id = done.stderr.split(' ').nth(1).unwrap().to_owned();
        (id, done.stdout.trim_end().to_owned())
    }

    async fn shown(&self, words: &[&str]) -> Value {
        let shown = self.command(&[words, &["--json"]].concat()).await;
        serde_json::from_str(&shown).unwrap()
    }

    /// Submits a job that makes a small picture; its id.
    async fn submit(&self, number: usize) -> String {
        let graph = json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": number}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "told"}},
        });
        let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }));
        let answer = self.server().send(&request).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// The newest delivery of a webhook once it fits.
    async fn delivery(&self, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let deliveries = self.shown(&["webhook", "deliveries", id]).await;
            if let Some(found) = deliveries.as_array().unwrap().iter().find(|it| fits(it)) {
                return found.clone();
            }
        }
    }
}

/// What was told of which job: the kinds of events in their order, each once.
fn told(received: &[Received]) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut met = std::collections::BTreeSet::new();
    for message in received {
        if met.insert(message.id.clone()) {
            let event = message.json();
            let job = event["data"]["id"].as_str().unwrap().to_owned();
            let kind = event["type"].as_str().unwrap().to_owned();
            told.entry(job).or_default().push(kind);
        }
    }
    told
}

/// Both events of a job.
fn whole() -> Vec<String> {
    vec!["job.created".to_owned(), "job.ended".to_owned()]
}

#[tokio::test]
async fn a_receiver_hears_of_a_job_from_its_creation_to_its_end() {
    let rig = Rig::start_as("all-in-one").await;
    let (_, secret) = rig.webhook("/takes/all", "job.created,job.ended").await;
    let (_, other) = rig.webhook("/takes/ends", "job.ended").await;
    let job = rig.submit(1).await;
    let is_told = |all: &[Received]| {
        let ends = all.iter().filter(|it| it.body.contains("job.ended"));
        ends.count() == 2
    };
    rig.receivers.until(is_told).await;
    let all = rig.receivers.taken("/takes/all");
    assert_eq!(told(&all), BTreeMap::from([(job.clone(), whole())]));
    let statuses: Vec<Value> = all
        .iter()
        .map(|it| it.json()["data"]["status"].clone())
        .collect();
    assert_eq!(statuses, [json!("queued"), json!("succeeded")]);
    let data = &all[1].json()["data"];
    assert_eq!(
        (&data["id"], &data["account"]),
        (&json!(job), &json!("local"))
    );
    for message in &all {
        assert_eq!(message.signatures_of(&secret), 1, "{message:?}");
        assert_eq!(message.signatures_of(&other), 0, "each has its own secret");
    }
    let ends = rig.receivers.taken("/takes/ends");
    assert_eq!(ends.len(), 1, "it wants no more: {ends:?}");
    assert_eq!(ends[0].signatures_of(&other), 1);
}

#[tokio::test]
async fn a_rotation_signs_with_both_secrets_for_a_time() {
    let rig = Rig::start().await;
    let (id, first) = rig.webhook("/takes/rotated", "job.ended").await;
    let second = rig.command(&["webhook", "rotate", &id]).await;
    let test = async |count: usize| {
        rig.command(&["webhook", "test", &id]).await;
        rig.receivers.until(|all| all.len() == count).await;
        rig.receivers.received().pop().unwrap()
    };
    let message = test(1).await;
    assert_eq!(message.json()["type"], "webhook.test");
    let signatures = |secret: &str| message.signatures_of(secret);
    assert_eq!((signatures(&first), signatures(&second)), (1, 1));
    let third = rig
        .command(&["webhook", "rotate", &id, "--overlap", "0s"])
        .await;
    let message = test(2).await;
    let signatures = [&first, &second, &third].map(|secret| message.signatures_of(secret));
    assert_eq!(signatures, [0, 0, 1], "a secret that leaked ends at once");
}

#[tokio::test]
async fn what_is_wrong_with_a_receiver_is_told_and_a_redirect_is_not_followed() {
    let rig = Rig::start().await;
    for (path, error) in [
        (
            "/redirects/x",
            "it answered 302: redirects are not followed",
        ),
        ("/later/x", "it answered 503"),
    ] {
        let (id, _) = rig.webhook(path, "job.ended").await;
        rig.command(&["webhook", "test", &id]).await;
        let failed = rig.delivery(&id, |it| it["attempts"] == 1).await;
        assert_eq!(failed["state"], "waiting");
        assert!(
            failed["error"].as_str().unwrap().starts_with(error),
            "{failed}"
        );
        let shown = rig.shown(&["webhook", "show", &id]).await;
        assert_eq!(
            (&shown["failures"], &shown["state"]),
            (&json!(1), &json!("enabled"))
        );
    }
    assert_eq!(rig.receivers.taken("/takes/redirected").len(), 0);

    // One that was not named by the operator is neither asked nor, with plain http, added.
    let other = Receivers::start().await.unwrap();
    let url = other.url("/takes/private");
    let words = [
        "webhook",
        "add",
        "local",
        "--url",
        &url,
        "--events",
        "job.ended",
    ];
    let refused = operate(&rig.data(), words).await;
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("webhook_private_hosts"),
        "{}",
        refused.stderr
    );
    let url = url.replacen("http://", "https://", 1);
    let words = [
        "webhook",
        "add",
        "local",
        "--url",
        &url,
        "--events",
        "job.ended",
    ];
    let added = operate(&rig.data(), words).await;
    let id = added.stderr.split(' ').nth(1).unwrap().to_owned();
    rig.command(&["webhook", "test", &id]).await;
    let failed = rig.delivery(&id, |it| it["attempts"] == 1).await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("not on the public internet"), "{error}");
    assert_eq!(other.received().len(), 0);
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_disabled_and_the_other_webhooks_hear_of_it() {
    let rig = Rig::start().await;
    let (gone, _) = rig.webhook("/gone/x", "job.ended").await;
    rig.webhook("/takes/watch", "webhook.disabled").await;
    rig.submit(1).await;
    rig.receivers
        .until(|all| all.iter().any(|it| it.path == "/takes/watch"))
        .await;
    let told = rig.receivers.taken("/takes/watch").remove(0).json();
    let data = json!({"id": gone, "account": "local", "reason": "gone"});
    assert_eq!(
        (&told["type"], &told["data"]),
        (&json!("webhook.disabled"), &data)
    );
    let shown = rig.shown(&["webhook", "show", &gone]).await;
    assert_eq!(
        (&shown["state"], &shown["disabled_reason"]),
        (&json!("disabled"), &json!("gone"))
    );
    let refused = operate(&rig.data(), ["webhook", "test", &gone]).await;
    assert!(
        refused.stderr.contains("enable it first"),
        "{}",
        refused.stderr
    );
    assert!(
        rig.log().contains("a webhook was disabled"),
        "{}",
        rig.log()
    );

    // With another address and enabled again, it gets what waited.
    let url = rig.receivers.url("/takes/moved");
    rig.command(&["webhook", "change", &gone, "--url", &url])
        .await;
    rig.command(&["webhook", "enable", &gone]).await;
    rig.receivers
        .until(|all| all.iter().any(|it| it.path == "/takes/moved"))
        .await;
    assert_eq!(
        rig.receivers.taken("/takes/moved")[0].json()["type"],
        "job.ended"
    );
}

#[tokio::test]
async fn a_kill_loses_no_event_and_keeps_the_order_of_each_job() {
    let mut rig = Rig::start().await;
    rig.webhook("/later/all", "job.created,job.ended").await;
    rig.webhook("/takes/all", "job.created,job.ended").await;
    let mut jobs = Vec::new();
    for round in 0..3 {
        for number in 0..8 {
            jobs.push(rig.submit(round * 10 + number).await);
        }
        let one = jobs.last().unwrap().clone();
        rig.receivers
            .until(|all| all.iter().any(|it| it.body.contains(&one)))
            .await;
        rig.server.take().unwrap().kill().await.unwrap();
        if round == 2 {
            rig.receivers.open();
        }
        rig.begin().await;
    }
    let is_whole = |path: &str, all: &[Received]| {
        let taken = all.iter().filter(|it| it.taken && it.path == path);
        let told = told(&taken.cloned().collect::<Vec<_>>());
        jobs.iter()
            .all(|job| told.get(job).is_some_and(|kinds| kinds.len() == 2))
    };
    rig.receivers
        .until(|all| is_whole("/takes/all", all) && is_whole("/later/all", all))
        .await;
    for path in ["/takes/all", "/later/all"] {
        let told = told(&rig.receivers.taken(path));
        assert_eq!(
            told.len(),
            jobs.len(),
            "{path}: no event of a job that is not there"
        );
        assert!(
            told.values().all(|kinds| *kinds == whole()),
            "{path}: {told:#?}"
        );
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_keeps_nothing_from_the_others() {
    let rig = Rig::start().await;
    for number in 0..12 {
        rig.webhook(&format!("/hangs/{number}"), "job.ended").await;
    }
    rig.webhook("/takes/all", "job.ended").await;
    let mut jobs = Vec::new();
    for number in 0..40 {
        jobs.push(rig.submit(number).await);
    }
    // Those that hang are still asked for the first time, for as long as they have.
    rig.receivers
        .until(|all| all.iter().filter(|it| it.taken).count() == jobs.len())
        .await;
    assert_eq!(told(&rig.receivers.taken("/takes/all")).len(), jobs.len());
    let hanging = rig.receivers.received();
    let hanging = hanging.iter().filter(|it| it.path.starts_with("/hangs"));
    assert!(hanging.count() <= 12, "one attempt at a time for each");
}
