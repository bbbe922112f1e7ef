//! Requirement sets: each kept once however many jobs share it, under a name that every replica computes from its text.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deadpool_postgres::GenericClient;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use workflow_core::RequirementSet;

use crate::DatabaseError;
use crate::names;
use crate::statements::{execute, query};

/// How many sets a process remembers; then it begins again.
const MOST_KNOWN: usize = 10_000;

/// How old `seen_at` may become before a submission renews it.
const SEEN: SignedDuration = SignedDuration::from_hours(1);

/// How long a set is kept without a submission: no transaction that found it is still open then.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The sets that this process has met. A name means the same text for ever.
#[derive(Debug, Default)]
pub(super) struct Sets(Mutex<HashMap<Uuid, Known>>);

#[derive(Clone, Debug)]
struct Known {
    set: RequirementSet,
    /// The newest `seen_at` that this process wrote.
    seen_at: Option<Timestamp>,
}

/// The name of a set.
pub(super) fn name(set: &RequirementSet) -> Uuid {
    names::of(set.text().as_bytes())
}

impl Sets {
    /// Keeps sets that are submitted now.
    pub(super) async fn put(
        &self,
        rows: &impl GenericClient,
        sets: Vec<&RequirementSet>,
        now: Timestamp,
    ) -> Result<(), DatabaseError> {
        let mut new: HashMap<Uuid, &RequirementSet> =
            sets.into_iter().map(|set| (name(set), set)).collect();
        {
            let known = self.lock();
            new.retain(|name, _| {
                let seen = known.get(name).and_then(|known| known.seen_at);
                seen.is_none_or(|seen| seen.duration_until(now).abs() >= SEEN)
            });
        }
        if new.is_empty() {
            return Ok(());
        }
        // In one order, so that two replicas do not wait for each other.
        let mut names: Vec<Uuid> = new.keys().copied().collect();
        names.sort_unstable();
        let texts: Vec<&str> = names.iter().map(|name| new[name].text()).collect();
        let sql = "INSERT INTO requirement_sets AS s (requirements, text, seen_at)
            SELECT *, $3::bigint FROM unnest($1::uuid[], $2::text[])
            ON CONFLICT (requirements) DO UPDATE SET seen_at = $3 WHERE s.seen_at < $4";
        let stale = now.saturating_sub(SEEN).unwrap_or(Timestamp::MIN);
        let (seen, stale) = (now.as_microsecond(), stale.as_microsecond());
        execute(rows, sql, &[&names, &texts, &seen, &stale]).await?;
        Ok(())
    }

    /// Takes note that sets were kept for good.
    pub(super) fn kept<'a>(&self, sets: impl Iterator<Item = &'a RequirementSet>, now: Timestamp) {
        let mut known = self.lock();
        for set in sets {
            let known = known.entry(name(set)).or_insert_with(|| Known {
                set: set.clone(),
                seen_at: None,
            });
            if known
                .seen_at
                .is_none_or(|seen| seen.duration_until(now).abs() >= SEEN)
            {
                known.seen_at = Some(now);
            }
        }
    }

    /// The sets of these names.
    pub(super) async fn named(
        &self,
        rows: &impl GenericClient,
        names: Vec<Uuid>,
    ) -> Result<HashMap<Uuid, RequirementSet>, DatabaseError> {
        let mut found = HashMap::with_capacity(names.len());
        let mut missing = Vec::new();
        {
            let known = self.lock();
            for name in names {
                match known.get(&name) {
                    Some(known) => {
                        found.insert(name, known.set.clone());
                    }
                    None => missing.push(name),
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let sql = "SELECT requirements, text FROM requirement_sets WHERE requirements = ANY($1)";
        let read = query(rows, sql, &[&missing]).await?;
        let mut known = self.lock();
        for row in &read {
            let (name, text): (Uuid, &str) = (row.try_get(0)?, row.try_get(1)?);
            let set = RequirementSet::stored(text);
            found.insert(name, set.clone());
            known.insert(name, Known { set, seen_at: None });
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        // Every change is one insert: a panic elsewhere cannot have left the map half-changed.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        known
    }
}

/// Forgets sets that were submitted long ago and that no job has any more.
pub(super) async fn forget_unused(
    rows: &impl GenericClient,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let before = now.saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
    let sql = "DELETE FROM requirement_sets WHERE requirements IN (
            SELECT requirements FROM requirement_sets AS s WHERE seen_at < $1
                AND NOT EXISTS (SELECT 1 FROM job_bodies AS b WHERE b.requirements = s.requirements)
            LIMIT 100 FOR UPDATE SKIP LOCKED)";
    execute(rows, sql, &[&before.as_microsecond()]).await?;
    Ok(())
}
