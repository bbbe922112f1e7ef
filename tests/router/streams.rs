//! Answers that come as server-sent events, over real sockets: each event is with the caller before the partner may send the
//! next one.

use accounts::AccountChange;
use it::Http2;
use it::http2::{Event, OPEN_WINDOW, Piece};
use it::partners::{Fault, Outcome, Partner, Plan, Step, sheets};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;

use super::*;

pub(crate) const MODEL: &str = "anthropic/claude-haiku-4-5-20251001";

/// What the stream of the sheet costs: 210,000 tokens in and 31,000 out, and 1 out before it is cut.
const WHOLE_CENTS: u64 = 37;
const CUT_CENTS: u64 = 22;

pub(crate) fn partner() -> Partner {
    let sheet = sheets().iter().find(|sheet| sheet.name == "anthropic");
    Partner::of_sheet(sheet.unwrap())
}

pub(crate) fn body() -> Value {
    json!({"max_tokens": 64, "messages": [{"role": "user", "content": "Hi"}], "stream": true})
}

/// The stream of the sheet.
fn stream() -> &'static str {
    let mut calls = sheets().iter().flat_map(|sheet| &sheet.calls);
    let call = calls.find(|call| call.examples.iter().any(|one| one.id == MODEL));
    &call.unwrap().stream.as_ref().unwrap().succeeded
}

/// Its events, each with the empty line behind it.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let events = stream().split_inclusive("\n\n");
    events.map(|event| event.as_bytes().to_vec()).collect()
}

/// A router whose next call of the model is answered event by event.
async fn rig(accounts: &[Differs<'_>]) -> Rig {
    let mut rig = Rig::with(&[], accounts).await;
    rig.end().await;
    let key = ("ANTHROPIC_API_KEY".to_owned(), partner().secret());
    rig.launch.variables.push(key);
    rig.begin().await;
    rig
}

impl Rig {
    fn holds_events_back(&self, is_cut: bool) {
        let pieces = Fault::Pieces(events(), is_cut);
        self.partners.fault(partner(), Step::Submit, pieces);
    }

    /// Sends a call, and reads the head of its answer, which is a stream.
    async fn opened(&self, request: &Request) -> it::Connection {
        let address = self.server().address;
        let mut connection = it::Connection::open(address).await.unwrap();
        connection.write(&request.bytes(address)).await.unwrap();
        let (status, headers) = connection.head().await.unwrap();
        let head: Vec<(&str, &str)> = headers.iter().collect();
        assert_eq!(status, 200, "{head:?}");
        assert_eq!(headers.get("content-type"), Some("text/event-stream"));
        assert_eq!(headers.get("cache-control"), Some("no-store"));
        assert_eq!(headers.get("content-length"), None);
        assert!(headers.get("x-service-request-id").is_some());
        connection
    }

    /// The answer to a call while the partner is let go on and on.
    async fn answered(&self, request: Request) -> Answer {
        let mut answer = std::pin::pin!(self.send(request));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = tokio::task::yield_now() => self.partners.release(),
            }
        }
    }

    /// The buckets of the calls, and what was charged for the first.
    async fn on_record(&mut self) -> (Vec<Option<&'static str>>, Option<u64>) {
        let record = self.record().await;
        let buckets = record.iter().map(|row| row.call.bucket);
        let buckets = buckets.map(|bucket| bucket.map(|bucket| bucket.name()));
        let generation = record[0].generation.as_ref().unwrap();
        (buckets.collect(), generation.charge_cents)
    }
}

fn keyed() -> Request {
    call_of("acme", MODEL, &body()).header("Idempotency-Key", "k")
}

