//! Everything of an account that a command can set, by name: one table for flags, wire and output.

use std::sync::Arc;
use std::time;

use accounts::{
    AccountChange, AccountState, BudgetScope, Budgets, Entitlements, Limits, RateWindow, Tier,
};
use admin_http::wire::LimitBody;
use jiff::SignedDuration;

use crate::config::{Duration, Size, SizeBound, Value};

/// The word for what the installation gives everybody.
const DEFAULT: &str = "default";

/// A limit: its flag, and how it is read and shown.
pub(super) struct Limit {
    pub(super) name: &'static str,
    pub(super) placeholder: &'static str,
    pub(super) help: &'static str,
    allowed: &'static str,
    /// Reads what was written; nothing for the installation's. `None` is not allowed.
    read: fn(Option<&str>) -> Option<AccountChange>,
    show: fn(&Tier) -> String,
    own: fn(&Limits) -> bool,
}

/// A field that is one of two words.
pub(super) struct Switch {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) change: fn(bool) -> AccountChange,
}

const WINDOWS: &str = "none, or at most 8 windows such as 60/1m,5000/1d with spans in s, m, h or d";

/// The field with budgets of keys and labels.
pub(super) const SCOPED_BUDGETS: &str = "scoped-budgets";

const SCOPED_BUDGET: &str = "a line for each key or label: budgets such as 500/hour,2000/day or none, a space, and key:ID or label:KEY=VALUE";

const NUMBER: &str = "a whole number up to 4294967295";

/// The limits of an account, in the order in which they are shown.
pub(super) const LIMITS: &[Limit] = &[
    Limit {
        name: "concurrent-jobs",
        placeholder: "N",
        help: "Jobs that run at once",
        allowed: NUMBER,
        read: |text| number(text).map(AccountChange::ConcurrentJobs),
        show: |tier| tier.concurrent_jobs.to_string(),
        own: |limits| limits.concurrent_jobs.is_some(),
    },
    Limit {
        name: "queue-depth",
        placeholder: "N",
        help: "Jobs that wait",
        allowed: NUMBER,
        read: |text| number(text).map(AccountChange::QueuedJobs),
        show: |tier| tier.queued_jobs.to_string(),
        own: |limits| limits.queued_jobs.is_some(),
    },
    Limit {
        name: "streams",
        placeholder: "N",
        help: "Event streams that are open",
        allowed: NUMBER,
        read: |text| number(text).map(AccountChange::Streams),
        show: |tier| tier.streams.to_string(),
        own: |limits| limits.streams.is_some(),
    },
    Limit {
        name: "upload-size",
        placeholder: "SIZE",
        help: "Largest upload, up to what the installation takes",
        allowed: Size::ALLOWED,
        read: |text| size(text).map(AccountChange::UploadBytes),
        show: |tier| bare(&Size(tier.upload_bytes).show()),
        own: |limits| limits.upload_bytes.is_some(),
    },
    Limit {
        name: "stored-bytes",
        placeholder: "SIZE",
        help: "Bytes that files and graphs of the account may have together, or none for no bound",
        allowed: SizeBound::ALLOWED,
        read: |text| bound(text).map(AccountChange::StoredBytes),
        show: |tier| bare(&SizeBound(tier.stored_bound()).show()),
        own: |limits| limits.stored_bytes.is_some(),
    },
    Limit {
        name: "submissions",
        placeholder: "N/TIME",
        help: "Jobs that may be submitted in spans of time, such as 60/1m,5000/1d; or none",
        allowed: WINDOWS,
        read: |text| windows(text).map(AccountChange::Submissions),
        show: |tier| RateWindow::write_list(&tier.submissions),
        own: |limits| limits.submissions.is_some(),
    },
    Limit {
        name: "keep-uploads",
        placeholder: "TIME",
        help: "How long uploads are kept",
        allowed: Duration::<1>::ALLOWED,
        read: |text| span(text).map(AccountChange::UploadRetention),
        show: |tier| shown_span(tier.upload_retention),
        own: |limits| limits.upload_retention.is_some(),
    },
    Limit {
        name: "keep-jobs",
        placeholder: "TIME",
        help: "How long jobs and their outputs are kept once they are over",
        allowed: Duration::<1>::ALLOWED,
        read: |text| span(text).map(AccountChange::JobRetention),
        show: |tier| shown_span(tier.job_retention),
        own: |limits| limits.job_retention.is_some(),
    },
    Limit {
        name: "calls",
        placeholder: "N",
        help: "Router calls in flight",
        allowed: NUMBER,
        read: |text| number(text).map(AccountChange::ConcurrentCalls),
        show: |tier| tier.router.concurrent_calls.to_string(),
        own: |limits| limits.concurrent_calls.is_some(),
    },
    Limit {
        name: "spend",
        placeholder: "CENTS",
        help: "US cents that router calls in flight may commit",
        allowed: "a whole number of US cents",
        read: |text| cents(text).map(AccountChange::CommittedSpendCents),
        show: |tier| tier.router.committed_spend_cents.to_string(),
        own: |limits| limits.committed_spend_cents.is_some(),
    },
    Limit {
        name: "budgets",
        placeholder: "CENTS/WINDOW",
        help: "US cents that router calls may cost in an hour, day or month in UTC, such as 500/hour,30000/month; or none",
        allowed: "none, or US cents by window such as 500/hour,2000/day,30000/month, each window once",
        read: |text| {
            let budgets = text.map(|text| text.parse::<Budgets>().ok());
            given(budgets).map(AccountChange::Budgets)
        },
        show: |tier| tier.router.budgets.to_string(),
        own: |limits| limits.budgets.is_some(),
    },
    Limit {
        name: "windows",
        placeholder: "N/TIME",
        help: "Requests to the router in spans of time, such as 60/1m,5000/1d; or none",
        allowed: WINDOWS,
        read: |text| windows(text).map(AccountChange::RateWindows),
        show: |tier| RateWindow::write_list(&tier.router.windows),
        own: |limits| limits.windows.is_some(),
    },
    Limit {
        name: "models",
        placeholder: "PATTERNS",
        help: "Models that may be called: all, none, or patterns such as bfl/*,openai/gpt-image-*",
        allowed: "all, none, or at most 256 patterns such as bfl/*,openai/gpt-image-*",
        read: |text| {
            let models = text.map(|text| text.parse::<Entitlements>().ok());
            given(models).map(AccountChange::Entitlements)
        },
        show: |tier| tier.router.entitlements.to_string(),
        own: |limits| limits.entitlements.is_some(),
    },
    Limit {
        name: "kept-results",
        placeholder: "on|off",
        help: "Whether the files that results of the router name are kept beyond the partner's links",
        allowed: "on or off",
        read: |text| {
            let kept = text.map(|text| match text {
                "on" => Some(true),
                "off" => Some(false),
                _ => None,
            });
            given(kept).map(AccountChange::KeepResults)
        },
        show: |tier| {
            let shown = match tier.router.keep_results {
                true => "on",
                false => "off",
            };
            shown.to_owned()
        },
        own: |limits| limits.keep_results.is_some(),
    },
];

