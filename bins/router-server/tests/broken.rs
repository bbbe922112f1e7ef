//! `internal_error`: a provider that panics fails the one call that it was asked for, before the partner was asked, while it
//! was asked, and while the work went on. Everything is real but the provider: rows, router, API, socket.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountAdmin, AccountChange, AccountId, CreditLedger};
use async_trait::async_trait;
use bytes::Bytes;
use clap::Command;
use futures_util::StreamExt;
use hyper_kit::{ServerLimits, ServerStats, serve};
use jiff::Timestamp;
use providers::{Builtin, Fault, Kind, KindFolder, KindPartner};
use router_core::{
    Answer, Charge, ChargesOnPolicyRejection, Collected, Contact, Done, Failure, Handle, Model,
    ModelDefinition, ModelForm, ModelId, Price, Provider, Submission, Submitted, Usage, UsageQuery,
    UsageRow,
};
use router_server::{Background, Config, KEYS, OwnModels, RouterStack};
use serde_json::Value;
use server_kit::config::Settings;
use server_kit::metrics::{HttpMetrics, Metrics};
use server_kit::sweeps::Sweeps;
use store_local::Store;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Where a provider panics; `nowhere` answers.
const PLACES: [&str; 4] = ["price", "submit", "collect", "nowhere"];

/// The token of the account `local`.
const TOKEN: &str = "a-token-of-this-test";

/// What a panic says, which nobody but the log may hear.
const SECRET: &str = "the provider's own words";

struct Broken {
    place: &'static str,
}

#[async_trait]
impl Provider for Broken {
    async fn submit(&self, _: Submission) -> Result<Submitted, Failure> {
        assert!(self.place != "submit", "{SECRET}");
        if self.place == "collect" {
            return Ok(Submitted::Accepted {
                handle: Handle(Bytes::from_static(b"handle")),
                task_id: Some("task-1".to_owned()),
                poll_after: Duration::from_millis(1),
            });
        }
        Ok(Submitted::Done(Done {
            answer: Answer {
                content_type: "application/json".to_owned(),
                body: Bytes::from_static(b"{\"fine\":true}"),
            },
            charge: Charge::AsHeld,
            task_id: None,
        }))
    }

    async fn collect(&self, _: &Handle, _: &Contact) -> Result<Collected, Failure> {
        panic!("{SECRET}");
    }

    async fn cancel(&self, _: &Handle) {}

    fn price(&self, _: &Value) -> Price {
        assert!(self.place != "price", "{SECRET}");
        Price::Exact { cents: 4 }
    }
}

/// The partner `broken`, with a model for each place.
struct BrokenKind;

impl Kind for BrokenKind {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn builtin(&self) -> Builtin {
        &[("broken/partner.toml", "kind = \"broken\"\n")]
    }

    fn read(&self, _: KindFolder<'_>) -> Result<KindPartner, Vec<Fault>> {
        let model = |place: &'static str| {
            let definition = ModelDefinition {
                id: ModelId::new("broken", place).expect("a model's id"),
                charges_on_policy_rejection: ChargesOnPolicyRejection::No,
                input_schema: None,
                form: ModelForm::default(),
                polling: None,
                alternates: Vec::new(),
                provider: Arc::new(Broken { place }),
            };
            Arc::new(Model::new(definition).expect("a model without a schema"))
        };
        Ok(KindPartner {
            name: "Broken".to_owned(),
            models: PLACES.into_iter().map(model).collect(),
        })
    }
}

/// A router on a socket, whose account `local` has room for one call of 4 cents at a time, and 8 cents in all.
struct House {
    address: SocketAddr,
    store: Store,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
    background: Background,
    _folder: TempDir,
}

impl House {
    async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let config = config(folder.path());
        let store = Store::open(&folder.path().join("data")).expect("an installation");
        let accounts = Arc::new(store.accounts());
        let local = AccountId::local();
        let made = accounts::ensure_local(accounts.as_ref(), Timestamp::now()).await;
        made.expect("the store answers");
        let changes = vec![
            AccountChange::Billed(true),
            AccountChange::ConcurrentCalls(Some(1)),
            AccountChange::CommittedSpendCents(Some(4)),
        ];
        let changed = accounts.change(&local, changes).await;
        changed.expect("the store answers");
        let cause = accounts::LedgerRef::Grant(Uuid::from_u128(1));
        let granted = accounts.grant(&local, cause, 8, Timestamp::now()).await;
        granted.expect("the store answers");

        let mut metrics = Metrics::new("easel-router", "0");
        let stats = Arc::new(ServerStats::default());
        let requests = HttpMetrics::register(&mut metrics, Arc::clone(&stats));
        let installation = store.installation();
        let stack = RouterStack::open_with(
            &installation,
            &config.router,
            OwnModels {
                kinds: vec![Arc::new(BrokenKind)],
                graphs: None,
            },
            &mut metrics,
            &requests,
        );
        let stack = stack.await.expect("a router");
        let identity = config.server.access.identity(accounts).expect("a token");
        let api = stack.api(&config.server, identity).expect("an API");
        let sweeps = Sweeps::register(Arc::new(store.records()), &mut metrics);
        let background = stack.start(sweeps).await.expect("nothing to recover");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve(listener, api, ServerLimits::default(), stats, stopped).await;
        });
        Self {
            address,
            store,
            stop,
            serving,
            background,
            _folder: folder,
        }
    }

    /// Calls a model, and answers the head and the body.
    async fn call(&self, model: &str, key: Option<&str>) -> Reply {
        let key = key.map_or(String::new(), |key| format!("Idempotency-Key: {key}\r\n"));
        let request = format!(
            "POST /v1/models/broken/{model} HTTP/1.1\r\nHost: easel.test\r\nAuthorization: Bearer {TOKEN}\r\n{key}\
             Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        );
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it answers");
        Reply::read(&text)
    }

    /// Ends the router well, and answers what it wrote down of every call, oldest first.
    async fn record(self) -> Vec<UsageRow> {
        drop(self.stop);
        self.serving.await.expect("it ends");
        self.background.drain(Duration::from_secs(60)).await;
        let rows = self.store.calls().export(UsageQuery::default());
        rows.map(|row| row.expect("the rows are read"))
            .collect()
            .await
    }
}

