//! Claims: what arrives together is one transaction.
//!
//! One transaction of all replicas chooses at a time, by an advisory lock, so that turns are exact over the fleet; it does not wait
//! for the disk, nor for transactions that add jobs. It looks at accounts in the order of their last claims, and at no more of
//! them than it takes to know whose turn it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use accounts::{AccountId, lapses_at};
use deadpool_postgres::GenericClient;
use jiff::Timestamp;
use uuid::Uuid;
use workflow_core::{Claim, ClaimRequest, Job, JobEvent, JobId, RequirementSet, turn};

use super::looks::{self, OfAccount};
use super::places::{Asked, Moment, Places};
use super::rows::{self, Row};
use super::save::{NextState, put};
use super::{Shared, side_tables};
use crate::DatabaseError;
use crate::columns::{parse, unsigned};
use crate::statements::{Values, prepare, query, whole};
use crate::step::{Commits, Step};

/// The number of the advisory lock that the choosing transaction has.
const CHOOSING: i64 = 0x6561_7365_6c02;

/// How many accounts are looked at together.
const ACCOUNTS: i64 = 64;

/// Queued jobs of the accounts whose turn may be next.
struct Lines {
    lines: Vec<Line>,
    /// Sets that some request names, by name, with their ids.
    sets: HashMap<Uuid, RequirementSet>,
    /// How many jobs of each account and set are read: as many as are asked for.
    depth: i64,
    /// The last claim and the account that the next page is behind.
    behind: (i64, String),
    is_complete: bool,
    /// When the look began.
    moment: Moment,
    /// Every claim up to this number is there to be seen.
    before: i64,
}

/// The oldest queued jobs of an account.
struct Line {
    account: AccountId,
    last_claim: u64,
    running: u32,
    /// Oldest first.
    jobs: Vec<Waiting>,
}

struct Waiting {
    number: u64,
    id: Uuid,
    requirements: Uuid,
    account_room: u32,
}

/// The job that a request gets, if nobody else is changing it.
struct Chosen {
    request: usize,
    job: Uuid,
    claim: u64,
}

/// Answers claims in their order.
pub(super) async fn claim(
    store: &Shared,
    requests: Vec<(ClaimRequest, Timestamp)>,
) -> Result<Vec<Option<Claim>>, DatabaseError> {
    let step = Step::on(&store.database).await?;
    let transaction = &*step;
    // An idle worker looks often, and need not wait for others that choose.
    let mut sets = looks::waiting(store, transaction).await?;
    sets.retain(|_, set| {
        let mut requests = requests.iter();
        requests.any(|(request, _)| request.sets.contains(&set.id()))
    });
    if sets.is_empty() {
        return Ok(requests.iter().map(|_| None).collect());
    }
    let moment = looks::moment(transaction);
    let [lock] = prepare(transaction, ["SELECT pg_advisory_xact_lock($1)"]).await?;
    let locked: Values<'_> = &[&CHOOSING];
    tokio::try_join!(step.begin(Commits::Lazily), step.query(&lock, locked))?;
    let mut lines = Lines {
        lines: Vec::new(),
        is_complete: false,
        sets,
        depth: whole(requests.len()),
        behind: (i64::MIN, String::new()),
        moment,
        before: 0,
    };
    let mut next: Vec<(usize, NextState)> = Vec::new();
    let mut pending: Vec<usize> = (0..requests.len()).collect();
    while !pending.is_empty() {
        let chosen = choose(store, transaction, &mut lines, &requests, &pending).await?;
        if chosen.is_empty() {
            break;
        }
        let ids: Vec<Uuid> = chosen.iter().map(|chosen| chosen.job).collect();
        // Who changes a job in the queue has its row locked, and takes it out of the queue.
        let locked = rows::lock_free(transaction, &ids).await?;
        pending.clear();
        for chosen in chosen {
            let (request, now) = &requests[chosen.request];
            let row = locked.get(&JobId(chosen.job));
            let claimed = row.and_then(|row| claimed(row, request, *now, chosen.claim));
            match claimed {
                Some(state) => next.push((chosen.request, state)),
                None => pending.push(chosen.request),
            }
        }
    }
    let (asked, next): (Vec<usize>, Vec<NextState>) = next.into_iter().unzip();
    let claimed: Vec<&Row> = next.iter().map(|state| &state.row).collect();
    let bodies = async {
        match claimed.is_empty() {
            true => Ok(HashMap::new()),
            false => side_tables::bodies(transaction, &store.sets, &claimed).await,
        }
    };
    // They never change, so they are read beside what is written.
    let (mut bodies, ()) = tokio::try_join!(bodies, put(store, transaction, &next))?;
    step.commit().await?;
    if !next.is_empty() {
        store.changes.ring();
    }
    let mut claims: Vec<Option<Claim>> = requests.iter().map(|_| None).collect();
    for (request, state) in asked.into_iter().zip(next) {
        let job = state.row.job;
        claims[request] = bodies.remove(&job.id).map(|body| Claim {
            body: Arc::new(body),
            job: Arc::new(job),
        });
    }
    Ok(claims)
}

