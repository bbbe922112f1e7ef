//! The reports of money against the book of the partner: ledger, balance, export and totals agree to the cent.
//!
//! Judged only while nothing runs. The judging function is pure: it is given what the reports say.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calls::{Call, Calls};
use super::partner::{Behavior, Dispatch};
use super::tally::{Kind, Violation};

/// What the program reports of one account.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports {
    /// `usage export`, by line.
    pub(super) export: Vec<Value>,
    /// The sum of `usage totals`.
    pub(super) totals_cents: i64,
    /// Every entry of the ledger, if it was read: its generation in hexadecimal digits, `None` for a grant, and the amount.
    pub(super) ledger: Option<Vec<(Option<String>, i64)>>,
    /// Balance and holds as the server has them in memory.
    pub(super) balance_cents: i64,
    pub(super) held_cents: u64,
    /// What was granted.
    pub(super) granted_cents: i64,
}

/// What a check of money counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) billed_cents: u64,
    /// Generations whose outcome is unknown,
    pub(super) unknown: u64,
    /// and what the results that the partner gave for them cost there.
    pub(super) unknown_cents: u64,
}

/// A generation as the export tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reported {
    status: String,
    charge_cents: u64,
}

/// How an unknown outcome is listed.
const UNKNOWN: &str = "provider_error";

/// Compares the reports with each other, with what they said before, and with what the partner did.
pub(super) fn judge(calls: &mut Calls, reports: &Reports) -> (Counted, Vec<Violation>) {
    let mut violations = Vec::new();
    let generations = generations(&reports.export, &mut violations);
    unchanged(calls, &generations, &mut violations);
    let counted = against_partner(calls, &generations, &mut violations);
    against_ledger(reports, &generations, &mut violations);
    (counted, violations)
}

