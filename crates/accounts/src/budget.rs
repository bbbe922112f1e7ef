//! Budgets: how many cents of calls an account may be charged in an hour, a day and a month of the calendar in UTC.
//!
//! What is held counts like what was charged, in whatever window it is settled. So no window is charged more than its budget as
//! long as no charge is higher than its hold.

mod scope;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

use crate::{Credits, LedgerRef};

pub use scope::{
    BudgetScope, InvalidBudgetScope, InvalidScopedBudgets, Payer, ScopedBudgetView, ScopedBudgets,
};

/// A window of the calendar in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetWindow {
    /// From the full hour on.
    Hour,
    /// From midnight on.
    Day,
    /// From midnight of the first day on.
    Month,
}

/// The budgets of an account in US cents, written `500/hour,2000/day,30000/month`; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// In an hour.
    pub hour: Option<u64>,
    /// In a day.
    pub day: Option<u64>,
    /// In a month.
    pub month: Option<u64>,
}

/// What an account was charged for calls in its newest windows.
///
/// Windows do not turn back: a charge by a clock that is behind counts in the newest window of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// When the newest charge was made: the windows are those of this moment.
    pub at: Timestamp,
    /// US cents in the hour.
    pub hour_cents: u64,
    /// US cents in the day.
    pub day_cents: u64,
    /// US cents in the month.
    pub month_cents: u64,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Its window.
    pub window: BudgetWindow,
    /// The budget in US cents.
    pub limit_cents: u64,
    /// What is neither charged nor held of it, in US cents.
    pub left_cents: u64,
    /// When the window ends, and the next one begins with the whole budget.
    pub ends_at: Timestamp,
}

/// A call may cost more than is left of a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the call may cost {cents} US cents, and the budget of {} cents{} for this {} has {} cents left; the {} ends at {}",
    .left.limit_cents, self.whose(), .left.window, .left.left_cents, .left.window, .left.ends_at
)]
pub struct OverBudget {
    /// What the call may cost.
    pub cents: u64,
    /// Which part of what the account spends it is of; `None` for the account's own.
    pub of: Option<BudgetScope>,
    /// The budget: of several that are too small, the one whose window ends last.
    pub left: BudgetLeft,
    /// Until the window ends: whole seconds, at least one.
    pub retry_after: Duration,
}

/// The text is no list of budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "budgets are `none`, or US cents by window such as 500/hour,2000/day,30000/month: each window at most once, separated by commas"
)]
pub struct InvalidBudgets;

impl BudgetWindow {
    /// Every window, the shortest first.
    pub const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Month];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// When the window of a moment begins.
    fn start(self, at: Timestamp) -> DateTime {
        let time = Offset::UTC.to_datetime(at);
        let date = time.date();
        match self {
            Self::Hour => date.at(time.hour(), 0, 0, 0),
            Self::Day => date.at(0, 0, 0, 0),
            Self::Month => date.first_of_month().at(0, 0, 0, 0),
        }
    }

    /// When the window of a moment ends: the first moment of the next one.
    #[must_use]
    pub fn end(self, at: Timestamp) -> Timestamp {
        let span = match self {
            Self::Hour => 1.hour(),
            Self::Day => 1.day(),
            Self::Month => 1.month(),
        };
        let end = self.start(at).checked_add(span);
        end.and_then(|end| Offset::UTC.to_timestamp(end))
            .unwrap_or(Timestamp::MAX)
    }
}

/// The hour of a moment, counted from 1970 in UTC.
fn hour_of(at: Timestamp) -> i64 {
    at.as_second().div_euclid(3600)
}

impl OverBudget {
    /// The name of the budget, which no other one of the account has: its window, and what it bounds.
    #[must_use]
    pub fn name(&self) -> String {
        Self::budget_name(self.of.as_ref(), self.left.window)
    }

    /// The name of a budget of this window: of the whole account, or of a part of what it spends.
    #[must_use]
    pub fn budget_name(of: Option<&BudgetScope>, window: BudgetWindow) -> String {
        let window = window.name();
        of.map_or_else(|| window.to_owned(), |scope| format!("{window} {scope}"))
    }
}

impl Budgets {
    /// The budget of a window.
    #[must_use]
    pub fn of(&self, window: BudgetWindow) -> Option<u64> {
        match window {
            BudgetWindow::Hour => self.hour,
            BudgetWindow::Day => self.day,
            BudgetWindow::Month => self.month,
        }
    }

