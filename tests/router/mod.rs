//! The model router: the real `router-server` as a process, over real files, before simulated partners.

mod authors;
mod buckets;
mod by_key;
mod bytes;
mod catalog;
mod clients;
mod crowd;
mod deadline;
mod document;
mod durability;
mod idempotency;
mod kept;
mod killed;
mod labels;
mod limits;
mod long_queue;
mod partner_keys;
mod queue;
mod reload;
mod requests;
mod secrets;
mod serving;
mod sighup;
pub(crate) mod streams;
mod together;
mod tokens;
mod unsent;
mod webhooks;

use std::path::{Path, PathBuf};

use accounts::{
    Account, AccountAdmin, AccountChange, ApiKey, DisplayName, MintedKey, Scope, Scopes,
};
use futures_util::StreamExt;
use it::partners::{Partner, Partners, Step};
use it::{Answer, Launch, Request, Server, root};
use jiff::Timestamp;
use router_core::{Usage, UsageQuery, UsageRow};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store_local::Store;
use uuid::Uuid;

/// A model that is polled, one that answers at once, and one whose partner is given a fifth of a second.
const POLLED: &str = "bfl/flux-2-pro";
const AT_ONCE: &str = "fal-sync/flux-schnell";
const IMPATIENT: &str = "impatient/flux-schnell";

/// A router before its partners. Every account of it has a key with every scope but `admin`.
struct Rig {
    partners: Partners,
    folder: tempfile::TempDir,
    launch: Launch,
    server: Option<Server>,
}

/// An account that a rig begins with: its name, and how it differs from others.
type Differs<'a> = (&'a str, Vec<AccountChange>);

impl Rig {
    /// With the account `acme` alone.
    async fn start() -> Self {
        Self::with(&[], &[]).await
    }