/// The generations of an export, each of which stands once.
fn generations(export: &[Value], violations: &mut Vec<Violation>) -> BTreeMap<String, Reported> {
    let mut generations = BTreeMap::new();
    for line in export.iter().filter(|line| line["began"] == true) {
        let id = line["generation_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if line["settled_at"].is_null() {
            let what = format!("generation {id} is not settled although nothing runs");
            violations.push(Violation::new(Kind::Endless, what));
        }
        let reported = Reported {
            status: line["generation_status"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            charge_cents: line["charge_cents"].as_u64().unwrap_or(0),
        };
        if generations.insert(id.clone(), reported).is_some() {
            violations.push(money(format!("the export has generation {id} twice")));
        }
    }
    generations
}

/// What was settled once stays as it was.
fn unchanged(
    calls: &mut Calls,
    generations: &BTreeMap<String, Reported>,
    violations: &mut Vec<Violation>,
) {
    for (id, (status, cents)) in &calls.settled {
        let now = generations.get(id);
        if now.is_none_or(|now| (&now.status, now.charge_cents) != (status, *cents)) {
            let what = format!("generation {id} was {status} for {cents} cents and is {now:?}");
            violations.push(money(what));
        }
    }
    let settled = generations.iter();
    calls.settled = settled
        .map(|(id, now)| (id.clone(), (now.status.clone(), now.charge_cents)))
        .collect();
}

/// Each dispatch is reported as what came of it, and costs what the partner says or nothing.
fn against_partner(
    calls: &Calls,
    generations: &BTreeMap<String, Reported>,
    violations: &mut Vec<Violation>,
) -> Counted {
    let mut counted = Counted::default();
    let mut known = BTreeMap::new();
    for (name, call) in &calls.calls {
        let dispatches = calls.dispatches(name);
        violations.extend(dispatched_once(name, call, &dispatches, generations));
        for dispatch in &dispatches {
            known.insert(dispatch.generation.clone(), ());
            let Some(reported) = generations.get(&dispatch.generation) else {
                let what = format!(
                    "no report has generation {} of call {name}",
                    dispatch.generation
                );
                violations.push(money(what));
                continue;
            };
            let is_unknown = reported.status == UNKNOWN
                && matches!(
                    dispatch.behavior,
                    Behavior::Answer | Behavior::Refuse | Behavior::Busy
                );
            if !fits(call, dispatch, &dispatches, reported) {
                let what = format!(
                    "generation {} of call {name} ({:?}, {} cents at the partner, acknowledged: {}) is reported as {} for {} cents",
                    dispatch.generation,
                    dispatch.behavior,
                    dispatch.cents,
                    call.end.is_some(),
                    reported.status,
                    reported.charge_cents
                );
                violations.push(money(what));
            }
            counted.billed_cents += reported.charge_cents;
            counted.unknown += u64::from(is_unknown);
            counted.unknown_cents += match dispatch.behavior {
                Behavior::Answer if is_unknown => dispatch.cents,
                Behavior::Answer
                | Behavior::Refuse
                | Behavior::Busy
                | Behavior::Break
                | Behavior::Cut => 0,
            };
        }
    }
    for (id, reported) in generations
        .iter()
        .filter(|(id, _)| !known.contains_key(*id))
    {
        // The server was killed before the partner read the request.
        if reported.charge_cents > 0 || reported.status != UNKNOWN {
            let what =
                format!("the partner does not know generation {id}, reported as {reported:?}");
            violations.push(money(what));
        }
    }
    counted
}

/// A call is dispatched once; again only if nothing ran at the dispatch before, and that is on record.
fn dispatched_once(
    name: &str,
    call: &Call,
    dispatches: &[Dispatch],
    generations: &BTreeMap<String, Reported>,
) -> Option<Violation> {
    let (_, before) = dispatches.split_last()?;
    let proven = |dispatch: &Dispatch| {
        let reported = generations.get(&dispatch.generation);
        call.is_keyed
            && dispatch.behavior == Behavior::Busy
            && reported.is_some_and(|reported| reported.status == "service_unavailable")
    };
    if before.iter().all(proven) {
        return None;
    }
    let what = format!("call {name} was dispatched {} times", dispatches.len());
    Some(Violation::new(Kind::Duplicated, what))
}

fn fits(call: &Call, dispatch: &Dispatch, all: &[Dispatch], reported: &Reported) -> bool {
    let (status, cents) = match dispatch.behavior {
        Behavior::Answer => ("ok", dispatch.cents),
        Behavior::Refuse => ("invalid_input", 0),
        Behavior::Busy => ("service_unavailable", 0),
        Behavior::Break | Behavior::Cut => (UNKNOWN, 0),
    };
    let is_told = call
        .end
        .as_ref()
        .is_some_and(|end| match dispatch.behavior {
            Behavior::Answer => end.body == dispatch.result,
            Behavior::Refuse => end.status == 422,
            Behavior::Busy | Behavior::Break | Behavior::Cut => false,
        });
    let as_done = (&reported.status[..], reported.charge_cents) == (status, cents);
    let as_unknown = (&reported.status[..], reported.charge_cents) == (UNKNOWN, 0);
    let may_be_unknown = !is_told && call.may_be_unknown(all);
    as_done || (as_unknown && (may_be_unknown || call.may_be_forgotten))
}

/// One entry of the ledger for each charge, and every sum is the same.
fn against_ledger(
    reports: &Reports,
    generations: &BTreeMap<String, Reported>,
    violations: &mut Vec<Violation>,
) {
    let charges = generations.values().map(|now| now.charge_cents);
    let export: i64 = charges.map(u64::cast_signed).sum();
    if let Some(ledger) = &reports.ledger {
        let mut left: BTreeMap<String, i64> = generations
            .iter()
            .filter(|(_, now)| now.charge_cents > 0)
            .map(|(id, now)| (id.replace('-', ""), -now.charge_cents.cast_signed()))
            .collect();
        for (generation, amount) in ledger {
            let Some(generation) = generation else {
                continue;
            };
            if left.remove(generation) != Some(*amount) {
                let what = format!(
                    "the ledger has {amount} cents for generation {generation}, and no export once"
                );
                violations.push(money(what));
            }
        }
        for (generation, amount) in left {
            let what = format!("the ledger lacks {amount} cents for generation {generation}");
            violations.push(money(what));
        }
    }
    let spent = reports.granted_cents - reports.balance_cents;
    if (reports.totals_cents, spent) != (export, export) {
        let totals = reports.totals_cents;
        let what = format!(
            "the export sums up to {export} cents, the totals to {totals}, the balance to {spent}"
        );
        violations.push(money(what));
    }
    if reports.held_cents != 0 {
        let what = format!(
            "{} cents are held although nothing runs",
            reports.held_cents
        );
        violations.push(money(what));
    }
}

fn money(what: impl Into<String>) -> Violation {
    Violation::new(Kind::Money, what)
}

#[cfg(test)]
mod tests;
