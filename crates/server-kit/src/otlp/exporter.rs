//! Empties the queues, on a thread of its own: whatever the collector does, nothing else of the process waits for it.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use hyper_kit::{AddressPolicy, Client, ClientConfig};
use opentelemetry::KeyValue;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, RetryPolicy, SpanExporter, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLoggerProvider};
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter as _};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::collector::CollectorClient;
use super::config::{Config, OtlpError, Signal};
use super::layer::OtlpLayer;
use super::queue::{Counts, Queue, ScopedRecord};

/// The instrumentation that spans and records are said to come from.
const SCOPE: &str = "easel";

/// The time for resolution, TCP and TLS.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the collector.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// What exports in the background.
#[derive(Debug)]
pub(super) struct Exporter {
    stop: CancellationToken,
    /// Closed when everything that waited is delivered or lost.
    over: Mutex<std_mpsc::Receiver<()>>,
    counts: [(&'static str, Arc<Counts>); 2],
}

impl Exporter {
    /// What became of spans and of log records.
    pub(super) fn counts(&self) -> [(&'static str, &Counts); 2] {
        self.counts
            .each_ref()
            .map(|(signal, counts)| (*signal, &**counts))
    }

    /// Delivers what waits, for a moment at most.
    pub(super) fn finish(&self) {
        self.stop.cancel();
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        // Either it is over, or there is no more time.
        let _ = over.recv_timeout(LAST_PATIENCE);
    }
}

/// Starts the thread, and makes the layer that fills its queues.
///
/// # Errors
/// If the environment makes no sense to the exporters, or there can be no thread.
pub(super) fn start(config: &Config) -> Result<(OtlpLayer, Exporter), OtlpError> {
    let resource = resource(config);
    let hosts = [&config.traces, &config.logs];
    let hosts = hosts
        .into_iter()
        .flatten()
        .map(|signal| signal.host.clone());
    let client = Client::new(ClientConfig {
        // The operator names the collector, which is mostly on this machine or beside it.
        policy: AddressPolicy {
            https_only: false,
            allow_private: hosts.collect(),
        },
        extra_ca_pem: config.extra_ca_pem.clone(),
        connect_timeout: CONNECT_PATIENCE,
        idle_per_host: 2,
        user_agent: concat!("easel-otlp/", env!("CARGO_PKG_VERSION"))
            .parse()
            .ok(),
        ..ClientConfig::default()
    });
    let client = client.map_err(OtlpError::NoCertificates)?;

    let (stop, counts) = (CancellationToken::new(), [(); 2].map(|()| Arc::default()));
    let [of_spans, of_records]: [Arc<Counts>; 2] = counts.clone();
    let mut work: Vec<BoxFuture<'static, ()>> = Vec::new();
    let mut layer = OtlpLayer::default();
    if let Some(signal) = &config.traces {
        let exporter = over(SpanExporter::builder().with_http(), &client);
        let mut exporter = exporter.build().map_err(|error| refused(&error))?;
        exporter.set_resource(&resource);
        let exporter = Arc::new(exporter);
        let (queue, taken) = queue(signal, &of_spans);
        let provider = SdkTracerProvider::builder().with_span_processor(queue);
        let provider = provider.with_resource(resource.clone()).build();
        layer.tracer = Some(provider.tracer(SCOPE));
        let drain = Drain::new("traces", signal, &stop, of_spans);
        work.push(Box::pin(drain.run(taken, move |batch| {
            let exporter = Arc::clone(&exporter);
            async move { exporter.export(batch).await }
        })));
    }
    if let Some(signal) = &config.logs {
        let exporter = over(LogExporter::builder().with_http(), &client);
        let mut exporter = exporter.build().map_err(|error| refused(&error))?;
        exporter.set_resource(&resource);
        let exporter = Arc::new(exporter);
        let (queue, taken) = queue(signal, &of_records);
        let provider = SdkLoggerProvider::builder().with_log_processor(queue);
        let provider = provider.with_resource(resource).build();
        layer.logger = Some(provider.logger(SCOPE));
        let drain = Drain::new("logs", signal, &stop, of_records);
        work.push(Box::pin(drain.run(taken, move |batch| {
            let exporter = Arc::clone(&exporter);
            async move { export_records(&exporter, &batch).await }
        })));
    }

    let [of_spans, of_records] = counts;
    let exporter = Exporter {
        over: Mutex::new(spawn(work).map_err(OtlpError::Thread)?),
        stop,
        counts: [("spans", of_spans), ("log_records", of_records)],
    };
    Ok((layer, exporter))
}

/// An exporter that sends with this client, each batch once: what waits behind one that is tried again would be lost.
fn over<B: WithHttpConfig>(exporter: B, client: &Client) -> B {
    exporter
        .with_http_client(CollectorClient(client.clone()))
        .with_retry_policy(RetryPolicy::disabled())
}

/// The queue of a signal, and what comes out of it.
fn queue<T>(signal: &Signal, counts: &Arc<Counts>) -> (Queue<T>, Receiver<T>) {
    let (sender, taken) = mpsc::channel(signal.queue);
    let counts = Arc::clone(counts);
    (Queue { sender, counts }, taken)
}

fn refused(error: &ExporterBuildError) -> OtlpError {
    OtlpError::Exporter(error.to_string())
}

/// Who exports: a service, an instance of it, and what the environment says besides, which wins.
fn resource(config: &Config) -> Resource {
    let instance = uuid::Uuid::new_v4().to_string();
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "easel"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
        ])
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
        ]);
    match &config.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    }
}

