//! Traces and logs for a collector: the real programs, a real socket, and a collector that takes, hangs or is not there.

mod collector;

use std::time::{Duration, Instant};

use it::comfy::Version;
use it::partners::{Partner, Partners, Step};
use it::process::binary;
use it::{Answer, Comfy, Launch, Request, Server};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use collector::{Collector, Manner, attribute, hex};

/// The trace of a caller, and the span in it that calls.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// The token of the server, which stands for the account `local`.
const TOKEN: &str = "a-token-of-a-test";

/// A model that is polled, and one that answers at once.
const POLLED: &str = "bfl/flux-2-pro";
const AT_ONCE: &str = "fal-sync/flux-schnell";

/// A program with every family, with partners and a collector.
struct Rig {
    collector: Collector,
    partners: Partners,
    folder: TempDir,
    server: Server,
}

impl Rig {
    async fn start(manner: Manner) -> Self {
        Self::with(manner, &[], &[]).await
    }

    /// With further flags and variables.
    async fn with(manner: Manner, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let collector = Collector::start(manner).await;
        let partners = Partners::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        crate::router::write_catalog(&folder.path().join("catalog"));
        let server = serve(&folder, &partners, &collector, flags, variables).await;
        Self {
            collector,
            partners,
            folder,
            server,
        }
    }

    async fn send(&self, request: Request) -> Answer {
        let request = request.header("Authorization", &format!("Bearer {TOKEN}"));
        self.server.send(&request).await.unwrap()
    }

    /// A counter of the program, by its line in the metrics up to the value.
    async fn counted(&self, line: &str) -> u64 {
        let metrics = self.send(Request::get("/metrics")).await.text();
        let mut values = metrics.lines().filter_map(|it| it.strip_prefix(line));
        let value = values.next().unwrap_or_else(|| panic!("{line}: {metrics}"));
        value.trim().parse().unwrap()
    }

    /// Submits a graph within the trace of a caller; answers the job's id.
    async fn submit(&self, graph: &Value) -> String {
        let request = Request::post_json("/api/v2/jobs", &json!({ "workflow": graph }));
        let answer = self.send(traced(request)).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

async fn serve(
    folder: &TempDir,
    partners: &Partners,
    collector: &Collector,
    flags: &[&str],
    variables: &[(&str, &str)],
) -> Server {
    let relocations = partners.relocations().into_iter();
    let relocations: Vec<String> = relocations
        .map(|(host, url)| format!("{host}={url}"))
        .collect();
    let catalog = folder.path().join("catalog").display().to_string();
    let relocations = relocations.join(",");
    let own = [
        "--catalog",
        &catalog,
        "--relocate-partners",
        &relocations,
        "--log-level",
        "debug",
        "--token",
        TOKEN,
    ];
    let keys = [
        ("BFL_API_KEY", Partner::Bfl.secret()),
        ("FAL_KEY", Partner::FalSync.secret()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=pictures".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment=test".to_owned()),
    ];
    let keys = keys.map(|(name, value)| (name.to_owned(), value));
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let launch = Launch {
        arguments: own.iter().chain(flags).map(Into::into).collect(),
        variables: collector
            .variables()
            .into_iter()
            .chain(keys)
            .chain(variables)
            .collect(),
        log: Some(folder.path().join("log")),
        ..Launch::of("all-in-one")
    };
    let started = Server::launch(&folder.path().join("data"), &launch).await;
    started.unwrap()
}

/// The request as one of a caller who traces.
fn traced(request: Request) -> Request {
    request.header("traceparent", &format!("00-{TRACE}-{CALLER}-01"))
}

fn call(model: &str) -> Request {
    let path = format!("/v1/models/{model}");
    Request::post_json(&path, &json!({"prompt": "a private prompt"}))
}

fn picture() -> Value {
    json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "a"}}
    })
}

/// Asserts that a span is within another one.
#[track_caller]
fn assert_within(inner: &Span, outer: &Span) {
    assert_eq!(hex(&inner.parent_span_id), hex(&outer.span_id), "{inner:?}");
    assert!(inner.start_time_unix_nano <= inner.end_time_unix_nano);
}

