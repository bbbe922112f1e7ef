//! The SQL of budgets of keys and labels: what is held and was charged in their scopes, and which causes count against them.
//!
//! Everything here is read and changed while the credits of its accounts are locked, but for what operators look at.

use std::collections::HashMap;

use accounts::{
    Account, AccountId, BudgetScope, Credits, LedgerEntry, LedgerRef, ScopedBudgetView, Spend,
};
use deadpool_postgres::{GenericClient, Transaction};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;

use super::ledger::{read, spell_all};
use super::rows::read_spend;
use crate::DatabaseError;
use crate::columns::{parse, unsigned};
use crate::statements::{execute, query, whole};

/// How long it is remembered what a cause counts against that is neither billed nor released: longer than any call runs. It is
/// left behind by a process that ended between a hold and the row of its call.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What was charged in the scopes of accounts.
const SPENT: &str =
    "SELECT account, scope, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents
    FROM scoped_spend WHERE account = ANY($1)";

/// What is held and was charged in scopes, by account.
pub(super) type ScopeCredits = HashMap<(String, BudgetScope), Credits>;

/// Against which scopes causes count.
pub(super) type CauseScopes = HashMap<(AccountId, LedgerRef), Vec<BudgetScope>>;

/// What is held from `now` on and was charged in all scopes of accounts.
pub(super) async fn credits(
    rows: &impl GenericClient,
    accounts: &[&str],
    now: Timestamp,
) -> Result<ScopeCredits, DatabaseError> {
    let mut credits = ScopeCredits::new();
    if accounts.is_empty() {
        return Ok(credits);
    }
    let charged = query(rows, SPENT, &[&accounts]).await?;
    for row in &charged {
        let key = (row.get("account"), parse(row.get("scope"))?);
        credits.entry(key).or_default().spend = read_spend(row)?;
    }
    let held = query(
        rows,
        "SELECT account, scope, sum(cents)::bigint AS cents
         FROM budget_causes JOIN credit_holds USING (account, why, cause), unnest(scopes) AS scope
         WHERE account = ANY($1)
            AND (until > $2 OR EXISTS (SELECT FROM generations_running r WHERE r.id = cause)) GROUP BY account, scope",
        &[&accounts, &now.as_microsecond()],
    )
    .await?;
    for row in &held {
        let key = (row.get("account"), parse(row.get("scope"))?);
        credits.entry(key).or_default().held_cents = unsigned(row.get("cents"))?;
    }
    Ok(credits)
}

/// Against which scopes causes count that have a hold, or had one.
pub(super) async fn of_causes(
    rows: &impl GenericClient,
    causes: &[(&AccountId, LedgerRef)],
) -> Result<CauseScopes, DatabaseError> {
    if causes.is_empty() {
        return Ok(CauseScopes::new());
    }
    let accounts: Vec<&str> = causes.iter().map(|(account, _)| account.as_str()).collect();
    let (whys, ids) = spell_all(causes.iter().map(|(_, cause)| *cause));
    let found = query(
        rows,
        "SELECT account, why, cause, scopes FROM budget_causes
         JOIN unnest($1::text[], $2::smallint[], $3::uuid[]) AS asked (account, why, cause) USING (account, why, cause)",
        &[&accounts, &whys, &ids],
    )
    .await?;
    found.iter().map(of_cause).collect()
}

/// A row with the scopes of a cause.
pub(super) fn of_cause(
    row: &Row,
) -> Result<((AccountId, LedgerRef), Vec<BudgetScope>), DatabaseError> {
    let scopes: Vec<&str> = row.get("scopes");
    let scopes: Result<_, _> = scopes.into_iter().map(parse).collect();
    let cause = read(row.get("why"), row.get("cause"))?;
    Ok(((parse(row.get("account"))?, cause), scopes?))
}

/// Writes down against which scopes causes count, each once.
pub(super) async fn remember(
    rows: &impl GenericClient,
    causes: &[(&AccountId, LedgerRef, &[BudgetScope])],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    if causes.is_empty() {
        return Ok(());
    }
    let accounts: Vec<&str> = causes
        .iter()
        .map(|(account, ..)| account.as_str())
        .collect();
    let (whys, ids) = spell_all(causes.iter().map(|(_, cause, _)| *cause));
    // A scope has no line feed.
    let lines = causes.iter().map(|(_, _, scopes)| {
        let lines: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    });
    let lines: Vec<String> = lines.collect();
    execute(
        rows,
        "INSERT INTO budget_causes (account, why, cause, scopes, at)
         SELECT account, why, cause, string_to_array(lines, E'\\n'), $5::bigint
         FROM unnest($1::text[], $2::smallint[], $3::uuid[], $4::text[]) AS made (account, why, cause, lines)
         ORDER BY account COLLATE \"C\", why, cause ON CONFLICT DO NOTHING",
        &[&accounts, &whys, &ids, &lines, &now.as_microsecond()],
    )
    .await?;
    let old = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
    execute(
        rows,
        "DELETE FROM budget_causes WHERE (account, why, cause) IN (
            SELECT account, why, cause FROM budget_causes WHERE at < $1 LIMIT 1000 FOR UPDATE SKIP LOCKED)",
        &[&old.as_microsecond()],
    )
    .await?;
    Ok(())
}

