//! The queue of jobs: who waits, whose claim counts, what is overdue.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use accounts::{AccountId, lapses_at};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use workflow_core::{
    Claim, ClaimRequest, Demand, Epoch, Job, JobId, JobQueue, LeaseNews, QueueDepth, RequirementId,
    StoreError, WaitingJobs, WorkerId, overdue,
};

use super::looks::{self, COUNTS};
use super::rows;
use super::save::{NextState, may_be_lost, put};
use super::{PgJobs, Shared, unavailable};
use crate::DatabaseError;
use crate::columns::{from_micros, unsigned};
use crate::statements::{Values, execute, query, whole};
use crate::step::Step;

/// How many jobs lapse in one transaction.
const TOGETHER: i64 = 500;

/// How many jobs are counted behind another one before those ahead of it are.
const FEW_BEHIND: i64 = 256;

/// Looks at what waits, once for all who ask: the look begins after the last of them asked.
pub(super) async fn demands(
    store: &Shared,
    asked: Vec<Timestamp>,
) -> Result<Vec<Demand>, DatabaseError> {
    let now = asked.iter().max().copied().unwrap_or_default();
    let step = Step::on(&store.database).await?;
    let sql = "SELECT worker FROM job_workers WHERE until > $1";
    let now = now.as_microsecond();
    let now: [&(dyn ToSql + Sync); 1] = [&now];
    let (sets, workers) =
        tokio::try_join!(looks::waiting(store, &step), query(&*step, sql, &now),)?;
    let workers = workers.iter().map(|row| Ok(WorkerId(row.try_get(0)?)));
    let workers: Result<HashSet<WorkerId>, DatabaseError> = workers.collect();
    let demand = Demand {
        sets: sets.into_values().collect(),
        workers: Arc::new(workers?),
    };
    Ok(vec![demand; asked.len()])
}

async fn renew(
    store: &Shared,
    worker: WorkerId,
    claims: &[(JobId, Epoch)],
    until: Timestamp,
) -> Result<Vec<LeaseNews>, DatabaseError> {
    let mut connection = store.database.connection().await?;
    let transaction = connection.transaction().await?;
    may_be_lost(&transaction).await?;
    let until = until.as_microsecond();
    let present = "INSERT INTO job_workers AS w (worker, until) VALUES ($1, $2)
        ON CONFLICT (worker) DO UPDATE SET until = greatest(w.until, excluded.until)";
    execute(&transaction, present, &[&worker.0, &until]).await?;
    let ids: Vec<Uuid> = claims.iter().map(|(id, _)| id.0).collect();
    let live = match ids.is_empty() {
        true => Default::default(),
        false => rows::live(&transaction, &ids).await?,
    };
    let news = claims.iter().map(|(id, epoch)| {
        let row = live.get(id);
        LeaseNews::of(row.map(|row| &row.job), worker, *epoch)
    });
    let news: Vec<LeaseNews> = news.collect();
    let counting = claims.iter().zip(&news);
    let counting = counting.filter(|(_, news)| **news != LeaseNews::Lost);
    let (ids, epochs): (Vec<Uuid>, Vec<i64>) = counting
        .map(|((id, epoch), _)| (id.0, i64::from(epoch.0)))
        .unzip();
    if !ids.is_empty() {
        // Whoever has a run locked lets it end. The ids are a condition of their own, as in a save: else a plan may read all runs
        // that are gone.
        let renew = "UPDATE job_runs SET lease_until = $3 WHERE job = ANY($1) AND job IN (
            SELECT r.job FROM job_runs AS r JOIN unnest($1::uuid[], $2::bigint[]) AS n (job, epoch) USING (job, epoch)
            WHERE r.job = ANY($1) FOR UPDATE OF r SKIP LOCKED)";
        execute(&transaction, renew, &[&ids, &epochs, &until]).await?;
    }
    transaction.commit().await?;
    Ok(news)
}

