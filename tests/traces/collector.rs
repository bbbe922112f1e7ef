//! A collector of OpenTelemetry: it takes what comes by OTLP over HTTP and remembers it, or never answers.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use it::partners::{Incoming, Reply, read};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A running collector. Dropping it cuts every connection.
pub(super) struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// What it does with what comes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Manner {
    Takes,
    /// It never answers.
    Hangs,
    /// It answers the first request with 503, and takes everything then.
    FirstBusy,
}

struct Shared {
    manner: Manner,
    came: Mutex<Came>,
    count: watch::Sender<usize>,
}

/// Everything that came.
#[derive(Default)]
pub(super) struct Came {
    requests: usize,
    /// The bytes of all bodies.
    pub(super) raw: Vec<u8>,
    /// The headers of all requests.
    pub(super) headers: Vec<(String, String)>,
    pub(super) resource: Vec<KeyValue>,
    pub(super) spans: Vec<Span>,
    pub(super) records: Vec<LogRecord>,
}

impl Collector {
    pub(super) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            manner,
            came: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let serving = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                connections.spawn(async move { drop(serve(stream, &shared).await) });
            }
        });
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// The variables of a program that exports to it: at once, so that no test waits for a batch.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "10"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        variables.into()
    }

    pub(super) fn came(&self) -> MutexGuard<'_, Came> {
        self.shared.came.lock().unwrap()
    }

    /// Waits until what came is as it is to be.
    pub(super) async fn until(&self, mut enough: impl FnMut(&Came) -> bool) {
        let mut count = self.shared.count.subscribe();
        let seen = count.wait_for(|_| enough(&self.came()));
        seen.await.unwrap();
    }

    /// Waits for the span of this name in a trace.
    pub(super) async fn span(&self, trace: &str, name: &str) -> Span {
        let found = |came: &Came| {
            let mut spans = came.spans.iter();
            let found = spans.find(|span| span.name == name && hex(&span.trace_id) == trace);
            found.cloned()
        };
        self.until(|came| found(came).is_some()).await;
        found(&self.came()).unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Came {
    fn take(&mut self, request: Incoming) {
        self.requests += 1;
        self.raw.extend_from_slice(&request.body);
        self.headers.extend(request.headers);
        match request.target.as_str() {
            "/v1/traces" => {
                let export = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
                for resource in export.resource_spans {
                    self.resource = resource.resource.unwrap().attributes;
                    let spans = resource.scope_spans.into_iter();
                    self.spans.extend(spans.flat_map(|scope| scope.spans));
                }
            }
            "/v1/logs" => {
                let export = ExportLogsServiceRequest::decode(&request.body[..]).unwrap();
                let scopes = export.resource_logs.into_iter();
                let scopes = scopes.flat_map(|resource| resource.scope_logs);
                let records = scopes.flat_map(|scope| scope.log_records);
                self.records.extend(records);
            }
            other => panic!("a collector has no {other}"),
        }
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        if shared.manner == Manner::Hangs {
            std::future::pending::<()>().await;
        }
        let is_first = shared.came.lock().unwrap().requests == 0;
        let reply = if is_first && shared.manner == Manner::FirstBusy {
            shared.came.lock().unwrap().requests += 1;
            Reply::of(503, "text/plain", "")
        } else {
            shared.came.lock().unwrap().take(request);
            Reply::of(200, "application/x-protobuf", "")
        };
        shared.count.send_modify(|count| *count += 1);
        stream.write_all(reply.head().as_bytes()).await?;
    }
    Ok(())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute as text.
pub(super) fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    let value = found.value.as_ref()?.value.as_ref()?;
    if let Value::StringValue(text) = value {
        return Some(text.clone());
    }
    if let Value::IntValue(number) = value {
        return Some(number.to_string());
    }
    panic!("{key}: {value:?}");
}
