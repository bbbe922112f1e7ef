//! What a request of the command line does: a function of the ports, the request and the time.

use accounts::{
    Account, AccountChange, AccountId, AccountQuery, AccountState, AccountView, AdminError, ApiKey,
    DisplayName, KeyHash, KeyId, LedgerEntry, LedgerRef, Scopes,
};
use asset_store::{AssetId, Hold};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::AdminPorts;
use super::fields;
use super::wire::{AccountBody, Answer, EntryBody, KeyBody, Problem, Reply, Request};
use super::workers;
use crate::program::chain;

/// Accounts of a page.
const PAGE: usize = 200;

/// Entries of a ledger that are shown.
const ENTRIES: usize = 50;

/// Does what is asked for.
pub(super) async fn answer(ports: &AdminPorts, request: Request, now: Timestamp) -> Reply {
    match perform(ports, request, now).await {
        Ok(answer) => Reply::Done(answer),
        Err(problem) => Reply::Refused(problem),
    }
}

async fn perform(ports: &AdminPorts, request: Request, now: Timestamp) -> Result<Answer, Problem> {
    let admin = &ports.admin;
    match request {
        Request::AddAccount { id, changes } => {
            let id = account_id(&id)?;
            let mut account = Account::new(id.clone(), (&id).into(), now);
            for change in read_changes(&changes)? {
                account.apply(change);
            }
            admin.create(account).await.map_err(of_account(&id))?;
            Ok(Answer::Done)
        }
        Request::ChangeAccount { id, changes } => {
            let id = account_id(&id)?;
            let changed = admin.change(&id, read_changes(&changes)?).await;
            changed.map_err(of_account(&id))?;
            Ok(Answer::Done)
        }
        Request::Accounts { after } => {
            let after = after.as_deref().map(account_id).transpose()?;
            let limit = PAGE;
            let views = admin.accounts(&AccountQuery::Page { after, limit }).await;
            let views = views.map_err(|error| fault(&error))?;
            Ok(Answer::Accounts(views.iter().map(account_body).collect()))
        }
        Request::Account { id } => {
            let id = account_id(&id)?;
            let views = admin.accounts(&AccountQuery::One(id.clone())).await;
            let views = views.map_err(|error| fault(&error))?;
            let view = views.first().ok_or_else(|| no_account(&id))?;
            Ok(Answer::Accounts(vec![account_body(view)]))
        }
        Request::Grant {
            account,
            cause,
            cents,
        } => {
            let id = account_id(&account)?;
            let cause = uuid(&cause).map(LedgerRef::Grant)?;
            let granted = admin.grant(&id, cause, cents, now).await;
            let balance_cents = granted.map_err(of_account(&id))?.credits.balance_cents;
            Ok(Answer::Credits { balance_cents })
        }
        Request::Entries { account } => {
            let id = account_id(&account)?;
            // A look, which tells an account without entries from none at all.
            admin
                .change(&id, Vec::new())
                .await
                .map_err(of_account(&id))?;
            let entries = ports.accounts.entries(&id, None, ENTRIES).await;
            let entries = entries.map_err(|error| fault(&error))?;
            Ok(Answer::Entries(entries.iter().map(entry_body).collect()))
        }
        Request::AddKey {
            account,
            id,
            hash,
            name,
            scopes,
            expires_in_s,
        } => {
            let account = account_id(&account)?;
            let scopes: Scopes = scopes.parse().map_err(|error| usage(&error))?;
            let name: Option<DisplayName> = name
                .map(|name| name.parse().map_err(|error| usage(&error)))
                .transpose()?;
            let id: KeyId = id.parse().map_err(|error| usage(&error))?;
            let lifetime = expires_in_s.map(|seconds| SignedDuration::from_secs(seconds.into()));
            let key = ApiKey {
                id,
                name: name.unwrap_or_else(|| (&account).into()),
                account: account.clone(),
                scopes,
                created_at: now,
                expires_at: lifetime.map(|lifetime| now.saturating_add(lifetime).unwrap_or(now)),
                revoked_at: None,
            };
            let added = admin.add_key(key, KeyHash::from_bytes(hash)).await;
            added.map_err(of_account(&account))?;
            Ok(Answer::Done)
        }
        Request::Keys { account } => {
            let id = account_id(&account)?;
            let keys = admin.keys(&id).await.map_err(of_account(&id))?;
            let keys = keys.iter().map(|key| key_body(key, now));
            Ok(Answer::Keys(keys.collect()))
        }
        Request::RevokeKey { id } => {
            let id: KeyId = id.parse().map_err(|error| usage(&error))?;
            let revoked = admin.revoke_key(&id, now).await;
            let key = revoked.map_err(of_key(&id))?;
            Ok(Answer::Keys(vec![key_body(&key, now)]))
        }
        Request::Workers { change } => workers::perform(ports.workers.as_deref(), change),
        Request::ConfirmSweeps => {
            let confirmed = ports.sweeps.confirm().await;
            confirmed.map_err(|error| fault(&error))?;
            Ok(Answer::Done)
        }
        Request::HoldAsset { id, held } => {
            let records = ports.records.as_ref();
            let records = records.ok_or_else(|| refused("this installation keeps no assets"))?;
            let asset = uuid(&id).map(AssetId)?;
            let found = records.hold(asset, Hold::Operator, held).await;
            if found.map_err(|error| fault(&error))? {
                Ok(Answer::Done)
            } else {
                Err(refused(&format!(
                    "there is no asset {id}; it may have expired"
                )))
            }
        }
    }
}

