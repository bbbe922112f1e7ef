//! What a request of an operator does: a function of the ports, the request and the time. HTTP, the admin socket and commands
//! without a server all come here.

mod webhooks;

use accounts::{
    Account, AccountChange, AccountId, AccountQuery, AdminError, ApiKey, BudgetScope, Budgets,
    DisplayName, KeyHash, KeyId, LedgerRef, ScopedBudgets, Scopes,
};
use admin_http::wire::{
    AccountBody, AccountsPage, Answer, CatalogBody, CreditsBody, EntriesPage, JobExplanation,
    KeysPage, Problem, ProblemKind, Reply, Request, SettingsBody, WorkerBody, WorkersPage,
};
use admin_http::{Actor, AdminService};
use async_trait::async_trait;
use hyper_kit::error_chain;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::audit::Change;
use super::bodies::{account_body, credits_body, entry_body, key_body};
use super::{AdminPorts, JobAdmin, WorkerAdmin, assets, fields, models};

/// Most rows of a page.
pub(super) const MOST_ROWS: usize = 200;

/// Rows of a page where the request says nothing.
const ROWS: usize = 50;

/// Most faults of a catalog that are told.
const MOST_FAULTS: usize = 100;

#[async_trait]
impl AdminService for AdminPorts {
    async fn answer(&self, actor: &Actor, request: Request, now: Timestamp) -> Reply {
        let change = Change::of(&request);
        let done = perform(self, request, now).await;
        if let Some(change) = change {
            change.log(actor, done.as_ref().err());
        }
        match done {
            Ok(answer) => Reply::Done(answer),
            Err(problem) => Reply::Refused(problem),
        }
    }
}

