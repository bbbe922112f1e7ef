//! Accounts, keys and entries as operators read them.

use accounts::{AccountState, AccountView, ApiKey, Credits, LedgerEntry};
use admin_http::wire::{AccountBody, CreditsBody, EntryBody, KeyBody};
use jiff::Timestamp;

use super::fields;

pub(super) fn account_body(view: &AccountView) -> AccountBody {
    let account = &view.account;
    AccountBody {
        id: account.id.to_string(),
        name: account.name.to_string(),
        suspended: account.state == AccountState::Suspended,
        subscribed: account.subscribed,
        router: account.router,
        billed: account.billed,
        balance_cents: view.credits.balance_cents,
        held_cents: view.credits.held_cents,
        created_at: time(account.created_at),
        limits: fields::show(&view.tier, &account.limits),
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
fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