fn account_body(view: &AccountView) -> AccountBody {
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

fn entry_body(entry: &LedgerEntry) -> EntryBody {
    EntryBody {
        at: time(entry.at),
        cause: entry.cause.to_string(),
        amount_cents: entry.amount_cents,
    }
}

fn key_body(key: &ApiKey, now: Timestamp) -> KeyBody {
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

fn read_changes(changes: &[(String, String)]) -> Result<Vec<AccountChange>, Problem> {
    let read = changes
        .iter()
        .map(|(name, text)| fields::read(name, text).map_err(|message| refused(&message)));
    read.collect()
}

fn account_id(text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|error| {
        let problem = usage(&error);
        let message = format!("\"{text}\" names no account: {}", problem.message);
        Problem { message, ..problem }
    })
}

fn uuid(text: &str) -> Result<Uuid, Problem> {
    let id = text.parse();
    id.map_err(|_| refused(&format!("\"{text}\" is no id; ids are UUIDs")))
}

fn no_account(id: &AccountId) -> Problem {
    refused(&format!(
        "there is no account {id}; `account list` shows those there are"
    ))
}

fn of_account(id: &AccountId) -> impl Fn(AdminError) -> Problem {
    move |error| match error {
        AdminError::Taken => Problem {
            taken: true,
            ..refused(&format!("there is an account {id} already"))
        },
        AdminError::NoAccount => no_account(id),
        AdminError::NoKey | AdminError::Unavailable(_) => fault(&error),
    }
}

fn of_key(id: &KeyId) -> impl Fn(AdminError) -> Problem {
    move |error| match error {
        AdminError::NoKey => refused(&format!(
            "there is no key {id}; `key list ACCOUNT` shows those of an account"
        )),
        AdminError::Taken | AdminError::NoAccount | AdminError::Unavailable(_) => fault(&error),
    }
}

fn usage(error: &dyn std::error::Error) -> Problem {
    refused(&chain(error))
}

fn refused(message: &str) -> Problem {
    Problem {
        usage: true,
        taken: false,
        message: message.to_owned(),
    }
}

fn fault(error: &dyn std::error::Error) -> Problem {
    Problem {
        usage: false,
        ..usage(error)
    }
}
