//! The SQL of permits. Rows are locked in the order of account, then call.

use accounts::{AccountId, RouterLimits};
use deadpool_postgres::GenericClient;
use foldhash::{HashMap, HashSet};
use futures_util::future::{try_join, try_join3};
use jiff::Timestamp;
use router_core::{Admission, GenerationId, Lease, Load, OwnerId, Permit};
use tokio_postgres::Statement;
use uuid::Uuid;

use crate::columns::unsigned;
use crate::statements::{Values, prepare};
use crate::step::{Commits, Step};
use crate::{Database, DatabaseError};

/// A call that asks for a permit.
pub(crate) struct Asked {
    account: AccountId,
    generation: GenerationId,
    hold_cents: u64,
    limits: RouterLimits,
    lease: Lease,
    now: Timestamp,
}

/// A permit that is given back.
pub(super) struct Released {
    pub(super) account: AccountId,
    pub(super) generation: GenerationId,
    pub(super) owner: OwnerId,
}

impl Asked {
    pub(crate) fn hold_cents(&self) -> u64 {
        self.hold_cents
    }

    pub(crate) fn of(
        permit: Permit<'_>,
        limits: RouterLimits,
        lease: Lease,
        now: Timestamp,
    ) -> Self {
        Self {
            account: permit.account.clone(),
            generation: permit.generation,
            hold_cents: permit.hold_cents,
            limits,
            lease,
            now,
        }
    }
}

const ADD: &str = "INSERT INTO call_quotas SELECT unnest($1::text[]) ON CONFLICT DO NOTHING";

pub(crate) const LOCK: &str =
    "SELECT FROM call_quotas WHERE account = ANY($1) ORDER BY account FOR UPDATE";

/// What accounts have in flight, and which of these calls is among that. What lapsed counts while its generation runs: whoever took
/// that over, or will, asks the partner for it.
pub(crate) const LOAD: &str = "SELECT p.account, count(*), least(sum(p.hold_cents), 9223372036854775807)::bigint,
        array_agg(p.generation) FILTER (WHERE p.generation = ANY($3)) FROM call_permits p
    WHERE p.account = ANY($1) AND (p.until > $2
        OR EXISTS (SELECT FROM generations_running r WHERE r.id = p.generation)) GROUP BY p.account";

/// One that is held keeps its cents; one that lapsed is another one.
pub(crate) const GIVE: &str = "INSERT INTO call_permits AS p (account, generation, owner, hold_cents, until)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) ORDER BY 1, 2
    ON CONFLICT (account, generation) DO UPDATE SET owner = excluded.owner, until = excluded.until,
        hold_cents = CASE WHEN p.until <= $6 THEN excluded.hold_cents ELSE p.hold_cents END";

pub(crate) const RELEASE: &str = "WITH held AS (
        SELECT p.account, p.generation FROM call_permits p
        JOIN unnest($1::text[], $2::uuid[], $3::uuid[]) AS asked (account, generation, owner)
            USING (account, generation, owner)
        ORDER BY p.account, p.generation FOR UPDATE OF p)
     DELETE FROM call_permits p USING held WHERE p.account = held.account AND p.generation = held.generation";

/// Columns of permits that are given.
#[derive(Default)]
struct Given<'a> {
    accounts: Vec<&'a str>,
    generations: Vec<Uuid>,
    owners: Vec<Uuid>,
    holds: Vec<i64>,
    untils: Vec<i64>,
}

impl<'a> Given<'a> {
    fn push(
        &mut self,
        account: &'a AccountId,
        generation: GenerationId,
        hold_cents: u64,
        lease: Lease,
        now: Timestamp,
    ) {
        self.accounts.push(account.as_str());
        self.generations.push(generation.0);
        self.owners.push(lease.owner.0);
        self.holds.push(cents(hold_cents));
        self.untils.push(lease.until(now).as_microsecond());
    }

    /// Gives them.
    async fn write(
        &self,
        rows: &impl GenericClient,
        give: &Statement,
        now: i64,
    ) -> Result<(), DatabaseError> {
        rows.execute(
            give,
            &[
                &self.accounts,
                &self.generations,
                &self.owners,
                &self.holds,
                &self.untils,
                &now,
            ],
        )
        .await?;
        Ok(())
    }
}