fn claimed(row: &Row, request: &ClaimRequest, now: Timestamp, claim: u64) -> Option<NextState> {
    let mut job = Job::clone(&row.job);
    let worker = request.worker;
    job.apply(JobEvent::Claimed { worker }, now).ok()?;
    let mut state = NextState::of(row, job);
    state.claim = Some((lapses_at(now, request.lease), whole(claim)));
    Some(state)
}

/// Chooses a job for each pending request, as far as there are some.
async fn choose(
    store: &Shared,
    transaction: &impl GenericClient,
    lines: &mut Lines,
    requests: &[(ClaimRequest, Timestamp)],
    pending: &[usize],
) -> Result<Vec<Chosen>, DatabaseError> {
    let count = whole(pending.len());
    let numbers = "SELECT nextval('job_numbers') FROM generate_series(1, $1::bigint)";
    let count: Values<'_> = &[&count];
    let numbers = query(transaction, numbers, count);
    let (numbers, mut first) = match lines.is_complete || !lines.lines.is_empty() {
        true => (numbers.await?, None),
        // Numbers first, so that every claim before them is seen.
        false => {
            let turns = looks::turns(transaction, &lines.behind, ACCOUNTS);
            let (numbers, turns) = tokio::try_join!(numbers, turns)?;
            (numbers, Some(turns))
        }
    };
    // Claims are made one after the other: all that have a smaller number are committed, or rolled back.
    if let (0, Some(first)) = (lines.before, numbers.first()) {
        lines.before = first.try_get::<_, i64>(0)? - 1;
    }
    let mut chosen = Vec::with_capacity(pending.len());
    for (request, number) in pending.iter().zip(&numbers) {
        let (asked, _) = &requests[*request];
        let able: HashSet<Uuid> = lines
            .sets
            .iter()
            .filter(|(_, set)| asked.sets.contains(&set.id()))
            .map(|(name, _)| *name)
            .collect();
        if able.is_empty() {
            continue;
        }
        while !lines.is_settled(asked, &able) {
            let turns = match first.take() {
                Some(turns) => turns,
                None => looks::turns(transaction, &lines.behind, ACCOUNTS).await?,
            };
            lines.read_on(transaction, &store.places, turns).await?;
        }
        let Some((_, line, place)) = lines.next(asked, &able) else {
            continue;
        };
        let claim = unsigned(number.try_get(0)?)?;
        let line = &mut lines.lines[line];
        let job = line.jobs.remove(place);
        line.running += 1;
        line.last_claim = claim;
        chosen.push(Chosen {
            request: *request,
            job: job.id,
            claim,
        });
    }
    Ok(chosen)
}

impl Lines {
    /// The turn, the line and the place of the job that is next for a request among those that were read.
    fn next(&self, request: &ClaimRequest, able: &HashSet<Uuid>) -> Option<(u64, usize, usize)> {
        let lines = self.lines.iter().enumerate();
        let first = lines.filter_map(|(number, line)| {
            let mut jobs = line.jobs.iter().enumerate();
            let (place, first) = jobs.find(|(_, job)| able.contains(&job.requirements))?;
            let has_room = request
                .rooms
                .allow(&line.account, line.running, first.account_room);
            has_room.then(|| (turn(Some(line.last_claim), first.number), number, place))
        });
        first.min()
    }

    /// Whether no account that was not read yet can be next.
    fn is_settled(&self, request: &ClaimRequest, able: &HashSet<Uuid>) -> bool {
        let next = self.next(request, able);
        self.is_complete || next.is_some_and(|(turn, ..)| whole(turn) <= self.behind.0)
    }

    /// Reads the jobs of the next accounts.
    async fn read_on(
        &mut self,
        transaction: &impl GenericClient,
        places: &Places,
        turns: Vec<looks::Turn>,
    ) -> Result<(), DatabaseError> {
        self.is_complete = turns.len() < ACCOUNTS as usize;
        let Some(last) = turns.last() else {
            return Ok(());
        };
        self.behind = (last.last_claim, last.asked.account.clone());
        let asked: Vec<Asked> = turns.iter().map(|turn| turn.asked.clone()).collect();
        let hints = places.hints(&asked, self.moment);
        let sets: Vec<Uuid> = self.sets.keys().copied().collect();
        let mut found = looks::oldest(transaction, hints, &sets, self.depth).await?;
        for turn in turns {
            let OfAccount { runs, jobs } = found.remove(&turn.asked.account).unwrap_or_default();
            let mut firsts: HashMap<Uuid, Option<i64>> =
                sets.iter().map(|set| (*set, None)).collect();
            for job in jobs.iter().rev() {
                firsts.insert(job.requirements, Some(job.number));
            }
            places.learn_firsts(&turn.asked, &firsts, self.moment);
            let running = u32::try_from(runs.len()).unwrap_or(u32::MAX);
            places.learn_runs(&turn.asked.account, runs, self.before, self.moment);
            let jobs = jobs.into_iter().map(|job| {
                Ok(Waiting {
                    number: unsigned(job.number)?,
                    id: job.job,
                    requirements: job.requirements,
                    account_room: unsigned(job.account_room)?,
                })
            });
            self.lines.push(Line {
                account: parse(&turn.asked.account)?,
                last_claim: unsigned(turn.last_claim)?,
                running,
                jobs: jobs.collect::<Result<_, DatabaseError>>()?,
            });
        }
        Ok(())
    }
}
