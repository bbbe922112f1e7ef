//! The places of a process for results that it fetches, and how accounts share them.

use std::collections::HashMap;

use accounts::AccountId;
use router_core::{ResultId, ResultTurn};
use tokio::task::AbortHandle;

/// Results that one process fetches at the same time.
const MOST_AT_ONCE: usize = 8;

/// What is fetched, and whose it is.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: HashMap<ResultId, (AccountId, AbortHandle)>,
    /// The account that had the turn before.
    last: Option<AccountId>,
}

impl Places {
    /// How many places are free.
    pub(super) fn free(&self) -> usize {
        MOST_AT_ONCE.saturating_sub(self.taken.len())
    }

    /// Who may have the next place: accounts in turn, and each only while it has fewer places than are free. So whatever some
    /// accounts have, the last place is for one that has none.
    pub(super) fn turn(&self) -> ResultTurn {
        let mut counts: HashMap<&AccountId, usize> = HashMap::new();
        for (account, _) in self.taken.values() {
            *counts.entry(account).or_default() += 1;
        }
        let free = self.free();
        let without = counts.into_iter().filter(|(_, count)| *count >= free);
        ResultTurn {
            after: self.last.clone(),
            without: without.map(|(account, _)| account.clone()).collect(),
        }
    }

    /// A result of an account has a place while its task runs. The account had its turn.
    pub(super) fn take(&mut self, id: ResultId, account: AccountId, task: AbortHandle) {
        self.last = Some(account.clone());
        self.taken.insert(id, (account, task));
    }

    /// The results that have a place.
    pub(super) fn taken(&self) -> Vec<ResultId> {
        self.taken.keys().copied().collect()
    }

    /// A result has no place any more.
    pub(super) fn free_of(&mut self, id: ResultId) {
        self.taken.remove(&id);
    }

    /// Frees the places of all tasks that are over.
    pub(super) fn free_ended(&mut self) {
        self.taken.retain(|_, (_, task)| !task.is_finished());
    }

    /// Ends the task of a result, and frees its place.
    pub(super) fn abort(&mut self, id: ResultId) {
        if let Some((_, task)) = self.taken.remove(&id) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use router_core::GenerationId;
    use uuid::Uuid;

    use super::*;

    /// Accounts with more results than there are places, of which nothing ends unless a test says so.
    struct Accounts {
        places: Places,
        names: Vec<AccountId>,
        begun: u128,
    }

    impl Accounts {
        fn new(names: &[&str]) -> Self {
            let names = names.iter().map(|name| name.parse().expect("an id"));
            Self {
                places: Places::default(),
                names: names.collect(),
                begun: 0,
            }
        }

        /// The account whose turn it is has another result fetched.
        fn begin(&mut self) -> Option<AccountId> {
            let turn = self.places.turn();
            let behind = |name: &&AccountId| turn.after.as_ref().is_none_or(|last| *name > last);
            let may = |name: &&AccountId| !turn.without.contains(name);
            let (behind, before): (Vec<_>, Vec<_>) =
                self.names.iter().filter(may).partition(behind);
            let name = behind.into_iter().chain(before).next()?.clone();
            self.begun += 1;
            let generation = GenerationId(Uuid::from_u128(self.begun));
            let id = ResultId {
                generation,
                place: 0,
            };
            let task = tokio::spawn(std::future::pending::<()>());
            self.places.take(id, name.clone(), task.abort_handle());
            Some(name)
        }

        /// As many results as there is room for; how many each account has then.
        fn fill(&mut self) -> Vec<usize> {
            while self.places.free() > 0 && self.begin().is_some() {}
            let of = |name: &AccountId| {
                let taken = self.places.taken.values();
                taken.filter(|(account, _)| account == name).count()
            };
            self.names.iter().map(of).collect()
        }

        /// One result of an account has come.
        fn end(&mut self, name: &str) {
            let mut taken = self.places.taken.iter();
            let of = taken.find(|(_, (account, _))| account.as_str() == name);
            let id = *of.expect("it has one").0;
            self.places.free_of(id);
        }
    }

    #[tokio::test]
    async fn no_account_has_all_places_and_the_last_one_is_for_who_has_none() {
        let mut one = Accounts::new(&["a"]);
        assert_eq!(one.fill(), [4]);
        one.names.push("b".parse().expect("an id"));
        assert_eq!(one.fill(), [4, 2]);
        one.names.push("c".parse().expect("an id"));
        assert_eq!(one.fill(), [4, 2, 1]);
        one.names.push("d".parse().expect("an id"));
        assert_eq!(one.fill(), [4, 2, 1, 1]);
        // All places are taken: the account that came last gets the next free one.
        one.names.push("e".parse().expect("an id"));
        one.end("a");
        assert_eq!(one.fill(), [3, 2, 1, 1, 1]);
    }

    #[tokio::test]
    async fn accounts_that_begin_together_have_alike() {
        assert_eq!(Accounts::new(&["a", "b"]).fill(), [3, 3]);
        assert_eq!(Accounts::new(&["a", "b", "c"]).fill(), [2, 2, 2]);
        let many: Vec<String> = (10..30).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let filled = Accounts::new(&many).fill();
        assert_eq!(filled.iter().sum::<usize>(), 8);
        assert!(filled.iter().all(|count| *count <= 1));
    }

    #[tokio::test]
    async fn among_more_accounts_than_places_each_has_its_turn() {
        let names: Vec<String> = (10..22).map(|n| n.to_string()).collect();
        let mut accounts = Accounts::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut turns: HashMap<AccountId, usize> = HashMap::new();
        for turn in 0..120 {
            if accounts.places.free() == 0 {
                // One of the two that began first has come.
                let mut taken = accounts.places.taken();
                taken.sort_unstable();
                accounts.places.free_of(taken[turn % 2]);
            }
            let name = accounts.begin().expect("a place is free");
            *turns.entry(name).or_default() += 1;
        }
        assert!(
            names.iter().all(|name| {
                let name: AccountId = name.parse().expect("an id");
                turns.get(&name).is_some_and(|count| *count >= 5)
            }),
            "{turns:?}"
        );
    }

    #[tokio::test]
    async fn a_task_that_is_over_or_lost_frees_its_place() {
        let mut accounts = Accounts::new(&["a"]);
        assert_eq!(accounts.fill(), [4]);
        let taken = accounts.places.taken();
        accounts.places.abort(taken[0]);
        assert_eq!(accounts.places.free(), 5);
        let id = taken[1];
        let ended = tokio::spawn(async {});
        let handle = ended.abort_handle();
        ended.await.expect("it ends");
        let a = accounts.names[0].clone();
        accounts.places.take(id, a, handle);
        accounts.places.free_ended();
        assert_eq!(accounts.places.free(), 6);
        assert!(!accounts.places.taken().contains(&id));
    }
}