#[tokio::test]
async fn each_event_is_there_before_the_partner_sends_the_next_one() {
    let mut rig = rig(&[]).await;
    rig.holds_events_back(false);
    let mut connection = rig.opened(&keyed()).await;
    for event in events() {
        let came = connection.chunk().await.unwrap();
        assert_eq!(came.as_deref(), Some(&event[..]));
        rig.partners.release();
    }
    assert_eq!(connection.chunk().await.unwrap(), None);
    // The connection is good for another call: the same key, which tells the whole stream again.
    let again = keyed().bytes(rig.server().address);
    let again = connection.send(&again).await.unwrap();
    assert_eq!((again.status, again.text()), (200, stream().to_owned()));
    assert_eq!(again.header("content-type"), Some("text/event-stream"));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(rig.submits(partner()), 1);
    let record = rig.on_record().await;
    assert_eq!(record, (vec![None, None], Some(WHOLE_CENTS)));
}

#[tokio::test]
async fn events_come_over_http_2_one_by_one_and_a_cut_resets_the_stream() {
    let mut rig = rig(&[]).await;
    for is_cut in [false, true] {
        rig.holds_events_back(is_cut);
        let stream = TcpStream::connect(rig.server().address).await.unwrap();
        let mut http2 = Http2::begin(stream, OPEN_WINDOW).await.unwrap();
        let call = call_of("acme", MODEL, &body());
        http2.send(&call).await.unwrap();
        let head = http2.next().await.unwrap();
        assert!(matches!(head, Event::Head { status: 200, .. }), "{head:?}");
        for event in events() {
            assert_eq!(http2.piece().await.unwrap(), Piece::Data(event));
            rig.partners.release();
        }
        let end = if is_cut { Piece::Reset } else { Piece::End };
        assert_eq!(http2.piece().await.unwrap(), end);
    }
    let (buckets, charge) = rig.on_record().await;
    assert_eq!(buckets, [None, Some("provider_error")]);
    assert_eq!(charge, Some(WHOLE_CENTS));
}

#[tokio::test]
async fn a_cut_after_the_first_event_cuts_the_caller_and_starts_nothing_again() {
    let mut rig = rig(&[]).await;
    let first = events().remove(0);
    let pieces = Fault::Pieces(vec![first.clone()], true);
    rig.partners.fault(partner(), Step::Submit, pieces);
    let mut connection = rig.opened(&keyed()).await;
    assert_eq!(connection.chunk().await.unwrap(), Some(first));
    rig.partners.release();
    let rest = connection.until_closed().await.unwrap();
    assert_eq!(rest, b"", "no last chunk");
    let again = rig.send(keyed()).await;
    assert_error(
        &again,
        502,
        "provider_error",
        "the connection to the provider broke; the outcome is unknown; use a new key to run again",
        &["idempotent-replayed: true"],
    );
    assert_eq!(rig.submits(partner()), 1);
    let failed = Some("provider_error");
    let record = rig.on_record().await;
    assert_eq!(record, (vec![failed, failed], Some(CUT_CENTS)));
}

#[tokio::test]
async fn who_leaves_in_the_middle_is_billed_and_finds_all_of_it_behind_the_key() {
    let mut rig = rig(&[]).await;
    rig.holds_events_back(false);
    let mut connection = rig.opened(&keyed()).await;
    connection.chunk().await.unwrap();
    let taken = rig.send(keyed()).await;
    assert_eq!(taken.status, 409, "one takes it already: {}", taken.text());
    drop(connection);
    // Until the server has noticed that, the key is taken.
    let answer = loop {
        let answer = rig.answered(keyed()).await;
        if answer.status != 409 {
            break answer;
        }
    };
    assert_eq!((answer.status, answer.text()), (200, stream().to_owned()));
    assert_eq!(rig.submits(partner()), 1);
    let (buckets, charge) = rig.on_record().await;
    assert_eq!(buckets[0], Some("client_disconnected"));
    assert_eq!((buckets.last(), charge), (Some(&None), Some(WHOLE_CENTS)));
}

#[tokio::test]
async fn killed_in_the_middle_the_outcome_is_unknown_and_not_billed() {
    let mut rig = rig(&[]).await;
    rig.holds_events_back(false);
    let mut connection = rig.opened(&keyed()).await;
    connection.chunk().await.unwrap();
    rig.kill().await;
    rig.begin().await;
    let answer = rig.send(keyed()).await;
    assert_error(
        &answer,
        502,
        "provider_error",
        "the outcome at the partner is unknown; use a new key",
        &["idempotent-replayed: true"],
    );
    assert_eq!(rig.submits(partner()), 1);
    assert_eq!(rig.on_record().await.1, Some(0));
}

