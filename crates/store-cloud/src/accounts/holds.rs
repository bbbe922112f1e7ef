//! The SQL of what is set aside for what is under way.
//!
//! A hold is made while the credits of its account are locked. Where several holds are locked, it is in the order of their keys.
//! A hold that lapsed counts while the row of its generation is among those that run, whichever process this is: whoever took that
//! over, or will, asks the partner for it.

use std::collections::HashMap;
use std::time::Duration;

use accounts::{
    AccountId, BudgetScope, Budgets, CreditBalance, Credits, LedgerRef, OverBudget, Reservation,
    ScopedBudgets, SpendRules, lapses_at,
};
use deadpool_postgres::GenericClient;
use futures_util::future::try_join;
use jiff::Timestamp;
use tokio_postgres::Statement;

use super::ledger::{read, spell_all};
use super::rows::{read_budgets, read_scoped_budgets, read_spend};
use super::scopes::{self, CauseScopes};
use crate::DatabaseError;
use crate::columns::{parse, unsigned};
use crate::statements::{Values, execute, prepare, query, query_opt};
use crate::step::Step;
use crate::webhooks::budgets_reached;

/// Most lapsed holds that one transaction deletes.
const LAPSED: i64 = 1_000;

/// A wish to set credits aside for so long.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    pub(crate) account: AccountId,
    /// The scopes of the cause that may have budgets.
    pub(crate) scopes: Vec<BudgetScope>,
    pub(crate) cause: LedgerRef,
    pub(crate) hold_cents: u32,
    /// Those of an account whose limits name none.
    pub(crate) budgets: Budgets,
    pub(crate) lasts: Duration,
    pub(crate) now: Timestamp,
}

/// What the credits of an account consist of while a batch is judged.
struct Facts {
    billed: bool,
    budgets: Option<Budgets>,
    scoped_budgets: ScopedBudgets,
    /// All holds that count are in them.
    credits: Credits,
    /// Holds that count of causes in the batch.
    own: HashMap<LedgerRef, u32>,
    /// What is held and was charged in scopes that have budgets.
    scopes: HashMap<BudgetScope, Credits>,
    /// Against which of them causes in the batch count already.
    within: HashMap<LedgerRef, Vec<BudgetScope>>,
}

pub(crate) const LOCK: &str =
    "SELECT credits.account, credits.balance_cents, credits.newest_seq, credits.spent_at, credits.spent_hour_cents,
        credits.spent_day_cents, credits.spent_month_cents, billed, budgets, scoped_budgets FROM credits JOIN accounts ON id = account
    WHERE account = ANY($1) ORDER BY account FOR UPDATE OF credits";

/// What accounts hold, and what the causes do. One statement, so that both parts are of the same moment.
pub(crate) const HELD: &str = "SELECT account, NULL::smallint AS why, NULL::uuid AS cause, sum(cents)::bigint AS cents
     FROM credit_holds WHERE account = ANY($5)
        AND (until > $4 OR EXISTS (SELECT FROM generations_running r WHERE r.id = cause)) GROUP BY account
     UNION ALL
     SELECT account, why, cause, cents
     FROM unnest($1::text[], $2::smallint[], $3::uuid[]) AS asked (account, why, cause)
     JOIN credit_holds USING (account, why, cause)
     WHERE until > $4 OR EXISTS (SELECT FROM generations_running r WHERE r.id = cause)";

pub(crate) const HOLD: &str = "INSERT INTO credit_holds (account, why, cause, cents, until)
     SELECT * FROM unnest($1::text[], $2::smallint[], $3::uuid[], $4::bigint[], $5::bigint[])
        AS made (account, why, cause, cents, until) ORDER BY account COLLATE \"C\", why, cause
     ON CONFLICT (account, why, cause) DO UPDATE SET cents = excluded.cents, until = excluded.until";

pub(super) const RELEASE: &str = "WITH held AS MATERIALIZED (
        SELECT account, why, cause FROM credit_holds
        JOIN unnest($1::text[], $2::smallint[], $3::uuid[]) AS asked (account, why, cause)
            USING (account, why, cause)
        ORDER BY account COLLATE \"C\", why, cause FOR UPDATE OF credit_holds
     ), gone AS (
        DELETE FROM credit_holds USING held
        WHERE credit_holds.account = held.account AND credit_holds.why = held.why
            AND credit_holds.cause = held.cause
     )
     DELETE FROM budget_causes USING unnest($1::text[], $2::smallint[], $3::uuid[]) AS asked (account, why, cause)
     WHERE budget_causes.account = asked.account AND budget_causes.why = asked.why
        AND budget_causes.cause = asked.cause
     RETURNING budget_causes.account, budget_causes.why, budget_causes.cause, scopes";