/// Adds new entries of the ledger to what was charged in the scopes that their causes count against.
pub(super) async fn charge(
    rows: &impl GenericClient,
    entries: &[LedgerEntry],
    scopes: &CauseScopes,
) -> Result<(), DatabaseError> {
    let charged = entries.iter().filter_map(|entry| {
        let scopes = scopes.get(&(entry.account.clone(), entry.cause))?;
        Some((entry, scopes))
    });
    let charged: Vec<(&LedgerEntry, &Vec<BudgetScope>)> = charged.collect();
    if charged.is_empty() {
        return Ok(());
    }
    let accounts: Vec<&str> = charged
        .iter()
        .map(|(entry, _)| entry.account.as_str())
        .collect();
    let known = query(rows, SPENT, &[&accounts]).await?;
    let mut spends: HashMap<(&str, BudgetScope), Spend> = HashMap::new();
    for row in &known {
        let key = (row.get("account"), parse(row.get("scope"))?);
        spends.insert(key, read_spend(row)?);
    }
    let mut changed = HashMap::new();
    for (entry, scopes) in charged {
        for scope in scopes {
            let key = (entry.account.as_str(), scope.clone());
            let before = || spends.get(&key).copied().unwrap_or_default();
            let spend = changed.entry(key.clone()).or_insert_with(before);
            spend.post(entry.cause, entry.amount_cents, entry.at);
        }
    }
    let accounts: Vec<&str> = changed.keys().map(|(account, _)| *account).collect();
    let names: Vec<String> = changed.keys().map(|(_, scope)| scope.to_string()).collect();
    let spent = |cents: fn(&Spend) -> i64| changed.values().map(cents).collect::<Vec<i64>>();
    execute(
        rows,
        "INSERT INTO scoped_spend (account, scope, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents)
         SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
         ON CONFLICT (account, scope) DO UPDATE SET spent_at = excluded.spent_at,
            spent_hour_cents = excluded.spent_hour_cents, spent_day_cents = excluded.spent_day_cents,
            spent_month_cents = excluded.spent_month_cents",
        &[
            &accounts,
            &names,
            &spent(|spend| spend.at.as_microsecond()),
            &spent(|spend| whole(spend.hour_cents)),
            &spent(|spend| whole(spend.day_cents)),
            &spent(|spend| whole(spend.month_cents)),
        ],
    )
    .await?;
    Ok(())
}

/// Forgets what was charged in scopes of an account that have no budgets any more.
pub(super) async fn keep(rows: &Transaction<'_>, account: &Account) -> Result<(), DatabaseError> {
    let kept = account.limits.scoped_budgets.iter();
    let kept: Vec<String> = kept.map(|(scope, _)| scope.to_string()).collect();
    execute(
        rows,
        "DELETE FROM scoped_spend WHERE account = $1 AND scope <> ALL($2)",
        &[&account.id.as_str(), &kept],
    )
    .await?;
    Ok(())
}

/// The budgets of scopes of accounts as operators see them; holds that lapsed a moment ago may still be in them.
pub(super) async fn views(
    rows: &impl GenericClient,
    accounts: &[&Account],
) -> Result<HashMap<AccountId, Vec<ScopedBudgetView>>, DatabaseError> {
    let with = accounts
        .iter()
        .filter(|account| !account.limits.scoped_budgets.is_empty());
    let ids: Vec<&str> = with.clone().map(|account| account.id.as_str()).collect();
    let credits = credits(rows, &ids, Timestamp::MIN).await?;
    let views = with.map(|account| {
        let all = account.limits.scoped_budgets.iter();
        let all = all.map(|(scope, budgets)| {
            let key = (account.id.as_str().to_owned(), scope.clone());
            ScopedBudgetView {
                scope: scope.clone(),
                budgets,
                credits: credits.get(&key).copied().unwrap_or_default(),
            }
        });
        (account.id.clone(), all.collect())
    });
    Ok(views.collect())
}