/// Starts the thread. What is answered is closed when all of the work is done.
fn spawn(work: Vec<BoxFuture<'static, ()>>) -> Result<std_mpsc::Receiver<()>, std::io::Error> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (working, over) = std_mpsc::channel();
    let thread = std::thread::Builder::new().name("otlp".to_owned());
    thread.spawn(move || {
        runtime.block_on(join_all(work));
        drop(working);
    })?;
    Ok(over)
}

async fn export_records(exporter: &LogExporter, batch: &[ScopedRecord]) -> OTelSdkResult {
    let batch: Vec<_> = batch.iter().map(|it| (&it.0, &it.1)).collect();
    exporter.export(LogBatch::new(&batch)).await
}

/// Empties one queue.
struct Drain {
    what: &'static str,
    batch: usize,
    delay: Duration,
    timeout: Duration,
    stop: CancellationToken,
    counts: Arc<Counts>,
    /// Whether the last batch was lost, of which the log has a line.
    is_failing: bool,
}

impl Drain {
    fn new(
        what: &'static str,
        signal: &Signal,
        stop: &CancellationToken,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            what,
            batch: signal.batch,
            delay: signal.delay,
            timeout: signal.timeout,
            stop: stop.clone(),
            counts,
            is_failing: false,
        }
    }

    /// Delivers batch after batch until the process ends and nothing waits any more.
    async fn run<T, D>(mut self, mut taken: Receiver<T>, deliver: impl Fn(Vec<T>) -> D)
    where
        D: Future<Output = OTelSdkResult>,
    {
        loop {
            let batch = self.gather(&mut taken).await;
            let items = batch.len();
            if items == 0 {
                return;
            }
            let delivered = match timeout(self.timeout, deliver(batch)).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the collector does not answer".to_owned()),
            };
            self.note(items, delivered);
        }
    }

    /// A full batch, or what came within the delay. Empty at the end alone.
    async fn gather<T>(&self, taken: &mut Receiver<T>) -> Vec<T> {
        let mut batch = Vec::new();
        let first = tokio::select! {
            first = taken.recv() => first,
            () = self.stop.cancelled() => {
                taken.close();
                taken.recv().await
            }
        };
        batch.extend(first);
        let filling = async {
            while !batch.is_empty() && batch.len() < self.batch {
                let room = self.batch - batch.len();
                if taken.recv_many(&mut batch, room).await == 0 {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = filling => {}
            () = sleep(self.delay) => {}
            () = self.stop.cancelled() => {}
        }
        batch
    }

    fn note(&mut self, items: usize, delivered: Result<(), String>) {
        let what = self.what;
        match delivered {
            Ok(()) => {
                Counts::add(&self.counts.delivered, items);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(what, "the collector accepts spans and log records again");
                }
            }
            Err(reason) => {
                Counts::add(&self.counts.undelivered, items);
                // One line for an outage: each batch of it would be another one.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(what, %reason, "the collector does not accept spans and log records; they are lost until it does");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(batch: usize, stop: &CancellationToken) -> (Drain, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let drain = Drain {
            what: "tests",
            batch,
            delay: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            stop: stop.clone(),
            counts: Arc::clone(&counts),
            is_failing: false,
        };
        (drain, counts)
    }

    #[tokio::test(start_paused = true)]
    async fn batches_are_full_or_as_old_as_the_delay() {
        let stop = CancellationToken::new();
        let (drain, _) = drain(3, &stop);
        let (sender, mut taken) = mpsc::channel(10);
        for n in 0..4 {
            sender.send(n).await.expect("it is open");
        }
        assert_eq!(drain.gather(&mut taken).await, [0, 1, 2]);
        let began = tokio::time::Instant::now();
        assert_eq!(drain.gather(&mut taken).await, [3]);
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_delivers_what_waits_without_the_delay() {
        let stop = CancellationToken::new();
        let (drain, counts) = drain(2, &stop);
        let (sender, taken) = mpsc::channel(10);
        for n in 0..5 {
            sender.send(n).await.expect("it is open");
        }
        stop.cancel();
        let began = tokio::time::Instant::now();
        let delivered = Mutex::new(Vec::new());
        let take = |batch: Vec<i32>| {
            delivered.lock().expect("no panic").extend(batch);
            async { Ok(()) }
        };
        drain.run(taken, take).await;
        assert_eq!(*delivered.lock().expect("no panic"), [0, 1, 2, 3, 4]);
        assert_eq!(Counts::get(&counts.delivered), 5);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_collector_that_hangs_costs_its_batch_and_no_more() {
        let stop = CancellationToken::new();
        let (drain, counts) = drain(2, &stop);
        let (sender, taken) = mpsc::channel(10);
        for n in 0..3 {
            sender.send(n).await.expect("it is open");
        }
        drop(sender);
        let deliver = |batch: Vec<i32>| async move {
            if batch.contains(&0) {
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        let began = tokio::time::Instant::now();
        drain.run(taken, deliver).await;
        let counted = (
            Counts::get(&counts.undelivered),
            Counts::get(&counts.delivered),
        );
        assert_eq!(counted, (2, 1));
        assert_eq!(began.elapsed(), Duration::from_secs(10));
    }
}
