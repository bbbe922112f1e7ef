//! The router alone, in a server of axum's: one model of the program's own, with keys that pay once, over a folder.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, ApiKey, MintedKey, Scopes, Tier, ensure_local};
use async_trait::async_trait;
use axum::extract::ConnectInfo;
use axum::routing::get;
use hyper_kit::{ConnectionInfo, Mounted, PublicAddress, ReadPace};
use identity::{Credentials, Identity};
use installation::{Installation, InstallationStore, OpenOptions, ReserveOptions};
use jiff::Timestamp;
use router_core::{
    Answer, BlockingPool, Catalog, Charge, ChargesOnPolicyRejection, Collected, Contact, CursorKey, Done,
    Failure, Handle, LiveCatalog, Model, ModelDefinition, ModelForm, OwnerId, Price, Provider,
    Router, RouterConfig, RouterPorts, Submission, Submitted, Timer,
};
use router_http::{RouterApi, RouterHttpConfig, RouterService};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use store_local::LocalStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// The clock and the threads of this program.
struct Runtime;

#[async_trait]
impl Timer for Runtime {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl BlockingPool for Runtime {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }
}

/// A model that answers with its own input, for two cents.
struct Echo;

#[async_trait]
impl Provider for Echo {
    async fn submit(&self, submission: Submission) -> Result<Submitted, Failure> {
        let answer = Answer {
            content_type: "application/json".to_owned(),
            body: submission.body,
        };
        Ok(Submitted::Done(Done {
            answer,
            charge: Charge::AsHeld,
            task_id: None,
        }))
    }

    async fn collect(&self, _: &Handle, _: &Contact) -> Result<Collected, Failure> {
        unreachable!("every submission is done at once")
    }

    async fn cancel(&self, _: &Handle) {}

    fn price(&self, _: &Value) -> Price {
        Price::Exact { cents: 2 }
    }
}

/// The API over one installation.
async fn api(installation: &Installation) -> Result<RouterApi, Box<dyn Error>> {
    let echo = Model::new(ModelDefinition {
        id: "own/echo".parse()?,
        charges_on_policy_rejection: ChargesOnPolicyRejection::No,
        input_schema: Some(json!({"type": "object", "required": ["prompt"]})),
        form: ModelForm::default(),
        polling: None,
        alternates: Vec::new(),
        provider: Arc::new(Echo),
    })?;
    let ports = RouterPorts {
        calls: installation.calls.calls.clone(),
        quota: installation.calls.quota.clone(),
        queue: installation.calls.queue.clone(),
        admissions: installation.calls.admissions.clone(),
        accounts: installation.accounts.clone(),
        timer: Arc::new(Runtime),
        threads: Arc::new(Runtime),
    };
    let secret = installation.keys.installation_secret().await?;
    let config = RouterConfig {
        deadline: Duration::from_secs(30),
        give_up_after: Duration::from_secs(3600),
        cursor_key: CursorKey::derived_from(&secret),
        owner: OwnerId(Uuid::new_v4()),
        lease: RouterConfig::LEASE,
        queue_time: RouterConfig::QUEUE_TIME,
        queue_bounds: RouterConfig::QUEUE_BOUNDS,
    };
    let catalog = LiveCatalog::new(Catalog::new(vec![Arc::new(echo)])?);
    let service = RouterService {
        router: Router::new(ports, catalog, config),
        usage: installation.calls.usage.clone(),
        results: None,
        identity: Identity::new(installation.accounts.clone(), Credentials::default()),
        clock: Arc::new(Runtime),
        executions: TaskTracker::new(),
        observer: Arc::new(|seen| println!("{} {}: {}", seen.method, seen.route, seen.status)),
        config: RouterHttpConfig {
            address: PublicAddress::default(),
            allowed_origins: Vec::new(),
            body_bytes: RouterHttpConfig::BODY_BYTES,
            read_pace: ReadPace::DEFAULT,
            aliases: true,
            mirror_headers: true,
            api_key_header: true,
            link_lifetime: RouterHttpConfig::LINK_LIFETIME,
        },
    };
    Ok(router_http::routes(service)?)
}

/// Adds a key of the account `local`.
async fn add_key(installation: &Installation) -> Result<MintedKey, Box<dyn Error>> {
    let mut random = [0; MintedKey::RANDOM_BYTES];
    for chunk in random.chunks_mut(16) {
        chunk.copy_from_slice(&Uuid::new_v4().as_bytes()[..chunk.len()]);
    }
    let minted = MintedKey::new(&random);
    let account = AccountId::local();
    let key = ApiKey {
        id: minted.id.clone(),
        name: (&account).into(),
        account,
        scopes: Scopes::standard(),
        created_at: Timestamp::now(),
        expires_at: None,
        revoked_at: None,
    };
    installation.account_admin.add_key(key, minted.hash()).await?;
    Ok(minted)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let options = OpenOptions {
        tier: Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    };
    let store = LocalStore::at(&folder.path().join("data"));
    let installation = store.open(options).await?;
    ensure_local(&*installation.account_admin, Timestamp::now()).await?;
    let key = add_key(&installation).await?;

    // The host's own routes, and those of the router behind them.
    let easel = Mounted::new(api(&installation).await?).with_connection(|extensions| {
        let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
        Some(ConnectionInfo::from_peer(*peer))
    });
    let app = axum::Router::new()
        .route("/about", get(|| async { "a host of its own" }))
        .fallback_service(easel);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });

    // What a client sees.
    let about = ask(address, "GET", "/about", "", "").await?;
    assert!(about.ends_with("a host of its own"), "{about}");
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/json\r\nIdempotency-Key: order-1\r\n",
        key.text.expose_secret()
    );
    let body = r#"{"prompt": "hi"}"#;
    for is_replayed in [false, true] {
        let answer = ask(address, "POST", "/v1/models/own/echo", &headers, body).await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with(body), "{answer}");
        let head = answer.to_ascii_lowercase();
        assert_eq!(head.contains("idempotent-replayed: true"), is_replayed, "{answer}");
    }
    installation.closing.write_back().await;
    Ok(())
}

/// One request over a connection of its own; the whole answer as text.
async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