/// What accounts have in flight, while a batch is judged.
pub(crate) struct PermitBatch<'a> {
    asked: &'a [Asked],
    /// Each once, in order.
    accounts: Vec<&'a str>,
    /// All of one process arrived within moments: what has lapsed for the last of them has for all.
    now: i64,
    loads: HashMap<&'a str, Load>,
    held: HashSet<(&'a str, GenerationId)>,
    /// To be written.
    given: HashMap<(&'a str, GenerationId), &'a Asked>,
}

impl<'a> PermitBatch<'a> {
    pub(crate) fn of(asked: &'a [Asked]) -> Self {
        let mut accounts: Vec<&str> = asked.iter().map(|one| one.account.as_str()).collect();
        accounts.sort_unstable();
        accounts.dedup();
        let now = asked.iter().map(|one| one.now).max();
        Self {
            asked,
            accounts,
            now: now.map_or(0, |now| now.as_microsecond()),
            loads: HashMap::default(),
            held: HashSet::default(),
            given: HashMap::default(),
        }
    }

    /// Locks the accounts by [`LOCK`], then reads by [`LOAD`] what each has in flight, and which of the calls have a permit. `false`
    /// if an account has no row yet to be locked by.
    pub(crate) async fn look(
        &mut self,
        step: &Step,
        lock: &Statement,
        load: &Statement,
    ) -> Result<bool, DatabaseError> {
        self.loads.clear();
        self.held.clear();
        let generations: Vec<Uuid> = self.asked.iter().map(|one| one.generation.0).collect();
        let values: Values<'_> = &[&self.accounts, &self.now, &generations];
        // Sent at once, done one after the other: what is read has the rows of whoever had the locks before.
        let (locked, sums) = try_join(
            step.query(lock, &[&self.accounts]),
            step.query(load, values),
        )
        .await?;
        for row in sums {
            let Ok(place) = self.accounts.binary_search(&row.get::<_, &str>(0)) else {
                continue;
            };
            let account = self.accounts[place];
            let load = Load {
                calls: unsigned(row.get(1))?,
                committed_cents: unsigned(row.get(2))?,
            };
            self.loads.insert(account, load);
            let among: Option<Vec<Uuid>> = row.get(3);
            let among = among.into_iter().flatten();
            self.held
                .extend(among.map(|id| (account, GenerationId(id))));
        }
        Ok(locked.len() == self.accounts.len())
    }

    /// Adds the rows that the accounts are locked by, in a transaction of its own.
    pub(crate) async fn add_accounts(&self, step: &Step) -> Result<(), DatabaseError> {
        add_accounts(step, ADD, &self.accounts).await
    }

    /// Whether one has its permit, or there is room for it.
    pub(crate) fn admission(&self, one: &'a Asked) -> Admission {
        let account = one.account.as_str();
        if self.held.contains(&(account, one.generation)) {
            return Admission::Admitted;
        }
        let load = self.loads.get(account).copied().unwrap_or_default();
        load.admit(one.hold_cents, &one.limits)
    }

    /// Gives it its permit.
    pub(crate) fn give(&mut self, one: &'a Asked) {
        let place = (one.account.as_str(), one.generation);
        if self.held.insert(place) {
            let load = self.loads.entry(place.0).or_default();
            load.calls += 1;
            load.committed_cents += one.hold_cents;
        }
        self.given.insert(place, one);
    }

    /// Writes the permits that were given, by [`GIVE`].
    pub(crate) async fn write(&self, step: &Step, give: &Statement) -> Result<(), DatabaseError> {
        let mut columns = Given::default();
        for one in self.given.values() {
            columns.push(
                &one.account,
                one.generation,
                one.hold_cents,
                one.lease,
                one.now,
            );
        }
        columns.write(&**step, give, self.now).await
    }
}

/// Gives a permit, whatever there is room for.
pub(super) async fn resume(
    database: &Database,
    permit: Permit<'_>,
    lease: Lease,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let mut given = Given::default();
    given.push(
        permit.account,
        permit.generation,
        permit.hold_cents,
        lease,
        now,
    );
    let connection = database.connection().await?;
    let [give] = prepare(&connection, [GIVE]).await?;
    given.write(&connection, &give, now.as_microsecond()).await
}

/// Renews permits; the positions of those that the owner has not.
pub(super) async fn renew(
    database: &Database,
    permits: &[Permit<'_>],
    lease: Lease,
    now: Timestamp,
) -> Result<Vec<usize>, DatabaseError> {
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(
        "WITH held AS (
            SELECT p.account, p.generation FROM call_permits p
            JOIN unnest($1::text[], $2::uuid[]) AS asked (account, generation) USING (account, generation)
            WHERE p.owner = $3 AND p.until > $4 ORDER BY p.account, p.generation FOR UPDATE OF p),
         lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
         UPDATE call_permits p SET until = $5 FROM held, lazily
         WHERE p.account = held.account AND p.generation = held.generation RETURNING p.account, p.generation",
    );
    let accounts: Vec<&str> = permits.iter().map(|one| one.account.as_str()).collect();
    let generations: Vec<Uuid> = permits.iter().map(|one| one.generation.0).collect();
    let until = lease.until(now).as_microsecond();
    let renewed = connection
        .query(
            &statement.await?,
            &[
                &accounts,
                &generations,
                &lease.owner.0,
                &now.as_microsecond(),
                &until,
            ],
        )
        .await?;
    let renewed: HashSet<(&str, Uuid)> =
        renewed.iter().map(|row| (row.get(0), row.get(1))).collect();
    let lost = permits
        .iter()
        .enumerate()
        .filter(|(_, one)| !renewed.contains(&(one.account.as_str(), one.generation.0)));
    Ok(lost.map(|(position, _)| position).collect())
}

/// Gives the room of permits back, each if it is its owner's.
pub(super) async fn release(
    database: &Database,
    released: &[Released],
) -> Result<Vec<()>, DatabaseError> {
    let step = Step::on(database).await?;
    let [release] = prepare(&*step, [RELEASE]).await?;
    let all = released.iter();
    let all = all.map(|one| (&one.account, one.generation, one.owner));
    try_join3(
        step.begin(Commits::Lazily),
        give_back(&*step, &release, all),
        step.commit(),
    )
    .await?;
    Ok(vec![(); released.len()])
}

/// Deletes permits of owners by [`RELEASE`].
pub(crate) async fn give_back<'a>(
    rows: &impl GenericClient,
    release: &Statement,
    permits: impl Iterator<Item = (&'a AccountId, GenerationId, OwnerId)>,
) -> Result<(), DatabaseError> {
    let (mut accounts, mut generations, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for (account, generation, owner) in permits {
        accounts.push(account.as_str());
        generations.push(generation.0);
        owners.push(owner.0);
    }
    rows.execute(release, &[&accounts, &generations, &owners])
        .await?;
    Ok(())
}

/// What an account has in flight.
pub(super) async fn load(
    database: &Database,
    account: &AccountId,
    now: Timestamp,
) -> Result<Load, DatabaseError> {
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(
        "SELECT count(*), least(coalesce(sum(p.hold_cents), 0), 9223372036854775807)::bigint FROM call_permits p
         WHERE p.account = $1 AND (p.until > $2
            OR EXISTS (SELECT FROM generations_running r WHERE r.id = p.generation))",
    );
    let row = connection
        .query_one(
            &statement.await?,
            &[&account.as_str(), &now.as_microsecond()],
        )
        .await?;
    Ok(Load {
        calls: unsigned(row.get(0))?,
        committed_cents: unsigned(row.get(1))?,
    })
}

/// Adds the rows that accounts are locked by. They stay, so nobody waits for a lock here that holds one.
pub(super) async fn add_accounts(
    step: &Step,
    sql: &str,
    accounts: &[&str],
) -> Result<(), DatabaseError> {
    let [add] = prepare(&**step, [sql]).await?;
    let values: Values<'_> = &[&accounts];
    try_join3(
        step.begin(Commits::Lazily),
        step.execute(&add, values),
        step.commit(),
    )
    .await?;
    Ok(())
}

fn cents(cents: u64) -> i64 {
    i64::try_from(cents).unwrap_or(i64::MAX)
}