#[tokio::test]
async fn a_call_is_one_trace_from_the_caller_to_the_partner() {
    let rig = Rig::start(Manner::Takes).await;
    let answer = rig.send(traced(call(AT_ONCE))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let collector = &rig.collector;
    let request = "POST /v1/models/{provider}/{model}";
    let request = collector.span(TRACE, request).await;
    let call = collector.span(TRACE, "call").await;
    let attempt = collector.span(TRACE, "attempt").await;
    let exchange = collector.span(TRACE, "partner request").await;
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(request.kind, i32::from(SpanKind::Server as u8));
    assert_within(&call, &request);
    assert_within(&attempt, &call);
    assert_within(&exchange, &attempt);
    let id = answer.header("x-service-request-id").unwrap();
    for (span, key, value) in [
        (&request, "http.response.status_code", "200"),
        (&request, "http.route", "/v1/models/{provider}/{model}"),
        (&request, "easel.request.id", id),
        (&call, "easel.model", AT_ONCE),
        (&call, "easel.account", "local"),
        (&attempt, "easel.model", AT_ONCE),
        (&exchange, "http.response.status_code", "200"),
        (&exchange, "server.address", "127.0.0.1"),
    ] {
        let found = attribute(&span.attributes, key);
        assert_eq!(found.as_deref(), Some(value), "{}: {key}", span.name);
    }

    // The partner is told of the exchange, and the body is as it came.
    let asked = rig.partners.requests_of(Partner::FalSync, Step::Submit);
    let parent = asked[0].header("traceparent").unwrap();
    assert_eq!(parent, format!("00-{TRACE}-{}-01", hex(&exchange.span_id)));
    assert_eq!(asked[0].body, br#"{"prompt":"a private prompt"}"#);

    // Who exports, and with which headers.
    let came = collector.came();
    let resource = |key| attribute(&came.resource, key);
    assert_eq!(resource("service.name").as_deref(), Some("easel"));
    assert_eq!(resource("deployment").as_deref(), Some("test"));
    let tenant = ("x-tenant".to_owned(), "pictures".to_owned());
    assert!(came.headers.contains(&tenant));
}

#[tokio::test]
async fn a_polled_call_has_a_span_for_each_look_and_no_secret_in_any() {
    let rig = Rig::start(Manner::Takes).await;
    let answer = rig.send(traced(call(POLLED))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let collector = &rig.collector;
    let attempt = collector.span(TRACE, "attempt").await;
    let asked = rig.partners.requests().len();
    assert!(asked > 1, "it is polled");
    let exchanges = |spans: &[Span]| {
        let exchanges = spans.iter().filter(|span| span.name == "partner request");
        exchanges.cloned().collect::<Vec<_>>()
    };
    let all = |came: &collector::Came| exchanges(&came.spans).len() == asked;
    collector.until(all).await;
    let told: Vec<String> = rig.partners.requests().iter().map(parent_of).collect();
    for exchange in exchanges(&collector.came().spans) {
        assert_within(&exchange, &attempt);
        assert!(told.contains(&format!("00-{TRACE}-{}-01", hex(&exchange.span_id))));
    }

    let Rig {
        server, collector, ..
    } = rig;
    assert!(server.terminate().await.unwrap().success());
    // The end of the program delivers what waits; of its log, the last line too.
    let last = |came: &collector::Came| {
        let bodies = came
            .records
            .iter()
            .map(|record| format!("{:?}", record.body));
        bodies.into_iter().any(|body| body.contains("stopped"))
    };
    assert!(last(&collector.came()));
    let raw = String::from_utf8_lossy(&collector.came().raw).into_owned();
    let told = [TOKEN, "a private prompt"].map(str::to_owned);
    for secret in told.into_iter().chain([Partner::Bfl.secret()]) {
        assert!(!raw.contains(&secret), "{secret} was exported");
    }
}

fn parent_of(request: &it::partners::Recorded) -> String {
    request.header("traceparent").unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_job_continues_the_trace_of_its_submission() {
    let rig = Rig::start(Manner::Takes).await;
    let id = rig.submit(&picture()).await;
    let collector = &rig.collector;
    let request = collector.span(TRACE, "POST /api/v2/jobs").await;
    let job = collector.span(TRACE, "job").await;
    let wait = collector.span(TRACE, "queue wait").await;
    let run = collector.span(TRACE, "run").await;
    assert_within(&job, &request);
    assert_within(&wait, &job);
    assert_within(&run, &job);
    for class in ["EmptyImage", "SaveImage"] {
        let node = collector.span(TRACE, class).await;
        assert_within(&node, &run);
        assert_eq!(
            attribute(&node.attributes, "easel.node.class").as_deref(),
            Some(class)
        );
    }
    let of_job = |key| attribute(&job.attributes, key);
    assert_eq!(of_job("easel.job.id"), Some(id));
    assert_eq!(of_job("easel.job.status").as_deref(), Some("succeeded"));
    // The wait begins with the job and not with its claim.
    assert_eq!(wait.start_time_unix_nano, job.start_time_unix_nano);
    assert!(wait.end_time_unix_nano <= run.end_time_unix_nano);
}

#[tokio::test]
async fn a_worker_is_told_of_the_run() {
    let worker = Comfy::start(Version::Recorded).await.unwrap();
    let url = worker.url();
    let rig = Rig::with(Manner::Takes, &["--comfyui", &url], &[]).await;
    let graph = json!({
        "1": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 7}},
        "2": {"class_type": "Wait", "inputs": {"image": ["1", 0], "steps": 1}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "a"}}
    });
    // It is refused until the server knows what the worker has.
    let mut knows = false;
    while !knows {
        let known = rig.send(Request::get("/api/object_info/Wait")).await;
        knows = known.json().get("Wait").is_some();
    }
    rig.submit(&graph).await;
    let run = rig.collector.span(TRACE, "run").await;
    let told = format!("00-{TRACE}-{}-01", hex(&run.span_id));
    assert_eq!(worker.traces(), [told]);
}

#[tokio::test]
async fn what_is_no_trace_begins_a_new_one_and_what_is_not_recorded_stays_so() {
    let rig = Rig::start(Manner::Takes).await;
    for header in [
        "00-0-0-01",
        "",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ] {
        let answer = rig.send(call(AT_ONCE).header("traceparent", header)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // Two are none.
    let twice = traced(traced(call(AT_ONCE)));
    assert_eq!(rig.send(twice).await.status, 200);
    let unrecorded = format!("00-{TRACE}-{CALLER}-00");
    let answer = rig
        .send(call(AT_ONCE).header("traceparent", &unrecorded))
        .await;
    assert_eq!(answer.status, 200);

    let roots = |came: &collector::Came| {
        let spans = came.spans.iter();
        let requests = spans.filter(|span| span.name.starts_with("POST "));
        requests
            .filter(|span| span.parent_span_id.is_empty())
            .count()
    };
    rig.collector.until(|came| roots(came) == 4).await;
    let asked = rig.partners.requests_of(Partner::FalSync, Step::Submit);
    let told: Vec<String> = asked.iter().map(parent_of).collect();
    assert!(told[..4].iter().all(|told| !told.contains(TRACE)));
    assert!(told[4].starts_with(&format!("00-{TRACE}-")) && told[4].ends_with("-00"));

    let Rig {
        server, collector, ..
    } = rig;
    assert!(server.terminate().await.unwrap().success());
    let came = collector.came();
    assert!(came.spans.iter().all(|span| hex(&span.trace_id) != TRACE));
}

#[tokio::test]
async fn a_collector_that_hangs_costs_spans_and_no_request() {
    let rig = Rig::with(
        Manner::Hangs,
        &[],
        &[
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
        ],
    )
    .await;
    for _ in 0..20 {
        let answer = rig.send(traced(call(AT_ONCE))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let lost = |reason| format!(r#"easel_otlp_lost_total{{signal="spans",reason="{reason}"}}"#);
    while rig.counted(&lost("undelivered")).await == 0 {}
    assert!(rig.counted(&lost("queue_full")).await > 0);
    let delivered = r#"easel_otlp_delivered_total{signal="spans"}"#;
    assert_eq!(rig.counted(delivered).await, 0);
    assert_eq!(
        rig.log()
            .matches("does not accept spans and log records")
            .count(),
        2
    );

    // The end waits for it for a moment at most.
    let began = Instant::now();
    assert!(rig.server.terminate().await.unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn a_collector_that_is_away_costs_spans_and_no_request() {
    let rig = Rig::with(
        Manner::Takes,
        &[],
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
        ],
    )
    .await;
    let answer = rig.send(traced(call(AT_ONCE))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let lost = r#"easel_otlp_lost_total{signal="spans",reason="undelivered"}"#;
    while rig.counted(lost).await == 0 {}
    // Logs go elsewhere, and arrive.
    rig.collector.until(|came| !came.records.is_empty()).await;
    assert!(rig.collector.came().spans.is_empty());
}

#[tokio::test]
async fn a_busy_collector_gets_the_same_batch_again() {
    let rig = Rig::with(Manner::FirstBusy, &[], &[("OTEL_LOGS_EXPORTER", "none")]).await;
    let answer = rig.send(traced(call(AT_ONCE))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    rig.collector.span(TRACE, "partner request").await;
    let lost = r#"easel_otlp_lost_total{signal="spans",reason="undelivered"}"#;
    assert_eq!(rig.counted(lost).await, 0);
    assert!(rig.collector.came().records.is_empty());
}

#[tokio::test]
async fn a_variable_that_makes_no_sense_ends_the_start() {
    let data = tempfile::tempdir().unwrap();
    let output = tokio::process::Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data.path())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .kill_on_drop(true)
        .output();
    let output = output.await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "error: OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`; set it to http/protobuf, and the address to that port of the \
                    collector, mostly 4318\n";
    assert_eq!(told, expected);
}
