//! What becomes of spans and events, without a collector.

use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use tokio::sync::mpsc::{self, Receiver};
use tracing::{info_span, trace_span, warn};
use tracing_subscriber::layer::SubscriberExt;

use super::super::queue::{Queue, ScopedRecord};
use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What work leaves behind.
fn traced(work: impl FnOnce()) -> (Receiver<SpanData>, Receiver<ScopedRecord>) {
    let (spans, of_spans) = mpsc::channel(100);
    let (records, of_records) = mpsc::channel(100);
    let spans = Queue {
        sender: spans,
        counts: Arc::default(),
    };
    let records = Queue {
        sender: records,
        counts: Arc::default(),
    };
    let tracers = SdkTracerProvider::builder().with_span_processor(spans);
    let loggers = SdkLoggerProvider::builder().with_log_processor(records);
    let layer = OtlpLayer {
        tracer: Some(tracers.build().tracer("tests")),
        logger: Some(loggers.build().logger("tests")),
    };
    trace_context::read_by(context_of);
    tracing::subscriber::with_default(Registry::default().with(layer), work);
    (of_spans, of_records)
}

fn value(span: &SpanData, key: &str) -> Option<String> {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key.as_str() == key)?;
    Some(found.value.to_string())
}

#[test]
fn a_span_continues_its_parent_and_begins_when_it_says() {
    let (mut spans, _) = traced(|| {
        let parent = TraceContext::parse(PARENT).map(tracing::field::display);
        let span = trace_span!(target: TARGET, "work", trace.parent = parent, trace.start_ms = 1500, a = 7, b = true);
        let _inside = span.enter();
        let context = TraceContext::current().expect("it is traced");
        assert!(PARENT.contains(&format!("{:032x}", context.trace)) && context.is_sampled);
        drop(trace_span!(target: TARGET, "part"));
    });
    let part = spans.try_recv().expect("the part ends first");
    let work = spans.try_recv().expect("then the whole");
    assert_eq!(work.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(work.parent_span_is_remote && !part.parent_span_is_remote);
    assert_eq!(part.parent_span_id, work.span_context.span_id());
    assert_eq!(
        work.start_time,
        SystemTime::UNIX_EPOCH + Duration::from_millis(1500)
    );
    assert_eq!(value(&work, "a").as_deref(), Some("7"));
    assert_eq!(value(&work, "b").as_deref(), Some("true"));
    assert_eq!(value(&work, "trace.parent"), None);
}

#[test]
fn names_kinds_and_errors_are_told_later() {
    let (mut spans, _) = traced(|| {
        let span = trace_span!(
            target: TARGET,
            "work",
            otel.kind = "client",
            otel.name = tracing::field::Empty,
            otel.status_code = tracing::field::Empty,
            long = tracing::field::Empty,
        );
        span.record("otel.name", "GET /x");
        span.record("otel.status_code", "ERROR");
        span.record("long", "é".repeat(MOST_BYTES));
    });
    let span = spans.try_recv().expect("it ended");
    assert_eq!(span.name.as_ref(), "GET /x");
    assert_eq!(span.span_kind, SpanKind::Client);
    assert_eq!(span.status, Status::error(""));
    assert_eq!(
        value(&span, "long").map(|text| text.len()),
        Some(MOST_BYTES)
    );
}

#[test]
fn other_spans_are_none_and_what_is_not_recorded_is_passed_on() {
    let unrecorded = PARENT.replace("-01", "-00");
    let (mut spans, _) = traced(|| {
        assert_eq!(TraceContext::of(&info_span!("other")), None);
        let parent = TraceContext::parse(&unrecorded).map(tracing::field::display);
        let span = trace_span!(target: TARGET, "work", trace.parent = parent);
        let context = TraceContext::of(&span).expect("it has a context");
        assert!(!context.is_sampled);
        assert_ne!(context.to_string(), unrecorded);
    });
    assert!(spans.try_recv().is_err());
}

#[test]
fn a_record_has_its_level_its_fields_and_its_trace() {
    let (_, mut records) = traced(|| {
        let span = trace_span!(target: TARGET, "work");
        let _inside = span.enter();
        let error = std::io::Error::other("no disk");
        warn!(
            job = 7,
            error = &error as &dyn std::error::Error,
            "it is late"
        );
        drop(_inside);
        warn!("outside");
    });
    let record = records.try_recv().expect("a record");
    assert_eq!(record.0.severity_number(), Some(Severity::Warn));
    assert_eq!(record.0.body(), Some(&AnyValue::from("it is late")));
    let mut fields: Vec<String> = record
        .0
        .attributes_iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    fields.sort_unstable();
    assert_eq!(fields.len(), 2, "{fields:?}");
    assert!(fields[0].starts_with("error=") && fields[0].contains("no disk"));
    assert_eq!(fields[1], "job=Int(7)");
    assert!(record.0.trace_context().is_some());
    let record = records.try_recv().expect("another one");
    assert!(record.0.trace_context().is_none());
}
