//! Accounts, keys and entries as operators read them.

use accounts::{
    AccountState, AccountView, ApiKey, BudgetLeft, Credits, LedgerEntry, ScopedBudgetView,
};
use admin_http::wire::{
    AccountBody, BudgetBody, CreditsBody, EntryBody, KeyBody, ScopedBudgetBody,
};
use jiff::Timestamp;

use super::fields;

pub(super) fn account_body(view: &AccountView, now: Timestamp) -> AccountBody {
    let account = &view.account;
    let budgets = view.tier.router.budgets.left(view.credits, now);
    AccountBody {
        id: account.id.to_string(),
        name: account.name.to_string(),
        suspended: account.state == AccountState::Suspended,
        subscribed: account.subscribed,
        router: account.router,
        billed: account.billed,
        balance_cents: view.credits.balance_cents,
        held_cents: view.credits.held_cents,
        budgets: budgets.map(budget_body).collect(),
        scoped_budgets: view
            .scoped
            .iter()
            .map(|scoped| scoped_budget_body(scoped, now))
            .collect(),
        created_at: time(account.created_at),
        limits: fields::show(&view.tier, &account.limits),
    }
}

fn scoped_budget_body(view: &ScopedBudgetView, now: Timestamp) -> ScopedBudgetBody {
    let budgets = view.budgets.left(view.credits, now);
    ScopedBudgetBody {
        scope: view.scope.to_string(),
        budgets: budgets.map(budget_body).collect(),
    }
}

fn budget_body(left: BudgetLeft) -> BudgetBody {
    BudgetBody {
        window: left.window.name().to_owned(),
        limit_cents: left.limit_cents,
        left_cents: left.left_cents,
        ends_at: time(left.ends_at),
    }
}

pub(super) fn credits_body(credits: &Credits) -> CreditsBody {
    CreditsBody {
        balance_cents: credits.balance_cents,
        held_cents: credits.held_cents,
    }
}

pub(super) fn entry_body(entry: &LedgerEntry) -> EntryBody {
    EntryBody {
        seq: entry.seq,
        at: time(entry.at),
        cause: entry.cause.to_string(),
        amount_cents: entry.amount_cents,
    }
}

pub(super) fn key_body(key: &ApiKey, now: Timestamp) -> KeyBody {
    let state = match (key.revoked_at, key.counts(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "active",
        (None, false) => "expired",
    };
    KeyBody {
        id: key.id.to_string(),
        account: key.account.to_string(),
        name: key.name.to_string(),
        scopes: key.scopes.to_string(),
        state: state.to_owned(),
        created_at: time(key.created_at),
        expires_at: key.expires_at.map(time),
    }
}

/// To the second: that is what people compare.
pub(super) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
