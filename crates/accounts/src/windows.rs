//! Quotas by time window: so many requests of an account in each span of time.
//!
//! The windows of a span follow each other without a gap from the beginning of time, so the end of one is the same for
//! everybody and every replica. [`WindowCounts`] decides for one account, and a store remembers; [`Windows`] remembers in
//! memory, for one process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use jiff::Timestamp;

use crate::{AccountId, RateWindow};

/// When this many accounts are counted, those whose windows are over are forgotten.
const SWEEP_AT: usize = 1_024;

/// The requests of every account in its current windows. Counted per process.
#[derive(Debug, Default)]
pub struct Windows(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    accounts: HashMap<AccountId, WindowCounts>,
    /// How many accounts there were after the last sweep.
    swept: usize,
}

/// The requests of one account in its current windows, one count for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts(pub Vec<WindowCount>);

/// The requests in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCount {
    /// The span and its quota.
    pub window: RateWindow,
    /// Which of the windows of this span it is, from the beginning of time.
    pub number: i64,
    /// How many requests were counted.
    pub requests: u32,
}

/// A window is used up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{quota} in {span} are used up")]
pub struct UsedUp {
    /// Most requests in the window.
    pub quota: u32,
    /// Its span as it is written, such as `1m`.
    pub span: String,
    /// Until the window ends: whole seconds, at least one.
    pub retry_after: Duration,
}

impl Windows {
    /// Nothing counted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a request in every window, if all of them have room for it; a refused one does not count.
    ///
    /// # Errors
    /// With the used-up window that ends last.
    pub fn count(
        &self,
        account: &AccountId,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<(), UsedUp> {
        if windows.is_empty() {
            return Ok(());
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.sweep(now);
        let counts = counted.accounts.entry(account.clone()).or_default();
        counts.count(windows, now)
    }

    /// Takes back a request that was counted at `counted_at`, where its windows still last.
    pub fn give_back(&self, account: &AccountId, windows: &[RateWindow], counted_at: Timestamp) {
        if windows.is_empty() {
            return;
        }
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = counted.accounts.get_mut(account) {
            counts.give_back(windows, counted_at);
        }
    }
}

impl WindowCounts {
    /// Counts a request in every window, if all of them have room for it; a refused one does not count. What is counted of
    /// other windows is forgotten.
    ///
    /// # Errors
    /// With the used-up window that ends last.
    pub fn count(&mut self, windows: &[RateWindow], now: Timestamp) -> Result<(), UsedUp> {
        let counts = &mut self.0;
        counts.retain(|count| windows.contains(&count.window));
        let mut used_up: Option<(Duration, RateWindow)> = None;
        for window in windows {
            let number = number(*window, now);
            let known = counts.iter_mut().find(|count| count.window == *window);
            match known {
                // A clock that was put back must not hand out a window a second time.
                Some(count) if count.number >= number => {
                    if count.requests >= window.requests {
                        let left = until_end(*window, now);
                        if used_up.is_none_or(|(longest, _)| left > longest) {
                            used_up = Some((left, *window));
                        }
                    }
                }
                Some(count) => (count.number, count.requests) = (number, 0),
                None => counts.push(WindowCount {
                    window: *window,
                    number,
                    requests: 0,
                }),
            }
        }
        if let Some((retry_after, window)) = used_up {
            return Err(UsedUp {
                quota: window.requests,
                span: words(window),
                retry_after,
            });
        }
        for count in counts {
            count.requests = count.requests.saturating_add(1);
        }
        Ok(())
    }

    /// Takes back a request that was counted at `counted_at`, where its windows still last.
    pub fn give_back(&mut self, windows: &[RateWindow], counted_at: Timestamp) {
        for count in &mut self.0 {
            if windows.contains(&count.window) && count.number == number(count.window, counted_at) {
                count.requests = count.requests.saturating_sub(1);
            }
        }
    }

    /// Whether all that it counts is over.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.0
            .iter()
            .all(|count| count.number < number(count.window, now))
    }
}

impl Counted {
    /// Forgets accounts whose windows are all over, each time their number has doubled.
    fn sweep(&mut self, now: Timestamp) {
        if self.accounts.len() < SWEEP_AT.max(self.swept * 2) {
            return;
        }
        self.accounts.retain(|_, counts| !counts.is_over(now));
        self.swept = self.accounts.len();
    }
}

fn number(window: RateWindow, now: Timestamp) -> i64 {
    now.as_second().div_euclid(i64::from(window.seconds))
}

/// Whole seconds to the window's end, at least one.
fn until_end(window: RateWindow, now: Timestamp) -> Duration {
    let seconds = i64::from(window.seconds);
    let left = seconds - now.as_second().rem_euclid(seconds);
    Duration::from_secs(left.unsigned_abs())
}

fn words(window: RateWindow) -> String {
    let text = window.to_string();
    text.split_once('/')
        .map_or_else(String::new, |(_, span)| span.to_owned())
}

#[cfg(test)]
mod tests;
