//! What an account may hold at once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::{BudgetScope, Budgets, Entitlements, ScopedBudgets, SpendRules};

/// Most rate windows of an account.
const MAX_WINDOWS: usize = 8;

/// The limits of an account. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Jobs that may run at the same time.
    pub concurrent_jobs: u32,
    /// Jobs that may wait in the queue.
    pub queued_jobs: u32,
    /// Event streams that may be open.
    pub streams: u32,
    /// Largest upload.
    pub upload_bytes: u64,
    /// Bytes that records and graphs may have together; [`Tier::UNBOUNDED_BYTES`] is no bound.
    pub stored_bytes: u64,
    /// Jobs that may be submitted in spans of time; every one of the windows holds.
    pub submissions: Arc<[RateWindow]>,
    /// How long an upload is kept that does not ask for something else.
    pub upload_retention: SignedDuration,
    /// How long a job and its outputs are kept once it is over.
    pub job_retention: SignedDuration,
    /// What calls of partner models may take.
    pub router: RouterLimits,
}

/// What an account may take of the model router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterLimits {
    /// Calls that may be in flight.
    pub concurrent_calls: u32,
    /// US cents that calls in flight may commit.
    pub committed_spend_cents: u64,
    /// What calls may be charged in windows of the calendar.
    pub budgets: Budgets,
    /// What calls of single keys, and calls with single labels, may be charged beside.
    pub scoped_budgets: ScopedBudgets,
    /// Requests, reads included, that count in spans of time; every one of the windows holds.
    pub windows: Arc<[RateWindow]>,
    /// Models that may be listed and called.
    pub entitlements: Entitlements,
    /// Whether the files that results name are kept beyond the partner's links.
    pub keep_results: bool,
}

/// So many requests in a span of time, written `60/1m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateWindow {
    /// Most requests; at least 1.
    pub requests: u32,
    /// Length of the span in seconds; from 1 to those of 366 days.
    pub seconds: u32,
}

/// Where the tier of one account differs from that of the installation; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// As [`Tier::concurrent_jobs`].
    pub concurrent_jobs: Option<u32>,
    /// As [`Tier::queued_jobs`].
    pub queued_jobs: Option<u32>,
    /// As [`Tier::streams`].
    pub streams: Option<u32>,
    /// As [`Tier::upload_bytes`].
    pub upload_bytes: Option<u64>,
    /// As [`Tier::stored_bytes`].
    pub stored_bytes: Option<u64>,
    /// As [`Tier::submissions`].
    pub submissions: Option<Arc<[RateWindow]>>,
    /// As [`Tier::upload_retention`].
    pub upload_retention: Option<SignedDuration>,
    /// As [`Tier::job_retention`].
    pub job_retention: Option<SignedDuration>,
    /// As [`RouterLimits::concurrent_calls`].
    pub concurrent_calls: Option<u32>,
    /// As [`RouterLimits::committed_spend_cents`].
    pub committed_spend_cents: Option<u64>,
    /// As [`RouterLimits::budgets`].
    pub budgets: Option<Budgets>,
    /// As [`RouterLimits::scoped_budgets`], of which an installation has none.
    pub scoped_budgets: ScopedBudgets,
    /// As [`RouterLimits::windows`].
    pub windows: Option<Arc<[RateWindow]>>,
    /// As [`RouterLimits::entitlements`].
    pub entitlements: Option<Entitlements>,
    /// As [`RouterLimits::keep_results`].
    pub keep_results: Option<bool>,
}

/// The text is no list of rate windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rate windows are `none`, or at most 8 such as 60/1m or 5000/24h, separated by commas: requests, a slash, and a span in s, m, h or d"
)]
pub struct InvalidRateWindow;

impl Tier {
    /// More bytes than a store can count: no bound.
    pub const UNBOUNDED_BYTES: u64 = i64::MAX.unsigned_abs();

    /// [`Tier::stored_bytes`], where it is a bound.
    #[must_use]
    pub fn stored_bound(&self) -> Option<u64> {
        Some(self.stored_bytes).filter(|bytes| *bytes < Self::UNBOUNDED_BYTES)
    }

    /// What bounds a hold of an account of this tier that counts against these budgets of keys and labels.
    #[must_use]
    pub fn spend_rules<'a>(
        &self,
        billed: bool,
        scoped: &'a [(BudgetScope, Budgets)],
    ) -> SpendRules<'a> {
        SpendRules {
            billed,
            budgets: self.router.budgets,
            scoped,
        }
    }

    /// What an installation gives everybody that is told nothing else.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            concurrent_jobs: 4,
            queued_jobs: 1000,
            streams: 1000,
            upload_bytes: 1 << 30,
            stored_bytes: Self::UNBOUNDED_BYTES,
            submissions: Arc::new([]),
            upload_retention: SignedDuration::from_hours(24),
            job_retention: SignedDuration::from_hours(24),
            router: RouterLimits::standard(),
        }
    }

    /// This tier, with the limits of one account in place of its own.
    #[must_use]
    pub fn with(&self, limits: &Limits) -> Self {
        let (router, own) = (&self.router, limits.clone());
        Self {
            concurrent_jobs: own.concurrent_jobs.unwrap_or(self.concurrent_jobs),
            queued_jobs: own.queued_jobs.unwrap_or(self.queued_jobs),
            streams: own.streams.unwrap_or(self.streams),
            upload_bytes: own.upload_bytes.unwrap_or(self.upload_bytes),
            stored_bytes: own.stored_bytes.unwrap_or(self.stored_bytes),
            submissions: own.submissions.unwrap_or_else(|| self.submissions.clone()),
            upload_retention: own.upload_retention.unwrap_or(self.upload_retention),
            job_retention: own.job_retention.unwrap_or(self.job_retention),
            router: RouterLimits {
                concurrent_calls: own.concurrent_calls.unwrap_or(router.concurrent_calls),
                committed_spend_cents: own
                    .committed_spend_cents
                    .unwrap_or(router.committed_spend_cents),
                budgets: own.budgets.unwrap_or(router.budgets),
                scoped_budgets: own.scoped_budgets,
                windows: own.windows.unwrap_or_else(|| router.windows.clone()),
                entitlements: own
                    .entitlements
                    .unwrap_or_else(|| router.entitlements.clone()),
                keep_results: own.keep_results.unwrap_or(router.keep_results),
            },
        }
    }
}

