//! The SQL of permits. Rows are locked in the order of account, then call.

use accounts::{AccountId, RouterLimits};
use deadpool_postgres::{GenericClient, Transaction};
use foldhash::{HashMap, HashSet};
use futures_util::future::{try_join, try_join4};
use jiff::Timestamp;
use router_core::{Admission, GenerationId, Lease, Load, OwnerId, Permit};
use uuid::Uuid;

use crate::columns::unsigned;
use crate::{Database, DatabaseError};

/// A call that asks for a permit.
pub(super) struct Asked {
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
    pub(super) fn of(
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

    /// Gives them. One that is held keeps its cents; one that lapsed is another one.
    async fn write(&self, rows: &impl GenericClient, now: i64) -> Result<(), DatabaseError> {
        let statement = rows.prepare_cached(
            "INSERT INTO call_permits AS p (account, generation, owner, hold_cents, until)
             SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) ORDER BY 1, 2
             ON CONFLICT (account, generation) DO UPDATE SET owner = excluded.owner, until = excluded.until,
                hold_cents = CASE WHEN p.until <= $6 THEN excluded.hold_cents ELSE p.hold_cents END",
        );
        rows.execute(
            &statement.await?,
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

/// Gives permits to those that have room, one after the other.
pub(super) async fn admit(
    database: &Database,
    asked: &[Asked],
) -> Result<Vec<Admission>, DatabaseError> {
    // All of one process arrived within moments: what has lapsed for the last of them has for all.
    let now = asked.iter().map(|one| one.now).max();
    let now = now.map_or(0, |now| now.as_microsecond());
    let mut accounts: Vec<&str> = asked.iter().map(|one| one.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let mut connection = database.connection().await?;
    let rows = connection.transaction().await?;
    let (mut loads, mut held) = look(&rows, &accounts, asked, now).await?;
    let mut given: HashMap<(&str, GenerationId), &Asked> = HashMap::default();
    let mut admissions = Vec::with_capacity(asked.len());
    for one in asked {
        let place = (one.account.as_str(), one.generation);
        let mut admission = Admission::Admitted;
        if !held.contains(&place) {
            let load = loads.entry(place.0).or_default();
            admission = load.admit(one.hold_cents, &one.limits);
            if admission == Admission::Admitted {
                load.calls += 1;
                load.committed_cents += one.hold_cents;
                held.insert(place);
            }
        }
        if admission == Admission::Admitted {
            given.insert(place, one);
        }
        admissions.push(admission);
    }
    if !given.is_empty() {
        let mut columns = Given::default();
        for one in given.into_values() {
            columns.push(
                &one.account,
                one.generation,
                one.hold_cents,
                one.lease,
                one.now,
            );
        }
        columns.write(&rows, now).await?;
        rows.commit().await?;
    }
    Ok(admissions)
}

type Known<'a> = (HashMap<&'a str, Load>, HashSet<(&'a str, GenerationId)>);

/// Locks the accounts, then reads what each has in flight, and which of the calls have a permit.
async fn look<'a>(
    rows: &Transaction<'_>,
    accounts: &[&'a str],
    asked: &'a [Asked],
    now: i64,
) -> Result<Known<'a>, DatabaseError> {
    let add = rows
        .prepare_cached("INSERT INTO call_quotas SELECT unnest($1::text[]) ON CONFLICT DO NOTHING");
    let lock = rows.prepare_cached(
        "SELECT FROM call_quotas WHERE account = ANY($1) ORDER BY account FOR UPDATE",
    );
    // What lapsed counts while its generation runs: whoever took that over, or will, asks the partner for it.
    let load = rows.prepare_cached(
        "SELECT p.account, count(*), least(sum(p.hold_cents), 9223372036854775807)::bigint FROM call_permits p
         WHERE p.account = ANY($1) AND (p.until > $2
            OR EXISTS (SELECT FROM generations_running r WHERE r.id = p.generation)) GROUP BY p.account",
    );
    let find = rows.prepare_cached(
        "SELECT place FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS asked (account, generation, place)
         JOIN call_permits p USING (account, generation)
         WHERE p.until > $3 OR EXISTS (SELECT FROM generations_running r WHERE r.id = p.generation)",
    );
    let (add, lock, load, find) = try_join4(add, lock, load, find).await?;
    let of: Vec<&str> = asked.iter().map(|one| one.account.as_str()).collect();
    let generations: Vec<Uuid> = asked.iter().map(|one| one.generation.0).collect();
    // Sent at once, done one after the other: what is read has the rows of whoever had the locks before.
    let locked = try_join(lazily(rows), async {
        try_join(
            rows.execute(&add, &[&accounts]),
            rows.query(&lock, &[&accounts]),
        )
        .await
    });
    let read = async {
        let find_parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&of, &generations, &now];
        try_join(
            rows.query(&load, &[&accounts, &now]),
            rows.query(&find, &find_parameters),
        )
        .await
    };
    let (_, (sums, found)) = try_join(async { locked.await.map_err(DatabaseError::from) }, async {
        read.await.map_err(DatabaseError::from)
    })
    .await?;
    let mut loads = HashMap::default();
    for row in sums {
        let account: &str = row.get(0);
        let place = accounts.binary_search(&account);
        let load = Load {
            calls: unsigned(row.get(1))?,
            committed_cents: unsigned(row.get(2))?,
        };
        loads.extend(place.map(|place| (accounts[place], load)));
    }
    let held = found.iter().map(|row| {
        let place: i64 = row.get(0);
        let one = &asked[usize::try_from(place - 1).expect("it is a position")];
        (one.account.as_str(), one.generation)
    });
    Ok((loads, held.collect()))
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
    given.write(&connection, now.as_microsecond()).await
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
    let connection = database.connection().await?;
    let statement = connection.prepare_cached(
        "WITH held AS (
            SELECT p.account, p.generation FROM call_permits p
            JOIN unnest($1::text[], $2::uuid[], $3::uuid[]) AS asked (account, generation, owner)
                USING (account, generation, owner)
            ORDER BY p.account, p.generation FOR UPDATE OF p),
         lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
         DELETE FROM call_permits p USING held, lazily
         WHERE p.account = held.account AND p.generation = held.generation",
    );
    let accounts: Vec<&str> = released.iter().map(|one| one.account.as_str()).collect();
    let generations: Vec<Uuid> = released.iter().map(|one| one.generation.0).collect();
    let owners: Vec<Uuid> = released.iter().map(|one| one.owner.0).collect();
    connection
        .execute(&statement.await?, &[&accounts, &generations, &owners])
        .await?;
    Ok(vec![(); released.len()])
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

/// Has the commit of this transaction not wait for the disk.
pub(super) async fn lazily(rows: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    rows.batch_execute("SET LOCAL synchronous_commit = off")
        .await
}

fn cents(cents: u64) -> i64 {
    i64::try_from(cents).unwrap_or(i64::MAX)
}