/// Lets some of what is overdue happen; the jobs that changed, and whether there may be more.
async fn reap(
    store: &Shared,
    queued_before: Timestamp,
    now: Timestamp,
) -> Result<(Vec<Arc<Job>>, bool), DatabaseError> {
    let mut connection = store.database.connection().await?;
    let transaction = connection.transaction().await?;
    let lapsed =
        "SELECT job, lease_until FROM job_runs WHERE lease_until <= $1 ORDER BY lease_until, job
        LIMIT $2 FOR UPDATE SKIP LOCKED";
    let lapsed = query(&transaction, lapsed, &[&now.as_microsecond(), &TOGETHER]).await?;
    let waiting =
        "SELECT job FROM job_queue WHERE created_at < $1 ORDER BY created_at, job LIMIT $2";
    let before = queued_before.as_microsecond();
    let waiting = query(&transaction, waiting, &[&before, &TOGETHER]).await?;
    let mut found: Vec<(Uuid, Timestamp)> = Vec::new();
    for row in &lapsed {
        found.push((row.try_get(0)?, from_micros(row.try_get(1)?)?));
    }
    for row in &waiting {
        found.push((row.try_get(0)?, now));
    }
    if found.is_empty() {
        return Ok((Vec::new(), false));
    }
    let ids: Vec<Uuid> = found.iter().map(|(id, _)| *id).collect();
    let locked = rows::lock_free(&transaction, &ids).await?;
    let changed = found.iter().filter_map(|(id, lease_until)| {
        let row = locked.get(&JobId(*id))?;
        let event = overdue(&row.job, *lease_until, queued_before, now)?;
        let mut job = Job::clone(&row.job);
        job.apply(event, now).ok()?;
        Some(NextState::of(row, job))
    });
    let changed: Vec<NextState> = changed.collect();
    super::outputs::lock_ends(&transaction, &changed).await?;
    put(store, &transaction, &changed).await?;
    transaction.commit().await?;
    if !changed.is_empty() {
        store.changes.ring();
    }
    let is_full = [lapsed.len(), waiting.len()].contains(&(TOGETHER as usize));
    let is_more = is_full && !changed.is_empty();
    let changed = changed.into_iter().map(|state| Arc::new(state.row.job));
    Ok((changed.collect(), is_more))
}

/// The rule of [`workflow_core::FairQueue::position`], over rows. A job that was submitted just now has few behind it: those are
/// counted first, and those ahead of it only if they are many.
pub(super) async fn positions(
    store: &Shared,
    asked: Vec<(AccountId, JobId)>,
) -> Result<Vec<Option<u64>>, DatabaseError> {
    // As in other looks, what is gone from the queue is passed over where it is known where the jobs of an account begin, and each
    // look into the queue is one into its index: another plan would read all of it while vacuum is held up.
    const PLACES: &str = ", firsts AS MATERIALIZED (
            SELECT * FROM unnest($4::text[], $5::uuid[], $6::bigint[], $7::bigint[])
                AS f (account, requirements, number, returns)
        ), busy AS MATERIALIZED (
            SELECT account, waiting AS queued, last_claim, returns FROM counts WHERE waiting > 0
        ), sets AS MATERIALIZED (
            SELECT s.requirements FROM requirement_sets AS s
            WHERE (SELECT count(*) FROM busy) * (SELECT count(*) FROM requirement_sets) <= $8
                OR EXISTS (SELECT 1 FROM job_queue AS q WHERE q.requirements = s.requirements)
        ), begins AS MATERIALIZED (
            SELECT busy.account, busy.queued, busy.last_claim, sets.requirements, coalesce(f.number, 0) AS number
            FROM busy CROSS JOIN sets LEFT JOIN firsts AS f
                ON f.account = busy.account AND f.requirements = sets.requirements AND f.returns = busy.returns
        ), turns AS MATERIALIZED (
            SELECT b.account, b.queued, greatest(b.last_claim, min(h.number)) AS turn
            FROM begins AS b LEFT JOIN LATERAL (
                SELECT q.number FROM job_queue AS q
                WHERE q.requirements = b.requirements AND q.account = b.account AND q.number >= b.number
                ORDER BY q.number LIMIT 1
            ) AS h ON true
            GROUP BY b.account, b.queued, b.last_claim
        ), known AS MATERIALIZED (
            SELECT id, account, number FROM jobs WHERE id = ANY($1) AND status = 'queued'
        ), asked AS MATERIALIZED (
            SELECT j.id, j.number, turns.account, turns.turn, turns.queued, (
                SELECT count(*) FROM (
                    SELECT 1 FROM sets CROSS JOIN LATERAL (
                        SELECT 1 FROM job_queue AS q
                        WHERE q.requirements = sets.requirements AND q.account = j.account AND q.number > j.number
                        LIMIT $3
                    ) AS q LIMIT $3
                ) AS few
            ) AS behind
            FROM unnest($1::uuid[], $2::text[]) AS n (id, account)
            JOIN known AS j ON j.id = n.id AND j.account = n.account
            JOIN turns ON turns.account = j.account
        ), mine AS MATERIALIZED (
            SELECT id, account, turn, CASE WHEN behind < $3 THEN greatest(queued - behind - 1, 0) ELSE (
                SELECT count(*) FROM begins AS b CROSS JOIN LATERAL (
                    SELECT 1 FROM job_queue AS q
                    WHERE q.requirements = b.requirements AND q.account = b.account
                        AND q.number >= b.number AND q.number < asked.number
                    OFFSET 0
                ) AS q WHERE b.account = asked.account
            ) END AS ahead
            FROM asked
        )
        SELECT mine.id, mine.account, (mine.ahead + coalesce((
            SELECT sum(least(o.queued, mine.ahead + ((o.turn, o.account) < (mine.turn, mine.account))::integer))
            FROM turns AS o WHERE o.account <> mine.account
        ), 0))::bigint FROM mine";
    let (ids, accounts): (Vec<Uuid>, Vec<&str>) = asked
        .iter()
        .map(|(account, id)| (id.0, account.as_str()))
        .unzip();
    // Planned as steps are: jobs by their ids, and no table whole. Otherwise each place may read all jobs of its account.
    let step = Step::on(&store.database).await?;
    let (whose, sets, numbers, returns) = store.places.firsts(looks::moment(&step));
    let pairs = whole(looks::PAIRS);
    let values: Values<'_> = &[
        &ids,
        &accounts,
        &FEW_BEHIND,
        &whose,
        &sets,
        &numbers,
        &returns,
        &pairs,
    ];
    let found = query(&*step, &[COUNTS, PLACES].concat(), values).await?;
    drop(step);
    let mut places = HashMap::with_capacity(found.len());
    for row in &found {
        let (id, account): (Uuid, &str) = (row.try_get(0)?, row.try_get(1)?);
        places.insert((id, account), unsigned(row.try_get(2)?)?);
    }
    let positions = ids.iter().zip(&accounts);
    let positions = positions.map(|(id, account)| places.get(&(*id, *account)).copied());
    Ok(positions.collect())
}

