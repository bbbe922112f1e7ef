//! Answers for people: tables on standard output.

use admin_http::wire::{AccountBody, BudgetBody, EntryBody, KeyBody};

use crate::listing::table;

/// A line for each account.
pub(super) fn accounts(accounts: &[AccountBody]) -> String {
    let head = [
        "ID",
        "STATE",
        "SUBSCRIPTION",
        "ROUTER",
        "BILLING",
        "BALANCE",
        "CREATED",
        "NAME",
    ];
    let rows = accounts.iter().map(|account| {
        vec![
            account.id.clone(),
            state(account).to_owned(),
            on_off(account.subscribed).to_owned(),
            on_off(account.router).to_owned(),
            on_off(account.billed).to_owned(),
            money(account.balance_cents),
            account.created_at.clone(),
            account.name.clone(),
        ]
    });
    table(&head, rows)
}

/// Everything of one account.
pub(super) fn account(account: &AccountBody) -> String {
    let held = i64::try_from(account.held_cents).unwrap_or(i64::MAX);
    let balance = format!(
        "{}, of which {} is held",
        money(account.balance_cents),
        money(held)
    );
    let fields = [
        ("id", account.id.clone()),
        ("name", account.name.clone()),
        ("state", state(account).to_owned()),
        ("subscription", on_off(account.subscribed).to_owned()),
        ("router", on_off(account.router).to_owned()),
        ("billing", on_off(account.billed).to_owned()),
        ("balance", balance),
        ("created", account.created_at.clone()),
    ];
    let mut text = String::new();
    for (name, value) in fields {
        text.push_str(&format!("{name:<17}{value}\n"));
    }
    for budget in &account.budgets {
        let name = format!("budget of {}", budget.window);
        text.push_str(&format!("{name:<17}{}\n", left(budget)));
    }
    for scoped in &account.scoped_budgets {
        for budget in &scoped.budgets {
            let name = format!("budget of {} of {}", budget.window, scoped.scope);
            text.push_str(&format!("{name}: {}\n", left(budget)));
        }
    }
    for limit in &account.limits {
        let origin = if limit.own { "" } else { "  (default)" };
        text.push_str(&format!("{:<17}{}{origin}\n", limit.name, limit.value));
    }
    text
}

/// What is left of a budget.
fn left(budget: &BudgetBody) -> String {
    let cents = |cents| money(i64::try_from(cents).unwrap_or(i64::MAX));
    let (left, limit) = (cents(budget.left_cents), cents(budget.limit_cents));
    format!("{left} of {limit} is left until {}", budget.ends_at)
}

/// A line for each entry.
pub(super) fn entries(entries: &[EntryBody]) -> String {
    let rows = entries.iter().map(|entry| {
        vec![
            entry.at.clone(),
            money(entry.amount_cents),
            entry.cause.clone(),
        ]
    });
    table(&["TIME", "AMOUNT", "CAUSE"], rows)
}

/// A line for each key.
pub(super) fn keys(keys: &[KeyBody]) -> String {
    let head = ["ID", "STATE", "CREATED", "EXPIRES", "SCOPES", "NAME"];
    let rows = keys.iter().map(|key| {
        vec![
            key.id.clone(),
            key.state.clone(),
            key.created_at.clone(),
            key.expires_at.clone().unwrap_or_else(|| "never".to_owned()),
            key.scopes.replace(' ', ","),
            key.name.clone(),
        ]
    });
    table(&head, rows)
}

/// Cents as dollars.
pub(super) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}${}.{:02}", cents / 100, cents % 100)
}

fn state(account: &AccountBody) -> &'static str {
    if account.suspended {
        "suspended"
    } else {
        "active"
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_are_shown_as_dollars() {
        for (cents, shown) in [
            (0, "$0.00"),
            (5, "$0.05"),
            (-1234, "-$12.34"),
            (i64::MIN, "-$92233720368547758.08"),
        ] {
            assert_eq!(money(cents), shown);
        }
    }
}