async fn perform(ports: &AdminPorts, request: Request, now: Timestamp) -> Result<Answer, Problem> {
    let admin = &ports.admin;
    match request {
        Request::AddAccount { id, changes } => {
            let id = account_id(&id)?;
            let mut account = Account::new(id.clone(), (&id).into(), now);
            let changes = read_changes(&changes)?;
            check_scopes(&account, &[], &changes)?;
            changes.into_iter().for_each(|change| account.apply(change));
            admin.create(account).await.map_err(of_account(&id))?;
            Ok(Answer::Account(look(ports, &id, now).await?))
        }
        Request::ChangeAccount { id, changes } => {
            let id = account_id(&id)?;
            let changes = read_changes(&changes)?;
            if changes.iter().any(is_of_scopes) {
                let account = admin.change(&id, Vec::new()).await;
                let account = account.map_err(of_account(&id))?;
                let keys = admin.keys(&id).await.map_err(of_account(&id))?;
                check_scopes(&account, &keys, &changes)?;
            }
            let changed = admin.change(&id, changes).await;
            changed.map_err(of_account(&id))?;
            Ok(Answer::Account(look(ports, &id, now).await?))
        }
        Request::Accounts { after, limit } => {
            let after = after.as_deref().map(account_id).transpose()?;
            let limit = rows(limit);
            let views = admin.accounts(&AccountQuery::Page { after, limit }).await;
            let views = views.map_err(|error| fault(&error))?;
            let last = views.last().map(|view| view.account.id.to_string());
            Ok(Answer::Accounts(AccountsPage {
                next_cursor: last.filter(|_| views.len() >= limit),
                accounts: views.iter().map(|view| account_body(view, now)).collect(),
            }))
        }
        Request::Account { id } => {
            let id = account_id(&id)?;
            Ok(Answer::Account(look(ports, &id, now).await?))
        }
        Request::Grant {
            account,
            reference,
            cents,
        } => grant(ports, &account, &reference, cents, now).await,
        Request::Entries {
            account,
            before,
            limit,
        } => {
            let id = account_id(&account)?;
            let AccountBody {
                balance_cents,
                held_cents,
                ..
            } = look(ports, &id, now).await?;
            let limit = rows(limit);
            let entries = ports.accounts.entries(&id, before, limit).await;
            let entries = entries.map_err(|error| fault(&error))?;
            let last = entries.last().map(|entry| entry.seq.to_string());
            Ok(Answer::Entries(EntriesPage {
                credits: CreditsBody {
                    balance_cents,
                    held_cents,
                },
                next_cursor: last.filter(|_| entries.len() >= limit),
                entries: entries.iter().map(entry_body).collect(),
            }))
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
            let scopes: Scopes = scopes.parse().map_err(|error| invalid(&error))?;
            let name: Option<DisplayName> = name
                .map(|name| name.parse().map_err(|error| invalid(&error)))
                .transpose()?;
            let id: KeyId = id.parse().map_err(|error| invalid(&error))?;
            let lifetime = expires_in_s.map(|seconds| SignedDuration::from_secs(seconds.into()));
            let key = ApiKey {
                id,
                name: name.unwrap_or_else(|| (&account).into()),
                account,
                scopes,
                created_at: now,
                expires_at: lifetime.map(|lifetime| now.saturating_add(lifetime).unwrap_or(now)),
                revoked_at: None,
            };
            add_key(ports, key, KeyHash::from_bytes(hash), now).await
        }
        Request::Keys {
            account,
            after,
            limit,
        } => {
            let id = account_id(&account)?;
            let keys = admin.keys(&id).await.map_err(of_account(&id))?;
            let key_id = |key: &ApiKey| key.id.to_string();
            let (page, next_cursor) = page(&keys, key_id, after.as_deref(), rows(limit), "key")?;
            Ok(Answer::Keys(KeysPage {
                keys: page.iter().map(|key| key_body(key, now)).collect(),
                next_cursor,
            }))
        }
        Request::RevokeKey { id } => {
            let id: KeyId = id.parse().map_err(|error| invalid(&error))?;
            let revoked = admin.revoke_key(&id, now).await;
            let key = revoked.map_err(of_key(&id))?;
            Ok(Answer::Key(key_body(&key, now)))
        }
        Request::Workers { after, limit } => {
            let all = workers(ports)?.list();
            let name = |worker: &WorkerBody| worker.name.clone();
            let (page, next_cursor) = page(&all, name, after.as_deref(), rows(limit), "worker")?;
            Ok(Answer::Workers(WorkersPage {
                workers: page.to_vec(),
                next_cursor,
            }))
        }
        Request::ChangeWorker(change) => {
            workers(ports)?.change(change)?;
            Ok(Answer::Done)
        }
        Request::ExplainJob { id, account } => explain(ports, &id, account, now).await,
        Request::Deployment(request) => {
            let deployments = deployments(ports)?;
            let answer = super::deployments::perform(deployments, request, now).await;
            answer.map(Answer::Deployment)
        }
        Request::Model(request) => models::perform(ports, request, now).await,
        Request::ConfirmSweeps => {
            let confirmed = ports.sweeps.confirm().await;
            confirmed.map_err(|error| fault(&error))?;
            Ok(Answer::Done)
        }
        Request::Asset { id } => assets::look(ports, &id).await,
        Request::HoldAsset { id, held } => assets::hold(ports, &id, held).await,
        Request::Settings => {
            let settings = ports.settings.as_ref().ok_or_else(|| {
                absent("no server runs here; `config show` prints the settings of its next start")
            })?;
            Ok(Answer::Settings(SettingsBody {
                settings: settings.list().to_vec(),
            }))
        }
        Request::Webhook(request) => webhooks::perform(&ports.webhooks, request, now).await,
        Request::Catalog => {
            let catalog = catalog(ports)?;
            Ok(Answer::Catalog(catalog.list().await))
        }
        Request::ReloadCatalog => {
            let catalog = catalog(ports)?;
            let loaded = catalog.reload().await;
            loaded.map(Answer::Catalog).map_err(of_catalog)
        }
    }
}

/// Adds credits once for a reference. A repeat answers what the account has; another amount is refused, because one of the two
/// was not meant.
async fn grant(
    ports: &AdminPorts,
    account: &str,
    reference: &str,
    cents: i32,
    now: Timestamp,
) -> Result<Answer, Problem> {
    let id = account_id(account)?;
    let cause = uuid(reference).map(LedgerRef::Grant)?;
    let granted = ports.admin.grant(&id, cause, cents, now).await;
    let granted = granted.map_err(of_account(&id))?;
    let stands = granted.entry.amount_cents;
    if stands != i64::from(cents) {
        let message = format!(
            "the reference {reference} stands for a grant of {stands} cents already; nothing was changed: take a new \
             reference for another grant"
        );
        return Err(Problem::new(ProblemKind::Conflict, message));
    }
    Ok(Answer::Credits(credits_body(&granted.credits)))
}

