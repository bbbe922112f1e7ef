//! The 15 buckets: what an error is to a caller, in one exhaustive table.
//!
//! The set is fixed (Versioning, rule 5). What becomes of an idempotency key follows from one question, never from the
//! status: was a provider reached?

/// RouterErrorType: the machine-readable kind of an error, in the specification's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bucket {
    /// Rejected before the model, or by the model for its content.
    InvalidInput,
    /// The provider rejected the request on content-policy grounds; sending it again changes nothing.
    ContentPolicyViolation,
    /// The provider failed or answered what cannot be interpreted.
    ProviderError,
    /// The provider did not answer in time.
    ProviderTimeout,
    /// The workspace lacks credits.
    InsufficientCredits,
    /// The id names no model that can be run.
    ModelNotFound,
    /// No usable credentials.
    Unauthorized,
    /// Valid credentials without permission.
    Forbidden,
    /// The workspace's own calls in flight leave no room.
    ConcurrencyLimitExceeded,
    /// The caller left; logged, never delivered.
    ClientDisconnected,
    /// The router itself failed.
    InternalError,
    /// The router's own limit on holding the connection passed.
    DeadlineExceeded,
    /// The router is not enabled for the caller.
    NotEnabled,
    /// Something that the router needs is away for now.
    ServiceUnavailable,
    /// A quota by time window is used up.
    RateLimited,
}

/// What an idempotency key stands for once a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAfter {
    /// Free: the same key runs afresh.
    Released,
    /// Taken: the same key gets the same answer until it expires.
    Kept,
    /// Taken by the execution, which goes on without the caller.
    Running,
}

impl Bucket {
    /// Every bucket, in the specification's order.
    pub const ALL: [Self; 15] = [
        Self::InvalidInput,
        Self::ContentPolicyViolation,
        Self::ProviderError,
        Self::ProviderTimeout,
        Self::InsufficientCredits,
        Self::ModelNotFound,
        Self::Unauthorized,
        Self::Forbidden,
        Self::ConcurrencyLimitExceeded,
        Self::ClientDisconnected,
        Self::InternalError,
        Self::DeadlineExceeded,
        Self::NotEnabled,
        Self::ServiceUnavailable,
        Self::RateLimited,
    ];

    /// Its name on the wire, in rows and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.line().0
    }

    /// The bucket of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bucket| bucket.name() == name)
    }

    /// The statuses it may come with; the first is the usual one. 499 is logged and never sent.
    #[must_use]
    pub fn statuses(self) -> &'static [u16] {
        self.line().1
    }

    /// What becomes of the key of a call that ends with it, given whether work may have run at a provider.
    #[must_use]
    pub fn key_after(self, reached: bool) -> KeyAfter {
        match self.line().2 {
            Rule::NeverReached => KeyAfter::Released,
            Rule::GoesOn => KeyAfter::Running,
            Rule::Reached if reached => KeyAfter::Kept,
            Rule::Reached => KeyAfter::Released,
        }
    }

    fn line(self) -> (&'static str, &'static [u16], Rule) {
        match self {
            Self::InvalidInput => (
                "invalid_input",
                &[400, 404, 405, 409, 410, 413, 415, 422],
                Rule::Reached,
            ),
            Self::ContentPolicyViolation => {
                ("content_policy_violation", &[400, 422], Rule::Reached)
            }
            Self::ProviderError => ("provider_error", &[502], Rule::Reached),
            Self::ProviderTimeout => ("provider_timeout", &[504], Rule::Reached),
            Self::InsufficientCredits => ("insufficient_credits", &[402], Rule::NeverReached),
            Self::ModelNotFound => ("model_not_found", &[404], Rule::NeverReached),
            Self::Unauthorized => ("unauthorized", &[401], Rule::NeverReached),
            Self::Forbidden => ("forbidden", &[403], Rule::NeverReached),
            Self::ConcurrencyLimitExceeded => (
                "concurrency_limit_exceeded",
                &[429, 409],
                Rule::NeverReached,
            ),
            Self::ClientDisconnected => ("client_disconnected", &[499], Rule::GoesOn),
            Self::InternalError => ("internal_error", &[500], Rule::Reached),
            Self::DeadlineExceeded => ("deadline_exceeded", &[504], Rule::GoesOn),
            Self::NotEnabled => ("not_enabled", &[403], Rule::NeverReached),
            Self::ServiceUnavailable => ("service_unavailable", &[503], Rule::Reached),
            Self::RateLimited => ("rate_limited", &[429], Rule::NeverReached),
        }
    }
}

/// How a bucket treats the key of its call.
#[derive(Clone, Copy)]
enum Rule {
    /// Comes before any dispatch.
    NeverReached,
    /// Comes before or after; the key is kept if work may have run.
    Reached,
    /// Ends the waiting, not the work. Before a dispatch there is no work, and the execution releases the key itself.
    GoesOn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_fixed_at_15_in_the_specifications_order() {
        let names = Bucket::ALL.map(Bucket::name);
        assert_eq!(
            names,
            [
                "invalid_input",
                "content_policy_violation",
                "provider_error",
                "provider_timeout",
                "insufficient_credits",
                "model_not_found",
                "unauthorized",
                "forbidden",
                "concurrency_limit_exceeded",
                "client_disconnected",
                "internal_error",
                "deadline_exceeded",
                "not_enabled",
                "service_unavailable",
                "rate_limited",
            ],
        );
        assert!(Bucket::ALL.is_sorted());
        assert_eq!(names.map(Bucket::named), Bucket::ALL.map(Some));
        assert_eq!(Bucket::named("teapot"), None);
    }

    #[test]
    fn a_key_is_kept_only_if_a_provider_was_reached() {
        for bucket in Bucket::ALL {
            assert_ne!(bucket.key_after(false), KeyAfter::Kept, "{bucket:?}");
        }
        assert_eq!(Bucket::ProviderError.key_after(true), KeyAfter::Kept);
        assert_eq!(Bucket::RateLimited.key_after(true), KeyAfter::Released);
        assert_eq!(Bucket::DeadlineExceeded.key_after(true), KeyAfter::Running);
    }
}