/// What accounts have, while wishes to set credits aside are judged one after the other.
pub(crate) struct HoldBatch<'w> {
    /// What lapsed by the latest `now` of the wishes is free for all of them.
    now: Timestamp,
    facts: HashMap<String, Facts>,
    /// Holds to be written, new ones and renewed ones.
    made: HashMap<(&'w AccountId, LedgerRef), (u32, Timestamp)>,
    /// Budgets that refused.
    over: Vec<(&'w AccountId, OverBudget, Timestamp)>,
}

impl<'w> HoldBatch<'w> {
    /// Locks by [`LOCK`] the credits of all accounts in the order of their ids, and reads by [`HELD`] what stands then.
    pub(crate) async fn look(
        step: &Step,
        lock: &Statement,
        held: &Statement,
        wishes: &'w [Reserve],
    ) -> Result<Self, DatabaseError> {
        let now = wishes.iter().map(|wish| wish.now).max();
        let now = now.unwrap_or(Timestamp::MIN);
        Ok(Self {
            now,
            facts: facts(step, [lock, held], wishes, now).await?,
            made: HashMap::new(),
            over: Vec::new(),
        })
    }

    /// Judges a wish. Nothing is set aside for it unless it `counts`.
    pub(crate) fn judge(&mut self, wish: &'w Reserve, counts: bool) -> Reservation {
        let until = lapses_at(wish.now, wish.lasts);
        let Some(facts) = self.facts.get_mut(wish.account.as_str()) else {
            return Reservation::Insufficient { available_cents: 0 };
        };
        let answer = facts.judge(wish, (self.now, until), counts);
        match &answer {
            Reservation::Held if counts => {
                let cents = facts.own.get(&wish.cause).copied().unwrap_or_default();
                self.made
                    .insert((&wish.account, wish.cause), (cents, until));
            }
            Reservation::OverBudget(over) => {
                self.over.push((&wish.account, over.clone(), wish.now));
            }
            Reservation::Held | Reservation::Insufficient { .. } => {}
        }
        answer
    }

    /// Against which budgets of keys and labels causes count.
    fn within(&self) -> Vec<(&'w AccountId, LedgerRef, &[BudgetScope])> {
        let within = self.made.keys().filter_map(|(account, cause)| {
            let facts = self.facts.get(account.as_str())?;
            Some((*account, *cause, &**facts.within.get(cause)?))
        });
        within.collect()
    }

    /// Whether something is to be written that has to be on the disk.
    pub(crate) fn is_durable(&self) -> bool {
        !self.within().is_empty() || !self.over.is_empty()
    }

    /// Writes what follows from the wishes besides their holds.
    pub(crate) async fn write_beside(&self, step: &Step) -> Result<(), DatabaseError> {
        budgets_reached(&**step, &self.over).await?;
        scopes::remember(&**step, &self.within(), self.now).await
    }

    /// Writes the holds, by [`HOLD`].
    pub(crate) async fn write(&self, step: &Step, hold: &Statement) -> Result<(), DatabaseError> {
        let made = &self.made;
        if made.is_empty() {
            return Ok(());
        }
        let accounts: Vec<&str> = made.keys().map(|(account, _)| account.as_str()).collect();
        let (whys, ids) = spell_all(made.keys().map(|(_, cause)| *cause));
        let cents: Vec<i64> = made.values().map(|(cents, _)| i64::from(*cents)).collect();
        let until: Vec<i64> = made
            .values()
            .map(|(_, until)| until.as_microsecond())
            .collect();
        let values: Values<'_> = &[&accounts, &whys, &ids, &cents, &until];
        step.execute(hold, values).await?;
        Ok(())
    }
}

impl Facts {
    /// Lets the domain decide: the cause's own hold stands beside what others hold.
    fn judge(&mut self, wish: &Reserve, span: (Timestamp, Timestamp), counts: bool) -> Reservation {
        let own = self.own.get(&wish.cause).copied();
        let mut balance = CreditBalance::new(Credits {
            held_cents: self.credits.held_cents - u64::from(own.unwrap_or_default()),
            ..self.credits
        });
        if let Some(cents) = own {
            let unbounded = SpendRules::default();
            let lasting = (span.0, Timestamp::MAX);
            balance.reserve(wish.cause, cents, unbounded, lasting, |_| true);
        }
        let scoped = self.scoped_budgets.of_scopes(&wish.scopes);
        for (scope, _) in &scoped {
            let credits = self.scopes.get(scope).copied().unwrap_or_default();
            balance.put_scope(scope.clone(), credits);
        }
        let rules = SpendRules {
            billed: self.billed,
            budgets: self.budgets.unwrap_or(wish.budgets),
            scoped: &scoped,
        };
        // Holds of the database that do not count any more were not read.
        let answer = balance.reserve(wish.cause, wish.hold_cents, rules, span, |_| true);
        if counts && answer == Reservation::Held && own.is_none() {
            self.own.insert(wish.cause, wish.hold_cents);
            self.credits.held_cents += u64::from(wish.hold_cents);
            if !scoped.is_empty() {
                let scopes = scoped.into_iter().map(|(scope, _)| scope);
                let within = self.within.entry(wish.cause);
                within.or_insert_with(|| scopes.collect());
            }
            for scope in self.within.get(&wish.cause).into_iter().flatten() {
                let credits = self.scopes.entry(scope.clone()).or_default();
                credits.held_cents += u64::from(wish.hold_cents);
            }
        }
        answer
    }
}

/// Locks the accounts of a batch and reads what decides about it.
async fn facts(
    step: &Step,
    [lock, held]: [&Statement; 2],
    wishes: &[Reserve],
    now: Timestamp,
) -> Result<HashMap<String, Facts>, DatabaseError> {
    let mut accounts: Vec<&str> = wishes.iter().map(|it| it.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let of: Vec<&str> = wishes.iter().map(|it| it.account.as_str()).collect();
    let (whys, ids) = spell_all(wishes.iter().map(|it| it.cause));
    let micros = now.as_microsecond();
    let values: Values<'_> = &[&of, &whys, &ids, &micros, &accounts];
    // Sent at once, done one after the other: what is read is what stands once the accounts are locked.
    let (locked, held) = try_join(step.query(lock, &[&accounts]), step.query(held, values)).await?;
    let mut facts: HashMap<String, Facts> = HashMap::new();
    for row in &locked {
        let of_account = Facts {
            billed: row.get("billed"),
            budgets: read_budgets(row)?,
            scoped_budgets: read_scoped_budgets(row)?,
            credits: Credits {
                balance_cents: row.get("balance_cents"),
                held_cents: 0,
                spend: read_spend(row)?,
            },
            own: HashMap::new(),
            scopes: HashMap::new(),
            within: HashMap::new(),
        };
        facts.insert(row.get("account"), of_account);
    }
    for row in &held {
        let Some(facts) = facts.get_mut(row.get::<_, &str>(0)) else {
            continue;
        };
        match row.get(1) {
            None => facts.credits.held_cents = unsigned(row.get(3))?,
            Some(why) => {
                let cause = read(why, row.get(2))?;
                facts.own.insert(cause, unsigned_cents(row.get(3))?);
            }
        }
    }
    add_scopes(&**step, &mut facts, wishes, now).await?;
    Ok(facts)
}

/// Adds what is known of the scopes of accounts that have budgets of keys or labels.
async fn add_scopes(
    rows: &impl GenericClient,
    facts: &mut HashMap<String, Facts>,
    wishes: &[Reserve],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let concerned = wishes.iter().filter(|wish| {
        let facts = facts.get(wish.account.as_str());
        facts.is_some_and(|facts| !facts.scoped_budgets.is_empty())
    });
    let concerned: Vec<&Reserve> = concerned.collect();
    let accounts: Vec<&str> = concerned.iter().map(|it| it.account.as_str()).collect();
    for ((account, scope), credits) in scopes::credits(rows, &accounts, now).await? {
        if let Some(facts) = facts.get_mut(&account) {
            facts.scopes.insert(scope, credits);
        }
    }
    let causes: Vec<_> = concerned.iter().map(|it| (&it.account, it.cause)).collect();
    for ((account, cause), scopes) in scopes::of_causes(rows, &causes).await? {
        if let Some(facts) = facts.get_mut(account.as_str()) {
            facts.within.insert(cause, scopes);
        }
    }
    Ok(())
}

fn unsigned_cents(cents: i64) -> Result<u32, DatabaseError> {
    u32::try_from(cents).map_err(crate::columns::unreadable)
}

/// Keeps holds until then; the positions of those that are none.
pub(crate) async fn renew(
    rows: &impl GenericClient,
    holds: &[(&AccountId, LedgerRef)],
    (now, until): (Timestamp, Timestamp),
) -> Result<Vec<usize>, DatabaseError> {
    let accounts: Vec<&str> = holds.iter().map(|(account, _)| account.as_str()).collect();
    let (whys, ids) = spell_all(holds.iter().map(|(_, cause)| *cause));
    let (now, until) = (now.as_microsecond(), until.as_microsecond());
    let renewed = query(
        rows,
        "WITH live AS MATERIALIZED (
            SELECT account, why, cause FROM credit_holds
            JOIN unnest($1::text[], $2::smallint[], $3::uuid[]) AS asked (account, why, cause)
                USING (account, why, cause)
            WHERE until > $4 OR EXISTS (SELECT FROM generations_running r WHERE r.id = cause)
            ORDER BY account COLLATE \"C\", why, cause FOR UPDATE OF credit_holds
         )
         UPDATE credit_holds SET until = $5 FROM live
         WHERE credit_holds.account = live.account AND credit_holds.why = live.why
            AND credit_holds.cause = live.cause
         RETURNING credit_holds.account, credit_holds.why, credit_holds.cause",
        &[&accounts, &whys, &ids, &now, &until],
    )
    .await?;
    let mut live = std::collections::HashSet::new();
    for row in &renewed {
        let account: AccountId = parse(row.get(0))?;
        live.insert((account, read(row.get(1), row.get(2))?));
    }
    // Those of processes that are gone, whose calls have ended or never ran.
    execute(
        rows,
        "DELETE FROM credit_holds WHERE (account, why, cause) IN (
            SELECT account, why, cause FROM credit_holds
            WHERE until <= $1 AND NOT EXISTS (SELECT FROM generations_running r WHERE r.id = cause)
            LIMIT $2 FOR UPDATE OF credit_holds SKIP LOCKED)",
        &[&now, &LAPSED],
    )
    .await?;
    let gone = holds.iter().enumerate().filter(|(_, (account, cause))| {
        // Ids are cheap to clone.
        !live.contains(&((*account).clone(), *cause))
    });
    Ok(gone.map(|(position, _)| position).collect())
}