/// The fields that are on or off.
pub(super) const SWITCHES: &[Switch] = &[
    Switch {
        name: "subscription",
        help: "Starts or ends the subscription: without one an account may read but not run",
        change: AccountChange::Subscribed,
    },
    Switch {
        name: "router",
        help: "Enables or disables the model router for an account",
        change: AccountChange::Router,
    },
    Switch {
        name: "billing",
        help: "Turns billing on or off: only with it an empty balance refuses anything",
        change: AccountChange::Billed,
    },
];

/// Reads a change as flags and wire spell it.
pub(super) fn read(name: &str, text: &str) -> Result<AccountChange, String> {
    let refused = |allowed: &str| format!("`{name}` cannot be \"{text}\"; write {allowed}");
    if let Some(limit) = LIMITS.iter().find(|limit| limit.name == name) {
        let change = (limit.read)(Some(text).filter(|text| *text != DEFAULT));
        return change.ok_or_else(|| {
            let allowed = format!("{}, or default for what everybody gets", limit.allowed);
            refused(&allowed)
        });
    }
    if let Some(switch) = SWITCHES.iter().find(|switch| switch.name == name) {
        return match text {
            "on" => Ok((switch.change)(true)),
            "off" => Ok((switch.change)(false)),
            _ => Err(refused("on or off")),
        };
    }
    match (name, text) {
        ("name", text) => match text.parse() {
            Ok(name) => Ok(AccountChange::Name(name)),
            Err(_) => Err(refused("1 to 100 characters without control characters")),
        },
        ("state", "active") => Ok(AccountChange::State(AccountState::Active)),
        ("state", "suspended") => Ok(AccountChange::State(AccountState::Suspended)),
        ("state", _) => Err(refused("active or suspended")),
        (SCOPED_BUDGETS, text) => match scoped_budgets(text) {
            Some(changes) => Ok(AccountChange::ScopedBudgets(changes)),
            None => Err(refused(SCOPED_BUDGET)),
        },
        _ => Err(format!("an account has no `{name}`")),
    }
}