/// Adds a key. A repeat with the same text, which only its maker can send, is the same key.
async fn add_key(
    ports: &AdminPorts,
    key: ApiKey,
    hash: KeyHash,
    now: Timestamp,
) -> Result<Answer, Problem> {
    match ports.admin.add_key(key.clone(), hash).await {
        Ok(()) => Ok(Answer::Key(key_body(&key, now))),
        Err(AdminError::Taken) => {
            let known = ports.accounts.by_key(&hash, now).await;
            let known = known.map_err(|error| fault(&error))?;
            let same = |known: &accounts::Principal| {
                known.key.as_ref() == Some(&key.id) && known.account == key.account
            };
            if known.as_ref().is_some_and(same) {
                let keys = ports.admin.keys(&key.account).await;
                let keys = keys.map_err(of_account(&key.account))?;
                if let Some(stands) = keys.iter().find(|stands| stands.id == key.id) {
                    return Ok(Answer::Key(key_body(stands, now)));
                }
            }
            let message = format!("there is a key {} already; make another one", key.id);
            Err(Problem::new(ProblemKind::Taken, message))
        }
        Err(error @ (AdminError::NoAccount | AdminError::NoKey | AdminError::Unavailable(_))) => {
            Err(of_account(&key.account)(error))
        }
    }
}

async fn look(ports: &AdminPorts, id: &AccountId, now: Timestamp) -> Result<AccountBody, Problem> {
    let views = ports.admin.accounts(&AccountQuery::One(id.clone())).await;
    let views = views.map_err(|error| fault(&error))?;
    let view = views.first().ok_or_else(|| no_account(id))?;
    Ok(account_body(view, now))
}

/// Looks for a job in one account, or in all of them.
async fn explain(
    ports: &AdminPorts,
    id: &str,
    account: Option<String>,
    now: Timestamp,
) -> Result<Answer, Problem> {
    let jobs = ports.jobs.as_deref().ok_or_else(|| {
        absent("no server with jobs runs here; start one, such as `all-in-one`, or ask one with --server")
    })?;
    let job = uuid(id)?;
    let found = match account {
        Some(account) => jobs.explain(&account_id(&account)?, job, now).await?,
        None => explain_of_any(ports, jobs, job, now).await?,
    };
    let unknown = || absent(&format!("there is no job {id}; it may have expired"));
    Ok(Answer::Job(found.ok_or_else(unknown)?))
}

async fn explain_of_any(
    ports: &AdminPorts,
    jobs: &dyn JobAdmin,
    job: Uuid,
    now: Timestamp,
) -> Result<Option<JobExplanation>, Problem> {
    let mut after = None;
    loop {
        let limit = MOST_ROWS;
        let query = AccountQuery::Page { after, limit };
        let page = ports.admin.accounts(&query).await;
        let page = page.map_err(|error| fault(&error))?;
        for view in &page {
            let found = jobs.explain(&view.account.id, job, now).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        match page.last() {
            Some(last) if page.len() >= limit => after = Some(last.account.id.clone()),
            Some(_) | None => return Ok(None),
        }
    }
}

/// The part of a list behind the item that `after` names, and what names the last of the page if more follow.
pub(super) fn page<'a, T>(
    all: &'a [T],
    id: impl Fn(&T) -> String,
    after: Option<&str>,
    limit: usize,
    what: &str,
) -> Result<(&'a [T], Option<String>), Problem> {
    let begin = match after {
        None => 0,
        Some(after) => {
            let place = all.iter().position(|item| id(item) == after);
            let place = place.ok_or_else(|| {
                refused(&format!(
                    "the cursor names no {what} of this list; start without one"
                ))
            });
            place? + 1
        }
    };
    let page = &all[begin..all.len().min(begin + limit)];
    let more = begin + page.len() < all.len();
    Ok((page, page.last().filter(|_| more).map(id)))
}

pub(super) fn rows(limit: Option<u32>) -> usize {
    limit.map_or(ROWS, |limit| {
        usize::try_from(limit).map_or(MOST_ROWS, |limit| limit.clamp(1, MOST_ROWS))
    })
}

fn read_changes(changes: &[(String, String)]) -> Result<Vec<AccountChange>, Problem> {
    let read = changes
        .iter()
        .map(|(name, text)| fields::read(name, text).map_err(|message| refused(&message)));
    read.collect()
}

fn is_of_scopes(change: &AccountChange) -> bool {
    matches!(change, AccountChange::ScopedBudgets(_))
}

