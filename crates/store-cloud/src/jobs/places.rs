//! What a replica remembers of its looks at the queue, so that the next one does not go over what is gone.
//!
//! The index entries of jobs that were claimed or ended stay for as long as a transaction is open that could still see them, of
//! whatever program. A look from the beginning of an index reads all of them. What is remembered here is exact among replicas of
//! this version:
//!
//! - Submissions of an account have its row locked from before they get their numbers until they are committed. So a new job stands
//!   behind every job of its account that was ever seen. Only one that comes back stands before them, and `returns` counts those.
//! - Claims are made one after the other. So every run that a look did not see has a larger number of its claim.
//!
//! A crash of the database can take back what was seen, and ends every connection: what was learned before a connection began
//! says nothing to it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

/// Of how many accounts places are remembered, and of how many the runs; then a replica begins anew.
const MOST: usize = 1_024;

/// How many places of an account are remembered at most.
const MOST_SETS: usize = 64;

/// How many runs of an account are remembered at most.
const MOST_RUNS: usize = 1_024;

/// How long it takes at most until a look begins at the beginning again: the version before gives jobs back without counting them.
/// In tests it is an hour, so that a slow machine does not change what they count.
const LASTS: Duration = Duration::from_secs(if cfg!(test) { 3_600 } else { 20 });

/// What a replica remembers.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By account and set.
    firsts: HashMap<String, HashMap<Uuid, First>>,
    /// By account.
    runs: HashMap<String, Runs>,
}

/// Where the jobs of an account with one set begin.
#[derive(Debug)]
struct First {
    /// None of them has a smaller number.
    number: i64,
    /// How many jobs of the account had come back.
    returns: i64,
    /// When the look began that told this, and until when it is believed.
    learned: Instant,
    until: Instant,
}

/// The runs of an account at the time of a look, each with the number of its claim.
#[derive(Debug)]
struct Runs {
    jobs: Vec<Uuid>,
    /// Every claim up to this number is among them or over.
    until: i64,
    learned: Instant,
}

/// What is known of some accounts, as parameters of a look.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Hints {
    /// The accounts, each with the number of claims up to which its runs are known.
    pub(super) accounts: (Vec<String>, Vec<i64>),
    /// Those runs, each with its account and the number of that one.
    pub(super) runs: (Vec<String>, Vec<Uuid>, Vec<i64>),
    /// Where the jobs of an account with a set begin.
    pub(super) firsts: (Vec<String>, Vec<Uuid>, Vec<i64>),
}

/// Where jobs begin, as parameters of a look that finds by itself whose they are: accounts, sets, numbers, and how many jobs of the
/// account had come back when that was so.
pub(super) type Firsts = (Vec<String>, Vec<Uuid>, Vec<i64>, Vec<i64>);

/// How many of them go with a look at most. The look compares each with every account that has jobs waiting.
const MOST_FIRSTS: usize = 64;

/// An account that a look is for, and how many of its jobs had come back before the look.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) account: String,
    pub(super) returns: i64,
}

/// When a look began, and when the connection did that it is made by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) began: Instant,
    pub(super) connected: Instant,
}

impl Places {
    /// What is known of these accounts.
    pub(super) fn hints(&self, accounts: &[Asked], moment: Moment) -> Hints {
        let known = self.lock();
        let mut hints = Hints::default();
        for Asked { account, returns } in accounts {
            let runs = known.runs.get(account);
            let runs = runs.filter(|runs| runs.learned >= moment.connected);
            let until = runs.map_or(0, |runs| runs.until);
            hints.accounts.0.push(account.clone());
            hints.accounts.1.push(until);
            for job in runs.iter().flat_map(|runs| &runs.jobs) {
                hints.runs.0.push(account.clone());
                hints.runs.1.push(*job);
                hints.runs.2.push(until);
            }
            for (set, first) in known.firsts.get(account).into_iter().flatten() {
                if first.holds(*returns, moment) {
                    hints.firsts.0.push(account.clone());
                    hints.firsts.1.push(*set);
                    hints.firsts.2.push(first.number);
                }
            }
        }
        hints
    }