/// How many jobs are counted.
const MOST_COUNTED: i64 = 10_000;

async fn waiting(
    store: &Shared,
    sets: &HashSet<RequirementId>,
) -> Result<WaitingJobs, DatabaseError> {
    let known = {
        let step = Step::on(&store.database).await?;
        looks::waiting(store, &step).await?
    };
    let wanted = known
        .into_iter()
        .filter(|(_, set)| sets.contains(&set.id()));
    let wanted: Vec<Uuid> = wanted.map(|(name, _)| name).collect();
    if wanted.is_empty() {
        return Ok(WaitingJobs::default());
    }
    let sql = "SELECT coalesce(sum(least(waiting, room)), 0)::bigint, min(oldest) FROM (
            SELECT count(*) AS waiting, min(q.created_at) AS oldest, max(q.account_room)
                - (SELECT count(*) FROM job_runs AS r WHERE r.account = q.account) AS room
            FROM (SELECT account, account_room, created_at FROM job_queue
                WHERE requirements = ANY($1) LIMIT $2) AS q
            GROUP BY q.account
        ) AS accounts WHERE room > 0";
    // It reads what there is, so it is planned for that.
    let connection = store.database.connection().await?;
    let found = query(&connection, sql, &[&wanted, &MOST_COUNTED]).await?;
    let oldest: Option<i64> = found[0].try_get(1)?;
    Ok(WaitingJobs {
        jobs: unsigned(found[0].try_get(0)?)?,
        oldest: oldest.map(from_micros).transpose()?,
    })
}

async fn depth(store: &Shared) -> Result<QueueDepth, DatabaseError> {
    let sql = format!(
        "{COUNTS} SELECT coalesce(sum(waiting), 0)::bigint, (SELECT count(*) FROM job_runs) FROM counts"
    );
    let connection = store.database.connection().await?;
    let found = query(&connection, &sql, &[]).await?;
    Ok(QueueDepth {
        queued: unsigned(found[0].try_get(0)?)?,
        running: unsigned(found[0].try_get(1)?)?,
    })
}

#[async_trait]
impl JobQueue for PgJobs {
    async fn demand(&self, now: Timestamp) -> Result<Demand, StoreError> {
        self.demands.write(now).await
    }

    async fn claim(
        &self,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Result<Option<Claim>, StoreError> {
        self.claims.write((request.clone(), now)).await
    }

    async fn renew(
        &self,
        worker: WorkerId,
        claims: &[(JobId, Epoch)],
        lease: Duration,
        now: Timestamp,
    ) -> Result<Vec<LeaseNews>, StoreError> {
        let until = lapses_at(now, lease);
        let renewed = renew(&self.shared, worker, claims, until).await;
        renewed.map_err(unavailable)
    }

    async fn reap(
        &self,
        queued_before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Arc<Job>>, StoreError> {
        let mut all = Vec::new();
        if self.shared.database.clocks_apart().is_some() {
            // A lease might seem over that is not; a replica whose clock is right finds what lapsed.
            return Ok(all);
        }
        loop {
            let reaped = reap(&self.shared, queued_before, now).await;
            let (changed, is_more) = reaped.map_err(unavailable)?;
            all.extend(changed);
            if !is_more {
                return Ok(all);
            }
        }
    }

    async fn position(&self, account: &AccountId, id: JobId) -> Result<Option<u64>, StoreError> {
        self.positions.write((account.clone(), id)).await
    }

    async fn waiting(&self, sets: &HashSet<RequirementId>) -> Result<WaitingJobs, StoreError> {
        waiting(&self.shared, sets).await.map_err(unavailable)
    }

    async fn depth(&self) -> Result<QueueDepth, StoreError> {
        depth(&self.shared).await.map_err(unavailable)
    }
}