impl RouterLimits {
    /// Five calls at once, 100 US dollars committed by them, no budgets, no windows, every model, no kept
    /// results.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            concurrent_calls: 5,
            committed_spend_cents: 10_000,
            budgets: Budgets::default(),
            scoped_budgets: ScopedBudgets::NONE,
            windows: Arc::new([]),
            entitlements: Entitlements::All,
            keep_results: false,
        }
    }
}

impl Limits {
    /// Limits that make this very tier of any other.
    #[must_use]
    pub fn of(tier: &Tier) -> Self {
        let router = &tier.router;
        Self {
            concurrent_jobs: Some(tier.concurrent_jobs),
            queued_jobs: Some(tier.queued_jobs),
            streams: Some(tier.streams),
            upload_bytes: Some(tier.upload_bytes),
            stored_bytes: Some(tier.stored_bytes),
            submissions: Some(tier.submissions.clone()),
            upload_retention: Some(tier.upload_retention),
            job_retention: Some(tier.job_retention),
            concurrent_calls: Some(router.concurrent_calls),
            committed_spend_cents: Some(router.committed_spend_cents),
            budgets: Some(router.budgets),
            scoped_budgets: router.scoped_budgets.clone(),
            windows: Some(router.windows.clone()),
            entitlements: Some(router.entitlements.clone()),
            keep_results: Some(router.keep_results),
        }
    }
}

impl RateWindow {
    /// Reads a list of windows.
    ///
    /// # Errors
    /// If one of them is none, or there are too many.
    pub fn read_list(text: &str) -> Result<Arc<[Self]>, InvalidRateWindow> {
        if text == "none" {
            return Ok(Arc::new([]));
        }
        let windows: Arc<[Self]> = text
            .split(',')
            .map(|window| window.trim().parse())
            .collect::<Result<_, _>>()?;
        if windows.len() > MAX_WINDOWS {
            return Err(InvalidRateWindow);
        }
        Ok(windows)
    }

    /// Writes a list of windows as [`RateWindow::read_list`] reads it.
    #[must_use]
    pub fn write_list(windows: &[Self]) -> String {
        if windows.is_empty() {
            return "none".to_owned();
        }
        let texts: Vec<String> = windows.iter().map(ToString::to_string).collect();
        texts.join(",")
    }
}

/// Units of spans and their seconds, the longest first.
const UNITS: [(char, u32); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// The longest span: a year.
const MAX_SECONDS: u32 = 366 * 86_400;

impl FromStr for RateWindow {
    type Err = InvalidRateWindow;

    fn from_str(text: &str) -> Result<Self, InvalidRateWindow> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u32>().ok().filter(|number| *number > 0);
            number.filter(|_| digits).ok_or(InvalidRateWindow)
        };
        let (requests, span) = text.split_once('/').ok_or(InvalidRateWindow)?;
        let unit = UNITS
            .iter()
            .find_map(|(unit, seconds)| Some((span.strip_suffix(*unit)?, *seconds)));
        let (span, unit_seconds) = unit.ok_or(InvalidRateWindow)?;
        let seconds = number(span)?.checked_mul(unit_seconds);
        let seconds = seconds.filter(|seconds| *seconds <= MAX_SECONDS);
        Ok(Self {
            requests: number(requests)?,
            seconds: seconds.ok_or(InvalidRateWindow)?,
        })
    }
}

impl fmt::Display for RateWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = UNITS
            .iter()
            .find(|(_, seconds)| self.seconds.is_multiple_of(*seconds));
        let (unit, seconds) = exact.expect("every span is whole seconds");
        write!(f, "{}/{}{unit}", self.requests, self.seconds / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_an_account_take_the_place_of_those_of_the_installation() {
        let standard = Tier::standard();
        assert_eq!(standard.with(&Limits::default()), standard);
        let limits = Limits {
            concurrent_calls: Some(1),
            upload_bytes: Some(2),
            ..Limits::default()
        };
        let tier = standard.with(&limits);
        let expected = Tier {
            upload_bytes: 2,
            router: RouterLimits {
                concurrent_calls: 1,
                ..RouterLimits::standard()
            },
            ..Tier::standard()
        };
        assert_eq!(tier, expected);
        assert_eq!(standard.with(&Limits::of(&tier)), tier);
    }

    #[test]
    fn a_window_reads_as_it_is_written() {
        for text in ["none", "60/1m", "1/1s", "10/90s,5000/1d", "7/2h"] {
            let windows = RateWindow::read_list(text).expect("windows");
            assert_eq!(RateWindow::write_list(&windows), text);
        }
        let many = ["1/1s"; 9].join(",");
        for bad in [
            "", "60", "60/m", "0/1m", "60/0s", "-1/1m", "60/367d", "1/1w", "+1/1s", &many,
        ] {
            assert_eq!(RateWindow::read_list(bad), Err(InvalidRateWindow), "{bad}");
        }
    }
}