/// Lines of budgets and what they are of.
fn scoped_budgets(text: &str) -> Option<Vec<(BudgetScope, Budgets)>> {
    let lines = text.split('\n').map(|line| {
        let (budgets, scope) = line.trim().split_once(' ')?;
        Some((scope.trim_start().parse().ok()?, budgets.parse().ok()?))
    });
    lines.collect()
}

/// Shows every limit of an account.
pub(super) fn show(tier: &Tier, own: &Limits) -> Vec<LimitBody> {
    let shown = LIMITS.iter().map(|limit| LimitBody {
        name: limit.name.to_owned(),
        value: (limit.show)(tier),
        own: (limit.own)(own),
    });
    shown.collect()
}

/// What was given and cannot be read is not allowed; nothing given is.
fn given<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
        None => Some(None),
    }
}

fn digits<T: std::str::FromStr>(text: Option<&str>) -> Option<Option<T>> {
    given(text.map(|text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    }))
}

fn number(text: Option<&str>) -> Option<Option<u32>> {
    digits(text)
}

fn cents(text: Option<&str>) -> Option<Option<u64>> {
    // As many as a column holds.
    digits::<i64>(text).map(|cents| cents.map(i64::unsigned_abs))
}

fn windows(text: Option<&str>) -> Option<Option<Arc<[RateWindow]>>> {
    given(text.map(|text| RateWindow::read_list(text).ok()))
}

fn bound(text: Option<&str>) -> Option<Option<u64>> {
    let bound = given(text.map(SizeBound::read))?;
    Some(bound.map(|SizeBound(bound)| {
        bound.map_or(Tier::UNBOUNDED_BYTES, |bytes| {
            bytes.min(Tier::UNBOUNDED_BYTES)
        })
    }))
}

fn size(text: Option<&str>) -> Option<Option<u64>> {
    let size = text.map(|text| Size::read(text).filter(|size| i64::try_from(size.0).is_ok()));
    given(size).map(|size| size.map(|size| size.0))
}

fn span(text: Option<&str>) -> Option<Option<SignedDuration>> {
    let span = given(text.map(Duration::<1>::read))?;
    Some(span.map(|Duration(span)| {
        SignedDuration::try_from(span).expect("a span of the configuration is at most ten years")
    }))
}

fn shown_span(span: SignedDuration) -> String {
    let span = time::Duration::try_from(span).unwrap_or_default();
    bare(&Duration::<0>(span).show())
}

/// A value as a user writes it, without the quotes of TOML.
fn bare(toml: &str) -> String {
    toml.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_reads_what_it_shows() {
        let tier = Tier::standard();
        for limit in LIMITS {
            let text = (limit.show)(&tier);
            assert!(read(limit.name, &text).is_ok(), "{} {text}", limit.name);
            assert!(read(limit.name, DEFAULT).is_ok(), "{}", limit.name);
            let refused = read(limit.name, "-1").expect_err("no value of any limit");
            assert!(refused.contains("or default"), "{refused}");
        }
    }

    #[test]
    fn budgets_of_keys_and_labels_are_lines() {
        let text = "5/hour,7/day label:team=dark blue\nnone key:abcd2345";
        let read = read(SCOPED_BUDGETS, text).expect("two lines");
        let AccountChange::ScopedBudgets(changes) = read else {
            panic!("{read:?}");
        };
        let changes = changes.iter();
        let changes = changes.map(|(scope, budgets)| format!("{budgets} {scope}"));
        assert_eq!(changes.collect::<Vec<_>>().join("\n"), text);
    }

    #[test]
    fn what_is_not_allowed_is_told_with_what_is() {
        let refused = read("router", "yes").expect_err("neither on nor off");
        assert_eq!(refused, "`router` cannot be \"yes\"; write on or off");
        assert_eq!(
            read("size", "1").expect_err("no field"),
            "an account has no `size`"
        );
        for (name, bad) in [
            ("calls", "+1"),
            ("spend", ""),
            ("state", "gone"),
            (SCOPED_BUDGETS, "5/day"),
            (SCOPED_BUDGETS, "5/day team=blue"),
            (SCOPED_BUDGETS, "5/year label:team=blue"),
            (SCOPED_BUDGETS, "5/day label:team=blue\n"),
            ("name", ""),
        ] {
            assert!(read(name, bad).is_err(), "{name} {bad}");
        }
    }
}