    /// With further flags and accounts.
    async fn with(flags: &[&str], accounts: &[Differs<'_>]) -> Self {
        let partners = Partners::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        write_catalog(&folder.path().join("catalog"));
        let store = Store::open(&folder.path().join("data")).unwrap();
        let rows = store.accounts();
        for (name, changes) in [("acme", Vec::new())].iter().chain(accounts) {
            add_account(&rows, name, changes.clone()).await;
            add_key(&rows, name, name, Scopes::standard()).await;
        }
        let reader = [Scope::JobsRead].into_iter().collect();
        add_key(&rows, "acme", "reader", reader).await;
        drop((rows, store));

        let relocations = partners.relocations().into_iter();
        let relocations: Vec<String> = relocations
            .map(|(host, url)| format!("{host}={url}"))
            .collect();
        let catalog = folder.path().join("catalog");
        let mut arguments = vec![
            "--catalog".to_owned(),
            catalog.to_str().unwrap().to_owned(),
            "--relocate-partners".to_owned(),
            relocations.join(","),
            "--concurrent-calls".to_owned(),
            "100".to_owned(),
        ];
        if !flags.contains(&"--log-level") {
            arguments.extend(["--log-level".to_owned(), "debug".to_owned()]);
        }
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let secrets = [
            ("BFL_API_KEY", Partner::Bfl),
            ("FAL_KEY", Partner::FalSync),
            ("ELEVENLABS_API_KEY", Partner::Elevenlabs),
        ];
        let secrets = secrets.map(|(name, partner)| (name.to_owned(), partner.secret()));
        let launch = Launch {
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: secrets.to_vec(),
            log: Some(folder.path().join("log")),
            ..Launch::of("router-server")
        };
        let mut rig = Self {
            partners,
            folder,
            launch,
            server: None,
        };
        rig.begin().await;
        rig
    }

    /// Starts the router, over what the one before left.
    async fn begin(&mut self) {
        let started = Server::launch(&self.data(), &self.launch).await;
        self.server = Some(started.unwrap_or_else(|error| panic!("{error}: {}", self.log())));
    }

    /// Kills the router on the spot.
    async fn kill(&mut self) {
        self.server.take().unwrap().kill().await.unwrap();
    }

    /// Ends the router well.
    async fn end(&mut self) {
        let server = self.server.take().unwrap();
        assert!(server.terminate().await.unwrap().success());
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

    async fn send(&self, request: Request) -> Answer {
        self.server().send(&request).await.unwrap()
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(of("acme", Request::get(path))).await
    }

    /// Calls a model as `acme`.
    async fn call(&self, model: &str, body: &Value) -> Answer {
        self.send(call_of("acme", model, body)).await
    }

    /// Calls a model as `acme`, under a key.
    async fn keyed(&self, key: &str, model: &str, body: &Value) -> Answer {
        let request = call_of("acme", model, body).header("Idempotency-Key", key);
        self.send(request).await
    }

    /// How many submissions a partner has seen.
    fn submits(&self, partner: Partner) -> usize {
        self.partners.requests_of(partner, Step::Submit).len()
    }

    /// Ends the router well, and answers what it wrote down of every call, oldest first.
    async fn record(&mut self) -> Vec<UsageRow> {
        self.end().await;
        let store = Store::open(&self.data()).unwrap();
        let rows = store.calls().export(UsageQuery::default());
        rows.map(Result::unwrap).collect().await
    }
}

/// The shipped catalog with partners that are asked more often, and one that is given little time.
pub(crate) fn write_catalog(folder: &Path) {
    let shipped = root().join("crates/providers/catalog");
    let copy = |from: &str, to: &str, change: fn(String) -> String| {
        let text = std::fs::read_to_string(shipped.join(from)).unwrap();
        let to = folder.join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, change(text)).unwrap();
    };
    copy("bfl/partner.toml", "bfl/partner.toml", |text| {
        let quick = text.replace("max_interval_ms = 5000", "max_interval_ms = 50");
        quick.replace("interval_ms = 500", "interval_ms = 50")
    });
    copy("luma/partner.toml", "luma/partner.toml", |text| {
        text.replace("interval_ms = 3000", "interval_ms = 50")
    });
    copy("fal-sync/partner.toml", "impatient/partner.toml", |text| {
        text.replace("submit_ms = 300000", "submit_ms = 200")
    });
    copy("fal/partner.toml", "hasty/partner.toml", |text| {
        let hasty = "style = \"poll\"\ntimeouts = { submit_ms = 200 }";
        text.replace("style = \"poll\"", hasty)
    });
    for file in ["flux-schnell.toml", "flux-schnell.schema.json"] {
        let (from, to) = (format!("fal/{file}"), format!("hasty/{file}"));
        copy(&from, &to, |text| text);
    }
    copy("bfl/partner.toml", "patient/partner.toml", |text| {
        let slow = text.replace(
            "max_interval_ms = 5000",
            "max_interval_ms = 3000\njitter = 0.5",
        );
        slow.replace("\ninterval_ms = 500", "\ninterval_ms = 3000")
    });
    copy("fal/partner.toml", "brief/partner.toml", |text| text);
    copy("fal/flux-dev.toml", "brief/flux-dev.toml", |text| {
        text.replace("[values]", "timeouts = { total_ms = 1000 }\n[values]")
    });
    for file in ["flux-2-pro.toml", "flux-2-pro.schema.json"] {
        let (from, to) = (format!("bfl/{file}"), format!("patient/{file}"));
        copy(&from, &to, |text| text);
    }
    copy(
        "fal/flux-dev.schema.json",
        "brief/flux-dev.schema.json",
        |text| text,
    );
    for file in ["flux-schnell.toml", "flux-schnell.schema.json"] {
        let (from, to) = (format!("fal-sync/{file}"), format!("impatient/{file}"));
        copy(&from, &to, |text| text);
    }
}

pub(crate) async fn add_account(rows: &dyn AccountAdmin, name: &str, changes: Vec<AccountChange>) {
    let id = name.parse().unwrap();
    let account = Account::new(id, name.parse().unwrap(), Timestamp::now());
    rows.create(account.clone()).await.unwrap();
    rows.change(&account.id, changes).await.unwrap();
}

pub(crate) async fn add_key(rows: &dyn AccountAdmin, account: &str, name: &str, scopes: Scopes) {
    let minted = key_named(name);
    let key = ApiKey {
        id: minted.id.clone(),
        account: account.parse().unwrap(),
        name: name.parse::<DisplayName>().unwrap(),
        scopes,
        created_at: Timestamp::now(),
        expires_at: None,
        revoked_at: None,
    };
    rows.add_key(key, minted.hash()).await.unwrap();
}

/// The key of an account of the rig; the same one every time.
pub(crate) fn key_named(name: &str) -> MintedKey {
    let mut random = [0; MintedKey::RANDOM_BYTES];
    for (n, byte) in name.bytes().cycle().take(random.len()).enumerate() {
        random[n] = byte ^ n as u8;
    }
    MintedKey::new(&random)
}

/// The request as that of an account.
pub(crate) fn of(account: &str, request: Request) -> Request {
    let key = key_named(account);
    request.header(
        "Authorization",
        &format!("Bearer {}", key.text.expose_secret()),
    )
}

fn path_of(model: &str) -> String {
    format!("/v1/models/{model}")
}

fn call_of(account: &str, model: &str, body: &Value) -> Request {
    of(account, Request::post_json(&path_of(model), body))
}

fn prompt(text: &str) -> Value {
    json!({"prompt": text})
}

/// Status, headers and body of an answer as one text: what changes from request to request is left out, and what must hold
/// of it is checked.
#[track_caller]
fn whole(answer: &Answer) -> String {
    let id = answer.header("x-service-request-id").unwrap();
    assert!(Uuid::parse_str(id).is_ok(), "{id} is no UUID");
    assert_eq!(answer.header("x-comfy-request-id"), Some(id));
    assert_eq!(
        answer.header("x-comfy-error-type"),
        answer.header("x-service-error-type")
    );
    let upstream = answer.header("x-service-upstream-status");
    assert_eq!(answer.header("x-comfy-upstream-status"), upstream);
    assert!(upstream.is_none_or(|status| status.parse::<u16>().is_ok()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let fixed = [
        "x-service-upstream-status",
        "x-comfy-upstream-status",
        "x-service-request-id",
        "x-comfy-request-id",
        "x-comfy-error-type",
        "x-content-type-options",
        "content-length",
        "date",
        // A matter of the connection.
        "connection",
    ];
    let mut lines: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !fixed.contains(name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    lines.sort_unstable();
    format!("{} {}\n{}", answer.status, lines.join("; "), answer.text())
}

/// Asserts that an answer is an error and nothing else.
#[track_caller]
fn assert_error(answer: &Answer, status: u16, bucket: &str, detail: &str, headers: &[&str]) {
    let mut lines = vec![
        "cache-control: no-store".to_owned(),
        "content-type: application/json".to_owned(),
        format!("x-service-error-type: {bucket}"),
    ];
    lines.extend(headers.iter().map(|line| (*line).to_owned()));
    lines.sort_unstable();
    let body = json!({"detail": detail, "error_type": bucket});
    assert_eq!(
        whole(answer),
        format!("{status} {}\n{body}", lines.join("; "))
    );
}
