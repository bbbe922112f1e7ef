//! Which trace a piece of work belongs to, as [W3C Trace Context](https://www.w3.org/TR/trace-context/) writes it.
//!
//! Spans are those of `tracing`, at the level TRACE and with the target [`TARGET`], so that nothing is done for them unless
//! something asks for them. These fields of a span mean more than an attribute:
//!
//! | field | meaning |
//! |---|---|
//! | `otel.name`, `otel.kind`, `otel.status_code` | the name, the kind and the status that are shown, as in other bridges to OpenTelemetry |
//! | `trace.parent` | the [`TraceContext`] that the span continues, in place of the span around it |
//! | `trace.start_ms` | when it began, in milliseconds since 1970, if that was before the span was made |
//!
//! A span that outlives the one around it, or is run by another process, has `parent: None` and a `trace.parent`.
//!
//! What reads spans is a subscriber, and this crate knows none: a program that has one says how it is asked ([`read_by`]).
//!
#![doc = include_str!("../README.md")]

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing::span::Id;
use tracing::{Dispatch, Span};

/// The target of spans that belong to traces.
pub const TARGET: &str = "easel::trace";

/// The header in which a context travels.
pub const HEADER: &str = "traceparent";

/// The length of a context in version 00.
const LENGTH: usize = 55;

/// Asks a subscriber for the context of one of its spans.
pub type Read = fn(&Dispatch, &Id) -> Option<TraceContext>;

static READ: OnceLock<Read> = OnceLock::new();

/// A span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: NonZeroU128,
    /// The span in it.
    pub span: NonZeroU64,
    /// Whether the trace is recorded.
    pub is_sampled: bool,
}

/// Says how contexts are read from the subscriber of this process. Only the first call counts.
pub fn read_by(read: Read) {
    // A second one would be the same program's.
    let _ = READ.set(read);
}

impl TraceContext {
    /// Reads the value of a header; `None` if it is none. A value of a later version is read as far as version 00 goes.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (known, more) = value.split_at_checked(LENGTH)?;
        let mut parts = known.split('-');
        let mut part = |digits: usize| {
            let part = parts.next()?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (part.len() == digits && part.bytes().all(is_hex)).then_some(part)
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        match version {
            "ff" => return None,
            "00" if !more.is_empty() => return None,
            _ if !more.is_empty() && !more.starts_with('-') => return None,
            _ => {}
        }
        Some(Self {
            trace: NonZeroU128::new(u128::from_str_radix(trace, 16).ok()?)?,
            span: NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?,
            is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        })
    }

    /// The context of a span, if it belongs to a trace.
    #[must_use]
    pub fn of(span: &Span) -> Option<Self> {
        let read = READ.get()?;
        span.with_subscriber(|(id, dispatch)| read(dispatch, id))?
    }

    /// The context of the span that this code runs in, if it belongs to a trace.
    #[must_use]
    pub fn current() -> Option<Self> {
        // One load where nothing asks for spans.
        if LevelFilter::current() < LevelFilter::TRACE {
            return None;
        }
        Self::of(&Span::current())
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_written_as_it_is_read() {
        let context = TraceContext::parse(GIVEN).expect("a context");
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), GIVEN);
        let dropped = GIVEN.replace("-01", "-00");
        let context = TraceContext::parse(&dropped).expect("a context");
        assert!(!context.is_sampled);
        assert_eq!(context.to_string(), dropped);
    }

    #[test]
    fn other_flags_and_later_versions_are_read_as_far_as_they_are_known() {
        for later in [
            GIVEN.replace("-01", "-ff"),
            GIVEN.replacen("00", "cc", 1),
            GIVEN.replacen("00", "cc", 1) + "-what-comes",
        ] {
            let context = TraceContext::parse(&later).expect("a context");
            assert_eq!(context.to_string(), GIVEN, "{later}");
        }
    }

    #[test]
    fn what_is_no_context_is_none() {
        for bad in [
            String::new(),
            "00".to_owned(),
            GIVEN.to_uppercase(),
            GIVEN[..54].to_owned(),
            format!("{GIVEN}-00"),
            format!(" {GIVEN}"),
            GIVEN.replacen("00", "ff", 1),
            GIVEN.replacen("00", "0x", 1),
            GIVEN.replacen("00", "cc", 1) + "x",
            GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GIVEN.replace("b7ad6b7169203331", &"0".repeat(16)),
            GIVEN.replace('b', "+"),
            GIVEN.replace('-', "_"),
            GIVEN.replacen('-', "é", 1),
        ] {
            assert_eq!(TraceContext::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn without_a_subscriber_nothing_belongs_to_a_trace() {
        let span = tracing::trace_span!(target: TARGET, "work");
        assert_eq!(TraceContext::of(&span), None);
        assert_eq!(TraceContext::current(), None);
    }
}
