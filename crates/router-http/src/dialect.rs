//! The two dialects of the API: what a failure is called below `/v1` and below `/v2`.
//!
//! `/v1` has the 15 buckets of the specification and no other word. `/v2` has them too, and a word of its own for four failures of
//! queued requests. Everything else is the same.

use router_core::{QueueFailure, RouterError};

/// A dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// That of `/v1`.
    First,
    /// That of `/v2`.
    Second,
}

/// What `/v2` calls a cancelled request; `/v1` says so in the body of a status alone.
const CANCELLED: &str = "cancelled";

impl Dialect {
    /// The dialect of a path below the mount prefix.
    pub(crate) fn of(path: &str) -> Self {
        if path == "/v2" || path.starts_with("/v2/") {
            Self::Second
        } else {
            Self::First
        }
    }

    /// Where its routes begin.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::First => "/v1",
            Self::Second => "/v2",
        }
    }

    /// The `error_type` of an error.
    pub(crate) fn word(self, error: &RouterError) -> &'static str {
        let own = if matches!(error, RouterError::RequestNotFound) {
            "request_not_found"
        } else if matches!(error, RouterError::WaitedTooLong) {
            "queue_timeout"
        } else if matches!(error, RouterError::RequestCancelled) {
            CANCELLED
        } else if matches!(error, RouterError::BacklogFull { .. }) {
            "queue_backlog_full"
        } else {
            return error.bucket().name();
        };
        match self {
            Self::First => error.bucket().name(),
            Self::Second => own,
        }
    }

    /// The `error_type` in the status of a request that failed.
    pub(crate) fn word_of_failure(self, failure: &QueueFailure) -> &'static str {
        match (self, failure) {
            (_, QueueFailure::Cancelled) => CANCELLED,
            (Self::Second, QueueFailure::WaitedTooLong) => self.word(&RouterError::WaitedTooLong),
            (_, failure) => failure.bucket().name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use router_core::Bucket;

    use super::*;

    #[test]
    fn the_first_dialect_has_the_15_words_and_the_second_four_more() {
        let errors = [
            (
                RouterError::RequestNotFound,
                "invalid_input",
                "request_not_found",
            ),
            (
                RouterError::WaitedTooLong,
                "deadline_exceeded",
                "queue_timeout",
            ),
            (RouterError::RequestCancelled, "invalid_input", "cancelled"),
            (
                RouterError::BacklogFull { limit: 1 },
                "concurrency_limit_exceeded",
                "queue_backlog_full",
            ),
            (RouterError::ResultGone, "invalid_input", "invalid_input"),
            (RouterError::NotEnabled, "not_enabled", "not_enabled"),
        ];
        for (error, first, second) in errors {
            assert_eq!(Dialect::First.word(&error), first);
            assert_eq!(Dialect::Second.word(&error), second);
            assert!(Bucket::named(first).is_some());
        }
    }

    #[test]
    fn a_status_says_cancelled_in_both() {
        for dialect in [Dialect::First, Dialect::Second] {
            assert_eq!(
                dialect.word_of_failure(&QueueFailure::Cancelled),
                "cancelled"
            );
        }
        let waited = QueueFailure::WaitedTooLong;
        assert_eq!(Dialect::First.word_of_failure(&waited), "deadline_exceeded");
        assert_eq!(Dialect::Second.word_of_failure(&waited), "queue_timeout");
    }

    #[test]
    fn a_path_tells_its_dialect() {
        for (path, dialect) in [
            ("/v1/models", Dialect::First),
            ("/v2/models/a/b", Dialect::Second),
            ("/v2", Dialect::Second),
            ("/v22/models", Dialect::First),
            ("/", Dialect::First),
        ] {
            assert_eq!(Dialect::of(path), dialect, "{path}");
        }
    }
}