    /// Where the jobs of accounts begin, if few are known: each holds while as many jobs of its account have come back.
    pub(super) fn firsts(&self, moment: Moment) -> Firsts {
        let known = self.lock();
        let mut firsts = Firsts::default();
        for (account, of_account) in &known.firsts {
            for (set, first) in of_account {
                if !first.holds(first.returns, moment) {
                    continue;
                }
                if firsts.0.len() == MOST_FIRSTS {
                    return Firsts::default();
                }
                firsts.0.push(account.clone());
                firsts.1.push(*set);
                firsts.2.push(first.number);
                firsts.3.push(first.returns);
            }
        }
        firsts
    }

    /// Takes note of the first job that a look found of an account with each of the sets that it was for, if it found one.
    pub(super) fn learn_firsts(
        &self,
        asked: &Asked,
        found: &HashMap<Uuid, Option<i64>>,
        moment: Moment,
    ) {
        // A job that comes stands behind this one, of whatever set it is.
        let Some(last) = found.values().flatten().max() else {
            return;
        };
        let mut known = self.lock();
        if known.firsts.len() >= MOST && !known.firsts.contains_key(&asked.account) {
            known.firsts.clear();
        }
        let places = known.firsts.entry(asked.account.clone()).or_default();
        places.retain(|_, first| first.holds(asked.returns, moment));
        let new = found.keys().filter(|set| !places.contains_key(set)).count();
        if places.len() + new > MOST_SETS {
            places.retain(|set, _| found.contains_key(set));
        }
        // Sets with a job first: where others begin matters less.
        let mut found: Vec<_> = found.iter().collect();
        found.sort_unstable_by_key(|(_, number)| number.is_none());
        for (set, number) in found {
            if places.len() >= MOST_SETS && !places.contains_key(set) {
                continue;
            }
            let first = First {
                number: number.unwrap_or(*last),
                returns: asked.returns,
                learned: moment.began,
                // A look that began at a place does not make it last.
                until: places
                    .get(set)
                    .map_or(moment.began + LASTS, |first| first.until),
            };
            places.insert(*set, first);
        }
    }

