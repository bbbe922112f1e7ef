//! The spans of a call and of its attempts. They cost nothing unless something asks for spans.

use trace_context::{TARGET, TraceContext};
use tracing::field::Empty;
use tracing::{Level, Span, enabled, trace_span};

use super::prepare::Order;
use crate::{Generation, ModelId, RouterError};

/// The span of the execution of a call. It continues the span of its request, which it may outlive.
pub(super) fn call(order: &Order) -> Span {
    trace_span!(
        target: TARGET,
        parent: None,
        "call",
        trace.parent = TraceContext::current().map(display),
        easel.model = %order.model.id(),
        easel.account = %order.caller.account,
        easel.bucket = Empty,
        otel.status_code = Empty,
    )
}

/// The span of the work at one partner, from the submission to its end.
pub(super) fn attempt(generation: &Generation, model: &ModelId) -> Span {
    trace_span!(
        target: TARGET,
        "attempt",
        easel.model = %model,
        easel.generation.id = %generation.id,
        easel.account = %generation.account,
    )
}

/// Notes how the call of the current span ended.
pub(super) fn ended<T>(result: &Result<T, RouterError>) {
    if !enabled!(target: TARGET, Level::TRACE) {
        return;
    }
    if let Err(error) = result {
        let span = Span::current();
        span.record("easel.bucket", error.bucket().name());
        span.record("otel.status_code", "ERROR");
    }
}