    /// What is left of each budget, the shortest window first.
    pub fn left(&self, credits: Credits, now: Timestamp) -> impl Iterator<Item = BudgetLeft> {
        let budgets = *self;
        BudgetWindow::ALL.into_iter().filter_map(move |window| {
            let limit_cents = budgets.of(window)?;
            let used = credits.spend.in_window(window, now);
            Some(BudgetLeft {
                window,
                limit_cents,
                left_cents: limit_cents.saturating_sub(used.saturating_add(credits.held_cents)),
                ends_at: window.end(now.max(credits.spend.at)),
            })
        })
    }

    /// Whether so many cents may be held beside what is held and charged. What costs nothing always may.
    ///
    /// # Errors
    /// With the budget that leaves too little: of several, the one whose window ends last.
    pub fn admit(&self, cents: u64, credits: Credits, now: Timestamp) -> Result<(), OverBudget> {
        let short = self
            .left(credits, now)
            .filter(|left| cents > left.left_cents);
        let Some(left) = short.last() else {
            return Ok(());
        };
        let wait = left.ends_at.duration_since(now).as_millis();
        let seconds = u64::try_from(wait).unwrap_or(0).div_ceil(1000).max(1);
        Err(OverBudget {
            cents,
            of: None,
            left,
            retry_after: Duration::from_secs(seconds),
        })
    }
}

impl Spend {
    /// Adds an entry of the ledger; only the charges of calls count.
    pub fn post(&mut self, cause: LedgerRef, amount_cents: i64, at: Timestamp) {
        if matches!(cause, LedgerRef::Generation(_)) && amount_cents < 0 {
            self.add(amount_cents.unsigned_abs(), at);
        }
    }

    /// Adds a charge. Windows that are over begin anew.
    fn add(&mut self, cents: u64, at: Timestamp) {
        let at = at.max(self.at);
        let in_window = |window| self.in_window(window, at).saturating_add(cents);
        *self = Self {
            at,
            hour_cents: in_window(BudgetWindow::Hour),
            day_cents: in_window(BudgetWindow::Day),
            month_cents: in_window(BudgetWindow::Month),
        };
    }

    /// What was charged in the window of a moment; a moment before the newest charge is taken as that charge's.
    #[must_use]
    pub fn in_window(&self, window: BudgetWindow, now: Timestamp) -> u64 {
        // An hour that goes on is in the same day and month.
        let is_later = now > self.at && hour_of(now) != hour_of(self.at);
        if is_later && window.start(now) != window.start(self.at) {
            return 0;
        }
        match window {
            BudgetWindow::Hour => self.hour_cents,
            BudgetWindow::Day => self.day_cents,
            BudgetWindow::Month => self.month_cents,
        }
    }
}

impl FromStr for Budgets {
    type Err = InvalidBudgets;

    fn from_str(text: &str) -> Result<Self, InvalidBudgets> {
        let mut budgets = Self::default();
        if text == "none" {
            return Ok(budgets);
        }
        for budget in text.split(',') {
            let (cents, window) = budget.trim().split_once('/').ok_or(InvalidBudgets)?;
            let window = match window {
                "hour" => &mut budgets.hour,
                "day" => &mut budgets.day,
                "month" => &mut budgets.month,
                _ => return Err(InvalidBudgets),
            };
            let digits = cents.bytes().all(|byte| byte.is_ascii_digit());
            // As many as a column holds.
            let cents = cents.parse::<i64>().ok().filter(|_| digits);
            let cents = cents.ok_or(InvalidBudgets)?.unsigned_abs();
            if window.replace(cents).is_some() {
                return Err(InvalidBudgets);
            }
        }
        Ok(budgets)
    }
}

impl fmt::Display for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("none");
        }
        let mut comma = "";
        for window in BudgetWindow::ALL {
            if let Some(cents) = self.of(window) {
                write!(f, "{comma}{cents}/{window}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}

impl fmt::Display for BudgetWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl OverBudget {
    /// As that of a budget of a scope.
    pub(crate) fn of_scope(self, scope: &BudgetScope) -> Self {
        Self {
            of: Some(scope.clone()),
            ..self
        }
    }

    /// What the budget is of, as a message names it.
    fn whose(&self) -> String {
        match &self.of {
            None => String::new(),
            Some(BudgetScope::Key(id)) => format!(" for the API key {}", id.as_str()),
            Some(BudgetScope::Label(label)) => format!(" for the label {label}"),
        }
    }
}

#[cfg(test)]
mod tests;
