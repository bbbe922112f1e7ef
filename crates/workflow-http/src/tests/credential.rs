//! Streams and sockets outlive the request that opened them by hours: what it presented is verified again meanwhile, and a store of
//! accounts that hangs keeps nothing back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use accounts::{
    AccountId, Accounts, AccountsError, CreditLedger, Credits, KeyHash, LedgerEntry, LedgerRef,
    MemoryAccounts, Payer, Principal, Reservation,
};
use async_trait::async_trait;
use http::Method;
use hyper_kit::{ServerLimits, ServerStats, SocketLimits, Sockets, serve};
use identity::{Credentials, Identity};
use jiff::Timestamp;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::events::{Frame, Reader};
use super::harness::{Rig, Server, graph, principal};
use crate::V1Service;

/// Far longer than anything here takes: reached only when the server hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two keys of one account, of which one is revoked.
const STAYS: &str = "easel_stays_0";
const REVOKED: &str = "easel_revoked_0";

/// Accounts that may stop answering.
struct Hanging {
    accounts: Arc<MemoryAccounts>,
    hangs: AtomicBool,
}

impl Hanging {
    async fn answer<T>(&self, answer: impl Future<Output = T>) -> T {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        answer.await
    }
}

#[async_trait]
impl Accounts for Hanging {
    async fn by_key(
        &self,
        key: &KeyHash,
        now: Timestamp,
    ) -> Result<Option<Principal>, AccountsError> {
        self.answer(self.accounts.by_key(key, now)).await
    }

    async fn by_id(&self, id: &AccountId) -> Result<Option<Principal>, AccountsError> {
        self.answer(self.accounts.by_id(id)).await
    }
}

/// No stream asks what is billed.
#[async_trait]
impl CreditLedger for Hanging {
    async fn credits(&self, _: &AccountId, _: Timestamp) -> Result<Credits, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn reserve(
        &self,
        _: Payer<'_>,
        _: LedgerRef,
        _: u32,
        _: Duration,
        _: Timestamp,
    ) -> Result<Reservation, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn renew(
        &self,
        _: &[(&AccountId, LedgerRef)],
        _: Duration,
        _: Timestamp,
    ) -> Result<Vec<usize>, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn settle(
        &self,
        _: &AccountId,
        _: LedgerRef,
        _: u32,
        _: Timestamp,
    ) -> Result<LedgerEntry, AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn release(&self, _: &AccountId, _: LedgerRef) -> Result<(), AccountsError> {
        unreachable!("nothing is billed")
    }

    async fn entries(
        &self,
        _: &AccountId,
        _: Option<u64>,
        _: usize,
    ) -> Result<Vec<LedgerEntry>, AccountsError> {
        unreachable!("nothing is billed")
    }
}

