//! A bounded queue of what is to be exported: putting something in never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord};
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc::Sender;

/// A log record with where it comes from.
pub(super) type ScopedRecord = Box<(SdkLogRecord, InstrumentationScope)>;

/// What became of spans, or of log records.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// The collector took them.
    pub(super) delivered: AtomicU64,
    /// Their queue was full.
    pub(super) refused: AtomicU64,
    /// The collector did not take them.
    pub(super) undelivered: AtomicU64,
}

/// The end of a queue that takes.
#[derive(Debug)]
pub(super) struct Queue<T> {
    pub(super) sender: Sender<T>,
    pub(super) counts: Arc<Counts>,
}

impl Counts {
    pub(super) fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    pub(super) fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(more as u64, Ordering::Relaxed);
    }
}

impl<T> Queue<T> {
    fn put(&self, item: T) {
        if self.sender.try_send(item).is_err() {
            Counts::add(&self.counts.refused, 1);
        }
    }
}

impl SpanProcessor for Queue<SpanData> {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.put(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl LogProcessor for Queue<ScopedRecord> {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        self.put(Box::new((record.clone(), scope.clone())));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_counts() {
        let (sender, mut taken) = tokio::sync::mpsc::channel(2);
        let counts = Arc::new(Counts::default());
        let queue = Queue {
            sender,
            counts: Arc::clone(&counts),
        };
        for n in 0..5 {
            queue.put(n);
        }
        assert_eq!(Counts::get(&counts.refused), 3);
        assert_eq!((taken.try_recv(), taken.try_recv()), (Ok(0), Ok(1)));
        queue.put(5);
        assert_eq!(Counts::get(&counts.refused), 3);
    }
}
