//! Makes spans of OpenTelemetry of those of `tracing`, and log records of its events.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::time::{Duration, UNIX_EPOCH};

use hyper_kit::error_chain;
use opentelemetry::logs::{AnyValue, LogRecord, Logger, Severity};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::logs::SdkLogger;
use opentelemetry_sdk::trace::{SdkTracer, Span};
use trace_context::{TARGET, TraceContext};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{self, Layer};
use tracing_subscriber::registry::{LookupSpan, Registry, SpanRef};

/// Longer texts are cut: a value comes from who names a class, or from an error.
const MOST_BYTES: usize = 1024;

/// Fills the queues.
#[derive(Debug, Default)]
pub(crate) struct OtlpLayer {
    pub(super) tracer: Option<SdkTracer>,
    pub(super) logger: Option<SdkLogger>,
}

/// What a span of `tracing` has with it.
struct Traced {
    context: TraceContext,
    span: Span,
}

/// The fields of a span or an event.
#[derive(Default)]
struct Fields {
    /// `otel.name`.
    name: Option<String>,
    /// `otel.kind`.
    kind: Option<SpanKind>,
    /// `otel.status_code`.
    is_error: bool,
    /// `trace.parent`.
    parent: Option<TraceContext>,
    /// `trace.start_ms`.
    start: Option<Duration>,
    /// The text of an event.
    message: Option<String>,
    others: Vec<KeyValue>,
}

/// The context of a span of the log of this process.
pub(super) fn context_of(dispatch: &Dispatch, id: &Id) -> Option<TraceContext> {
    let registry: &Registry = dispatch.downcast_ref()?;
    traced(&registry.span(id)?)
}

/// The context of the innermost span that has one.
fn traced<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<TraceContext> {
    let mut scope = span.scope();
    scope.find_map(|span| Some(span.extensions().get::<Traced>()?.context))
}

impl<S> Layer<S> for OtlpLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: layer::Context<'_, S>) {
        let metadata = attributes.metadata();
        let (Some(tracer), Some(span)) = (&self.tracer, context.span(id)) else {
            return;
        };
        if metadata.target() != TARGET {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let remote = fields.parent;
        let around = || traced(&span.parent()?);
        let parent = match remote.or_else(around) {
            Some(parent) => {
                Context::new().with_remote_span_context(to_span_context(parent, remote.is_some()))
            }
            None => Context::new(),
        };
        let name = fields.name.unwrap_or_else(|| metadata.name().to_owned());
        let builder = SpanBuilder {
            span_kind: fields.kind,
            start_time: fields.start.map(|since| UNIX_EPOCH + since),
            attributes: Some(fields.others),
            ..SpanBuilder::from_name(name)
        };
        let started = builder.start_with_context(tracer, &parent);
        let traced = to_trace_context(started.span_context()).map(|context| Traced {
            context,
            span: started,
        });
        if let Some(traced) = traced {
            span.extensions_mut().insert(traced);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: layer::Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let mut extensions = span.extensions_mut();
        let Some(Traced { span, .. }) = extensions.get_mut() else {
            return;
        };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(name) = fields.name {
            span.update_name(name);
        }
        if fields.is_error {
            span.set_status(Status::error(""));
        }
        span.set_attributes(fields.others);
    }

    fn on_close(&self, id: Id, context: layer::Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let traced = span.extensions_mut().remove::<Traced>();
        if let Some(mut traced) = traced {
            traced.span.end();
        }
    }

    fn on_event(&self, event: &Event<'_>, context: layer::Context<'_, S>) {
        let Some(logger) = &self.logger else {
            return;
        };
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut record = logger.create_log_record();
        let now = std::time::SystemTime::now();
        record.set_timestamp(now);
        record.set_observed_timestamp(now);
        record.set_target(metadata.target());
        let severity = severity(metadata.level());
        record.set_severity_number(severity);
        record.set_severity_text(severity.name());
        record.set_body(AnyValue::from(fields.message.unwrap_or_default()));
        for KeyValue { key, value, .. } in fields.others {
            record.add_attribute(key, any(value));
        }
        if let Some(around) = context.event_span(event).and_then(|span| traced(&span)) {
            let around = to_span_context(around, false);
            let flags = Some(around.trace_flags());
            record.set_trace_context(around.trace_id(), around.span_id(), flags);
        }
        logger.emit(record);
    }
}

impl Fields {
    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "otel.name" => self.name = Some(cut(text)),
            "otel.kind" => self.kind = kind(&text),
            "otel.status_code" => self.is_error = text == "ERROR",
            "trace.parent" => self.parent = TraceContext::parse(&text),
            "message" => self.message = Some(cut(text)),
            _ => self.value(field, cut(text)),
        }
    }

    fn value(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.push(KeyValue::new(field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.text(field, error_chain(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "trace.start_ms" {
            self.start = u64::try_from(value).ok().map(Duration::from_millis);
        } else {
            self.value(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.value(field, value),
            Err(_) => self.value(field, value.to_string()),
        }
    }
}

/// A text as far as it is exported.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_BYTES));
    text
}

fn kind(word: &str) -> Option<SpanKind> {
    match word {
        "server" => Some(SpanKind::Server),
        "client" => Some(SpanKind::Client),
        "producer" => Some(SpanKind::Producer),
        "consumer" => Some(SpanKind::Consumer),
        _ => None,
    }
}

fn severity(level: &Level) -> Severity {
    match *level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

fn any(value: Value) -> AnyValue {
    match value {
        Value::Bool(value) => value.into(),
        Value::I64(value) => value.into(),
        Value::F64(value) => value.into(),
        Value::String(value) => value.into(),
        Value::Array(values) => values.to_string().into(),
        unknown => unknown.to_string().into(),
    }
}

fn to_span_context(context: TraceContext, is_remote: bool) -> SpanContext {
    SpanContext::new(
        TraceId::from(context.trace.get()),
        SpanId::from(context.span.get()),
        TraceFlags::default().with_sampled(context.is_sampled),
        is_remote,
        TraceState::default(),
    )
}

fn to_trace_context(context: &SpanContext) -> Option<TraceContext> {
    Some(TraceContext {
        trace: NonZeroU128::new(u128::from_be_bytes(context.trace_id().to_bytes()))?,
        span: NonZeroU64::new(u64::from_be_bytes(context.span_id().to_bytes()))?,
        is_sampled: context.is_sampled(),
    })
}

#[cfg(test)]
mod tests;