/// Whether budgets of keys are of keys of the account, and not too many have some.
fn check_scopes(
    account: &Account,
    keys: &[ApiKey],
    changes: &[AccountChange],
) -> Result<(), Problem> {
    let mut all = account.limits.scoped_budgets.clone();
    for change in changes {
        let AccountChange::ScopedBudgets(changes) = change else {
            continue;
        };
        for (scope, budgets) in changes {
            if let BudgetScope::Key(id) = scope
                && *budgets != Budgets::default()
                && !keys.iter().any(|key| key.id == *id)
            {
                return Err(refused(&format!(
                    "the account has no key {id}; `key list` shows the keys that it has"
                )));
            }
            all = all.with(scope.clone(), *budgets);
        }
    }
    match all.len() > ScopedBudgets::MOST {
        true => Err(refused(&format!(
            "at most {} keys and labels of an account have budgets; take some away with `none`",
            ScopedBudgets::MOST
        ))),
        false => Ok(()),
    }
}

fn account_id(text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|error| {
        let problem = invalid(&error);
        let message = format!("\"{text}\" names no account: {}", problem.message);
        Problem { message, ..problem }
    })
}

pub(super) fn uuid(text: &str) -> Result<Uuid, Problem> {
    let id = text.parse();
    id.map_err(|_| refused(&format!("\"{text}\" is no id; ids are UUIDs")))
}

fn catalog(ports: &AdminPorts) -> Result<&dyn super::CatalogControl, Problem> {
    let catalog = ports.catalog.as_deref();
    catalog.ok_or_else(|| {
        absent("no catalog is served here; ask a running server of partner models, with --server or in its data directory")
    })
}

fn workers(ports: &AdminPorts) -> Result<&dyn WorkerAdmin, Problem> {
    let workers = ports.workers.as_deref();
    workers.ok_or_else(|| {
        absent("no server with workers runs here; start one, such as `all-in-one --comfyui http://127.0.0.1:8188`")
    })
}

fn deployments(ports: &AdminPorts) -> Result<&dyn super::DeploymentAdmin, Problem> {
    let deployments = ports.deployments.as_deref();
    deployments.ok_or_else(|| {
        absent("no server with deployments runs here; start one, such as `all-in-one`, or ask one with --server")
    })
}

fn of_catalog(faults: Vec<String>) -> Problem {
    let count = faults.len();
    let mut faults = faults;
    faults.truncate(MOST_FAULTS);
    Problem {
        faults,
        ..refused(&format!(
            "the catalog has {count} faults and was not taken over; the one before is still served"
        ))
    }
}

fn no_account(id: &AccountId) -> Problem {
    absent(&format!(
        "there is no account {id}; `account list` shows those there are"
    ))
}

fn of_account(id: &AccountId) -> impl Fn(AdminError) -> Problem {
    move |error| match error {
        AdminError::Taken => Problem::new(
            ProblemKind::Taken,
            format!("there is an account {id} already"),
        ),
        AdminError::NoAccount => no_account(id),
        AdminError::NoKey | AdminError::Unavailable(_) => fault(&error),
    }
}

fn of_key(id: &KeyId) -> impl Fn(AdminError) -> Problem {
    move |error| match error {
        AdminError::NoKey => absent(&format!(
            "there is no key {id}; `key list ACCOUNT` shows those of an account"
        )),
        AdminError::Taken | AdminError::NoAccount | AdminError::Unavailable(_) => fault(&error),
    }
}

fn invalid(error: &dyn std::error::Error) -> Problem {
    refused(&error_chain(error))
}

fn refused(message: &str) -> Problem {
    Problem::new(ProblemKind::Invalid, message)
}

pub(super) fn absent(message: &str) -> Problem {
    Problem::new(ProblemKind::Absent, message)
}

/// The caller reads that there was a fault and not which; a command on the server's machine reads the whole of it.
pub(super) fn fault(error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemKind::Fault, error_chain(error))
}

/// What a server serves of its catalog, for programs that have one.
#[async_trait]
pub trait CatalogControl: Send + Sync + 'static {
    /// The models and partners as they are served now.
    async fn list(&self) -> CatalogBody;

    /// Reads the catalog's folder again and serves it, or answers its faults and changes nothing.
    async fn reload(&self) -> Result<CatalogBody, Vec<String>>;
}