fn config(folder: &Path) -> Config {
    let command = Settings::flags(Command::new("server"), KEYS);
    let data = folder.join("data");
    let arguments = ["server", "--token", TOKEN, "--data-dir"].map(str::to_owned);
    let data = data.to_str().expect("a path of letters").to_owned();
    let matches = command.get_matches_from(arguments.into_iter().chain([data]));
    let settings = Settings::gather(KEYS, &matches, Vec::new());
    Config::read(&mut settings.expect("settings")).expect("a configuration")
}

/// An answer, with what changes from request to request set apart.
#[derive(Debug)]
struct Reply {
    request: String,
    /// Status, sorted headers and body, whole.
    text: String,
}

impl Reply {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut lines: Vec<&str> = head.split("\r\n").collect();
        let status = lines.remove(0);
        let value = |name: &str| {
            let line = lines.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}"))
                .to_owned()
        };
        let request = value("x-service-request-id: ");
        assert!(Uuid::parse_str(&request).is_ok(), "{request}");
        assert_eq!(value("x-comfy-request-id: "), request);
        assert_eq!(value("content-length: "), body.len().to_string());
        value("date: ");
        let varies = [
            "x-service-request-id",
            "x-comfy-request-id",
            "content-length",
            "date",
        ];
        lines.retain(|line| !varies.iter().any(|name| line.starts_with(name)));
        lines.sort_unstable();
        Self {
            text: format!("{status}\n{}\n\n{body}", lines.join("\n")),
            request,
        }
    }
}

/// The whole of a 500, with further headers.
fn failed(detail: &str, further: &[&str]) -> String {
    let mut headers = vec![
        "cache-control: no-store",
        "connection: close",
        "content-type: application/json",
        "x-comfy-error-type: internal_error",
        "x-content-type-options: nosniff",
        "x-service-error-type: internal_error",
    ];
    headers.extend(further);
    headers.sort_unstable();
    format!(
        "HTTP/1.1 500 Internal Server Error\n{}\n\n{{\"detail\":\"{detail}\",\"error_type\":\"internal_error\"}}",
        headers.join("\n")
    )
}

#[tokio::test]
async fn a_panic_before_the_partner_is_asked_frees_key_room_and_credits() {
    let house = House::open().await;
    let expected = failed("the router failed to handle the request", &[]);
    let mut requests = Vec::new();
    for _ in 0..2 {
        // Not replayed: the key was free again.
        let reply = house.call("price", Some("k")).await;
        assert_eq!(reply.text, expected);
        requests.push(reply.request);
    }
    let fine = house.call("nowhere", None).await;
    assert!(fine.text.starts_with("HTTP/1.1 200 OK\n"), "{}", fine.text);

    let record = house.record().await;
    assert_eq!(record.len(), 3);
    for (row, request) in record.iter().zip(&requests) {
        assert_eq!(row.call.request.to_string(), *request);
        assert_eq!(name(row), Some("internal_error"));
        assert!(row.call.delivered && !row.call.replayed);
        assert_eq!((row.call.generation, &row.generation), (None, &None));
    }
}

#[tokio::test]
async fn a_panic_after_that_consumes_the_key_and_is_not_billed() {
    for place in ["submit", "collect"] {
        let house = House::open().await;
        let detail = "the router failed while the call was running";
        let first = house.call(place, Some("k")).await;
        assert_eq!(first.text, failed(detail, &[]), "{place}");
        let again = house.call(place, Some("k")).await;
        let replayed = failed(detail, &["idempotent-replayed: true"]);
        assert_eq!(again.text, replayed, "{place}");
        assert_ne!(again.request, first.request);

        // Room and credits are free again: two calls of 4 cents fit, one after the other.
        for _ in 0..2 {
            let fine = house.call("nowhere", None).await;
            assert!(fine.text.starts_with("HTTP/1.1 200 OK\n"), "{}", fine.text);
        }
        let credits = house
            .store
            .accounts()
            .credits(&AccountId::local(), Timestamp::now())
            .await;
        let credits = credits.expect("the store answers");
        assert_eq!(
            (credits.balance_cents, credits.held_cents),
            (0, 0),
            "{place}"
        );

        let record = house.record().await;
        let [broken, told_again, fine, finer] = record.as_slice() else {
            panic!("{record:?}")
        };
        for (row, request, replayed) in [
            (broken, &first.request, false),
            (told_again, &again.request, true),
        ] {
            assert_eq!(row.call.request.to_string(), *request);
            assert_eq!(name(row), Some("internal_error"));
            assert_eq!((row.call.replayed, row.call.delivered), (replayed, true));
            let generation = row.generation.as_ref().expect("it was dispatched");
            let bucket = generation.bucket.map(|bucket| bucket.name());
            assert_eq!(bucket, Some("internal_error"));
            assert_eq!(generation.charge_cents, Some(0));
            let task = (place == "collect").then_some("task-1");
            assert_eq!(generation.task_id.as_deref(), task);
        }
        assert_eq!(broken.call.generation, told_again.call.generation);
        assert_eq!((name(fine), name(finer)), (None, None));
    }
}

fn name(row: &UsageRow) -> Option<&'static str> {
    row.call.bucket.map(|bucket| bucket.name())
}