    /// Takes note of all runs of an account that a look found, and that every claim up to this number was there to be seen.
    pub(super) fn learn_runs(&self, account: &str, jobs: Vec<Uuid>, until: i64, moment: Moment) {
        let mut known = self.lock();
        if known.runs.len() >= MOST && !known.runs.contains_key(account) {
            known.runs.clear();
        }
        if jobs.len() > MOST_RUNS {
            known.runs.remove(account);
            return;
        }
        let learned = moment.began;
        let runs = Runs {
            jobs,
            until,
            learned,
        };
        known.runs.insert(account.to_owned(), runs);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hints {
    /// Where the jobs of each of the accounts with each of these sets begin, at 0 where nothing is known.
    pub(super) fn beginnings(&self, sets: &[Uuid]) -> (Vec<&str>, Vec<Uuid>, Vec<i64>) {
        let (accounts, of, numbers) = &self.firsts;
        let known = accounts.iter().zip(of).zip(numbers);
        let known: HashMap<(&str, &Uuid), i64> = known
            .map(|((account, set), number)| ((&**account, set), *number))
            .collect();
        let (mut whose, mut which, mut from) = (vec![], vec![], vec![]);
        for account in &self.accounts.0 {
            for set in sets {
                whose.push(&**account);
                which.push(*set);
                from.push(known.get(&(&**account, set)).copied().unwrap_or(0));
            }
        }
        (whose, which, from)
    }
}

impl First {
    fn holds(&self, returns: i64, moment: Moment) -> bool {
        self.returns == returns && self.until > moment.began && self.learned >= moment.connected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn asked(returns: i64) -> Asked {
        let account = "a".to_owned();
        Asked { account, returns }
    }

    fn at(began: Instant, connected: Instant) -> Moment {
        Moment { began, connected }
    }

    #[test]
    fn a_place_holds_for_a_time_and_until_a_job_comes_back_or_connections_break() {
        let (places, now) = (Places::default(), Instant::now());
        let moment = at(now, now);
        let found = HashMap::from([(id(1), Some(10)), (id(2), None)]);
        places.learn_firsts(&asked(0), &found, moment);
        let numbers = |returns, moment| {
            let mut numbers = places.hints(&[asked(returns)], moment).firsts.2;
            numbers.sort_unstable();
            numbers
        };
        // A job that comes stands behind those of other sets, too.
        assert_eq!(numbers(0, moment), [10, 10]);
        assert_eq!(numbers(1, moment), Vec::<i64>::new());
        let second = Duration::from_secs(1);
        assert_eq!(
            numbers(0, at(now + second, now + second)),
            Vec::<i64>::new()
        );
        // A look that began there moves it, and does not make it last.
        places.learn_firsts(&asked(0), &found, at(now + second, now));
        assert_eq!(numbers(0, at(now + LASTS - second, now)), [10, 10]);
        assert_eq!(numbers(0, at(now + LASTS, now)), Vec::<i64>::new());
    }

    #[test]
    fn looks_that_begin_at_places_of_many_sets_do_not_make_them_last() {
        for sets in [40, 100] {
            let (places, begun) = (Places::default(), Instant::now());
            let found: HashMap<_, _> = (0..sets).map(|n| (id(n), Some(10))).collect();
            let step = LASTS / 20;
            let mut kept = Vec::new();
            for now in (0..21).map(|n| begun + step * n) {
                kept.push(places.hints(&[asked(0)], at(now, begun)).firsts.2.len());
                places.learn_firsts(&asked(0), &found, at(now, begun));
            }
            let all = usize::try_from(sets).expect("few").min(MOST_SETS);
            assert_eq!((kept[0], &kept[1..20], kept[20]), (0, &[all; 19][..], 0));
        }
    }

    #[test]
    fn a_look_at_places_takes_what_is_known_if_it_is_little() {
        let (places, now) = (Places::default(), Instant::now());
        let moment = at(now, now);
        let learn = |account: usize| {
            let asked = Asked {
                account: account.to_string(),
                returns: 2,
            };
            places.learn_firsts(&asked, &[(id(1), Some(10))].into(), moment);
        };
        (0..MOST_FIRSTS).for_each(learn);
        let (whose, sets, numbers, returns) = places.firsts(moment);
        assert_eq!((whose.len(), sets.len()), (MOST_FIRSTS, MOST_FIRSTS));
        assert_eq!((numbers, returns), (vec![10; 64], vec![2; 64]));
        let late = at(now + LASTS, now);
        assert_eq!(places.firsts(late), Firsts::default());
        learn(MOST_FIRSTS);
        assert_eq!(places.firsts(moment), Firsts::default());
    }

    #[test]
    fn that_nothing_was_found_says_nothing() {
        let (places, now) = (Places::default(), Instant::now());
        places.learn_firsts(&asked(0), &[(id(1), None)].into(), at(now, now));
        let hints = places.hints(&[asked(0)], at(now, now));
        assert_eq!((hints.firsts.2, hints.accounts.1), (vec![], vec![0]));
    }

    #[test]
    fn runs_are_known_to_connections_that_are_older() {
        let (places, now) = (Places::default(), Instant::now());
        places.learn_runs("a", vec![id(1), id(2)], 8, at(now, now));
        let later = now + LASTS * 10;
        let hints = places.hints(&[asked(3)], at(later, now));
        assert_eq!(
            (hints.accounts.1, hints.runs.1),
            (vec![8], vec![id(1), id(2)])
        );
        let hints = places.hints(&[asked(3)], at(later, later));
        assert_eq!((hints.accounts.1, hints.runs.1), (vec![0], vec![]));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (places, now) = (Places::default(), Instant::now());
        let moment = at(now, now);
        for n in 0..=MOST {
            let account = n.to_string();
            places.learn_runs(&account, vec![id(1)], 1, moment);
            let asked = Asked {
                account,
                returns: 0,
            };
            places.learn_firsts(&asked, &[(id(1), Some(1))].into(), moment);
        }
        for n in 0..1_000 {
            let set = id(n);
            places.learn_firsts(&asked(0), &[(set, Some(1))].into(), moment);
        }
        places.learn_runs("a", vec![id(1); MOST_RUNS + 1], 1, moment);
        let known = places.lock();
        assert!(known.firsts.len() <= MOST && known.runs.len() <= MOST);
        assert!(known.firsts["a"].len() <= MOST_SETS && !known.runs.contains_key("a"));
    }
}