#[tokio::test]
async fn a_stream_holds_the_room_of_its_call() {
    let one = vec![AccountChange::ConcurrentCalls(Some(1))];
    let rig = rig(&[("narrow", one)]).await;
    rig.holds_events_back(false);
    let call = call_of("narrow", MODEL, &body());
    let mut connection = rig.opened(&call).await;
    connection.chunk().await.unwrap();
    let refused = rig.send(call.clone()).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    rig.partners.release();
    while connection.chunk().await.unwrap().is_some() {
        rig.partners.release();
    }
    let answer = rig.send(call).await;
    assert_eq!((answer.status, answer.text()), (200, stream().to_owned()));
}

#[tokio::test]
async fn a_refusal_before_the_first_event_is_an_ordinary_error() {
    let rig = rig(&[]).await;
    let refusals = [
        (Outcome::RefuseInput, 422, "invalid_input"),
        (Outcome::RefusePolicy, 400, "content_policy_violation"),
        (Outcome::RefuseFunds, 503, "service_unavailable"),
    ];
    for (outcome, status, bucket) in refusals {
        rig.partners.plan(partner(), Plan::of(outcome));
        let answer = rig.call(MODEL, &body()).await;
        let told = (answer.status, answer.header("x-service-error-type"));
        assert_eq!(told, (status, Some(bucket)), "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn a_queued_request_has_the_whole_stream_as_its_result() {
    let rig = rig(&[]).await;
    let path = format!("/v1/models/{MODEL}/requests");
    let submitted = rig
        .send(of("acme", Request::post_json(&path, &body())))
        .await;
    assert_eq!(submitted.status, 201, "{}", submitted.text());
    let id = submitted.json()["request_id"].as_str().unwrap().to_owned();
    let result = loop {
        let result = rig.get(&format!("{path}/{id}")).await;
        if result.status != 202 {
            break result;
        }
    };
    assert_eq!((result.status, result.text()), (200, stream().to_owned()));
    let content_type = result.header("content-type");
    assert_eq!(content_type, Some("text/event-stream; charset=utf-8"));
}

#[tokio::test]
async fn catalog_try_prints_each_event_before_the_partner_sends_the_next_one() {
    let rig = rig(&[]).await;
    rig.holds_events_back(false);
    let file = rig.folder.path().join("body.json");
    std::fs::write(&file, body().to_string()).unwrap();
    // As the server was started, but for what is the server's alone.
    let given = rig.launch.arguments.iter();
    let mut given = given
        .skip_while(|one| one.as_os_str() != "--catalog")
        .take(4);
    let mut child = tokio::process::Command::new(it::process::binary_of("router-server"))
        .args(given.by_ref())
        .args(["catalog", "try", MODEL, file.to_str().unwrap()])
        .envs(rig.launch.variables.iter().cloned())
        .env("EASEL_DATA_DIR", rig.folder.path().join("other"))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    let mut until = async |text: &str| {
        loop {
            let line = lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("{text} is not in {said:?}"));
            let is_there = line == text;
            said.push(line);
            if is_there {
                break;
            }
        }
    };
    until("< 200").await;
    for event in events() {
        let event = String::from_utf8(event).unwrap();
        for line in event.lines().filter(|line| !line.is_empty()) {
            until(line).await;
        }
        rig.partners.release();
    }
    let result = format!("Result: {} bytes of text/event-stream", stream().len());
    let last = loop {
        let line = lines.next_line().await.unwrap();
        let line = line.expect("it says how it ended");
        if line.starts_with("Result") {
            break line;
        }
    };
    assert!(last.starts_with(&result), "{last}");
    assert!(last.contains(", billed $"), "{last}");
    assert!(child.wait().await.unwrap().success());
    assert!(!said.concat().contains(&partner().secret()));
}