/// Lets holds go without billing anything; those that are none stay none. Answers against which scopes their causes counted.
pub(crate) async fn release(
    rows: &impl GenericClient,
    holds: &[(&AccountId, LedgerRef)],
) -> Result<CauseScopes, DatabaseError> {
    let [release] = prepare(rows, [RELEASE]).await?;
    release_by(rows, &release, holds).await
}

/// The same, with [`RELEASE`] prepared.
pub(super) async fn release_by(
    rows: &impl GenericClient,
    release: &Statement,
    holds: &[(&AccountId, LedgerRef)],
) -> Result<CauseScopes, DatabaseError> {
    if holds.is_empty() {
        return Ok(CauseScopes::new());
    }
    let accounts: Vec<&str> = holds.iter().map(|(account, _)| account.as_str()).collect();
    let (whys, ids) = spell_all(holds.iter().map(|(_, cause)| *cause));
    let within = rows.query(release, &[&accounts, &whys, &ids]).await?;
    within.iter().map(scopes::of_cause).collect()
}

/// What an account has now; nothing where it does not exist.
pub(crate) async fn credits(
    rows: &impl GenericClient,
    account: &AccountId,
    now: Timestamp,
) -> Result<Credits, DatabaseError> {
    let found = query_opt(
        rows,
        "SELECT balance_cents, spent_at, spent_hour_cents, spent_day_cents, spent_month_cents,
            (SELECT coalesce(sum(cents), 0)::bigint FROM credit_holds
             WHERE credit_holds.account = credits.account
                AND (until > $2 OR EXISTS (SELECT FROM generations_running r WHERE r.id = cause))) AS held_cents
         FROM credits WHERE account = $1",
        &[&account.as_str(), &now.as_microsecond()],
    )
    .await?;
    let Some(row) = found else {
        return Ok(Credits::default());
    };
    Ok(Credits {
        balance_cents: row.get("balance_cents"),
        held_cents: unsigned(row.get("held_cents"))?,
        spend: read_spend(&row)?,
    })
}