/// Streams of a job that waits and of its account, at the moment at which their credentials are asked for and nobody answers.
async fn asked_in_vain() -> (Server, [Reader; 2]) {
    let rig = Rig::new();
    let accounts = Arc::new(Hanging {
        accounts: Arc::clone(&rig.accounts),
        hangs: AtomicBool::new(false),
    });
    let server = rig.server(principal("local"), |service| {
        service.identity = Identity::none(accounts.clone(), AccountId::local());
    });
    let id = server.submit().await;
    let open = async |path: &str| Reader::new(server.open(Method::GET, path, &[], "").await);
    let mut of_job = open(&format!("/api/v2/jobs/{id}/events")).await;
    let mut of_account = open("/api/v2/events").await;
    of_job.event("status").await;
    of_job.event("progress").await;
    of_account.event("sync").await;
    accounts.hangs.store(true, Ordering::Relaxed);
    // Two times ten seconds.
    for _ in 0..2 {
        let silence = tokio::join!(of_job.next(), of_account.next());
        assert_eq!(silence, (Frame::Comment, Frame::Comment));
    }
    (server, [of_job, of_account])
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_keeps_no_event_back() {
    let (server, [mut of_job, mut of_account]) = asked_in_vain().await;
    server.rig.claim().await;
    let (of_job, of_account) = tokio::join!(of_job.event("status"), of_account.event("job"));
    assert_eq!(of_job["status"], "running");
    assert_eq!(of_account["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_no_store_that_hangs() {
    let (server, [mut of_job, mut of_account]) = asked_in_vain().await;
    let drain = async {
        sleep(Duration::from_secs(1)).await;
        server.service.drain.cancel();
        Instant::now()
    };
    let ended = async |reader: &mut Reader| (reader.next().await, Instant::now());
    let (drained, of_job, of_account) =
        tokio::join!(drain, ended(&mut of_job), ended(&mut of_account));
    assert_eq!(of_job, (Frame::End, drained));
    assert_eq!(of_account, (Frame::End, drained));
}

/// A server that knows the two keys, and how often its sockets are pinged.
fn with_two_keys(ping: Duration) -> Server {
    let rig = Rig::new();
    let mut acme = principal("acme");
    Arc::make_mut(&mut acme.tier).streams = 8;
    let limits = SocketLimits {
        ping,
        ..SocketLimits::DEFAULT
    };
    let older = V1Service {
        sockets: Sockets::new(limits, CancellationToken::new()),
        ..rig.older()
    };
    let identity = Identity::new(rig.accounts.clone(), Credentials::default());
    let server = rig.server(acme.clone(), |service| {
        service.v1 = Some(older);
        service.identity = identity;
    });
    for key in [STAYS, REVOKED] {
        rig.accounts.put_key(KeyHash::of(key), acme.clone());
    }
    server
}

async fn submit(server: &Server) -> String {
    let headers = [("content-type", "application/json"), ("x-api-key", STAYS)];
    let body = json!({ "workflow": graph() }).to_string();
    let answer = server.send(Method::POST, "/api/v2/jobs", &headers, body);
    let answer = answer.await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().map(str::to_owned);
    id.expect("an id")
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_whose_key_is_revoked_ends_and_no_other() {
    let server = with_two_keys(SocketLimits::DEFAULT.ping);
    let id = submit(&server).await;
    for path in [format!("/api/v2/jobs/{id}/events"), "/api/v2/events".into()] {
        server
            .rig
            .accounts
            .put_key(KeyHash::of(REVOKED), principal("acme"));
        let open = async |key| {
            let headers = [("x-api-key", key)];
            Reader::new(server.open(Method::GET, &path, &headers, "").await)
        };
        let (mut stays, mut of_revoked) = (open(STAYS).await, open(REVOKED).await);
        server.rig.accounts.revoke(&KeyHash::of(REVOKED));
        let until_end = async |reader: &mut Reader| while reader.next().await != Frame::End {};
        // The time of the streams, which passes at once.
        let ended = timeout(PATIENCE * 2, until_end(&mut of_revoked)).await;
        ended.expect("its key counts no more");
        let ended = timeout(PATIENCE * 2, until_end(&mut stays)).await;
        ended.expect_err("its key counts");
    }
}

/// What a socket's client hears, frame by frame; it answers pings meanwhile.
struct Client(mpsc::UnboundedReceiver<(u8, Vec<u8>)>);

const CLOSE: u8 = 8;
const PING: u8 = 9;

impl Client {
    async fn open(server: SocketAddr, path: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(server).await.expect("a listener");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
        let (tells, hears) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(frame) = frame(&mut stream).await {
                let is_heard = tells.send(frame).is_ok();
                if !is_heard {
                    break;
                }
            }
        });
        Self(hears)
    }

    /// What is in the next frame of this code.
    async fn until(&mut self, wanted: u8) -> Vec<u8> {
        let found = async {
            loop {
                let (code, bytes) = self.0.recv().await.expect("a frame");
                if code == wanted {
                    break bytes;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("it comes")
    }

    fn forget_what_came(&mut self) {
        while self.0.try_recv().is_ok() {}
    }
}

/// The code of the next frame and what is in it. A ping is answered.
async fn frame(stream: &mut BufReader<TcpStream>) -> io::Result<(u8, Vec<u8>)> {
    let code = stream.read_u8().await? & 0x0f;
    let length: u64 = match stream.read_u8().await? {
        126 => stream.read_u16().await?.into(),
        127 => stream.read_u64().await?,
        short => short.into(),
    };
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes).await?;
    if code == PING {
        // A pong, masked with zeros.
        stream.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await?;
    }
    Ok((code, bytes))
}

#[tokio::test]
async fn a_socket_whose_credential_counts_no_more_is_closed_and_no_other() {
    let server = with_two_keys(Duration::from_millis(20));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let (limits, stats) = (ServerLimits::default(), Arc::new(ServerStats::default()));
    let served = serve(
        listener,
        server.api.clone(),
        limits,
        stats,
        std::future::pending(),
    );
    tokio::spawn(served);
    let headers = [("content-type", "application/json")];
    let key = json!({ "key": STAYS }).to_string();
    let signed_in = server.send(Method::POST, "/api/session", &headers, key);
    let signed_in = signed_in.await;
    let cookie = signed_in.header("set-cookie").expect("a session");
    let cookie = cookie.split(';').next().expect("its name and value");

    let by_token = |key: &str| format!("/ws?token={key}");
    let mut stays = Client::open(address, &by_token(STAYS), "").await;
    let of_revoked = Client::open(address, &by_token(REVOKED), "").await;
    let of_signed_out = Client::open(address, "/ws", &format!("Cookie: {cookie}\r\n")).await;
    server.rig.accounts.revoke(&KeyHash::of(REVOKED));
    let headers = [("cookie", cookie)];
    let signed_out = server.send(Method::DELETE, "/api/session", &headers, "");
    assert_eq!(signed_out.await.status, 204);

    for mut socket in [of_revoked, of_signed_out] {
        assert_eq!(socket.until(CLOSE).await[..2], 1008_u16.to_be_bytes());
    }
    // It was asked about as often, and is asked again.
    stays.forget_what_came();
    for _ in 0..3 {
        stays.until(PING).await;
    }
}
