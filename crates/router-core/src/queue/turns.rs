//! The fair order of waiting requests as a machine: it decides, a store remembers.

use std::collections::VecDeque;

use accounts::AccountId;
use foldhash::{HashMap, HashSet};
use jiff::Timestamp;

use super::QueueBounds;
use crate::GenerationId;

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCall {
    /// Whose.
    pub account: AccountId,
    /// Its id.
    pub id: GenerationId,
    /// Its place among all submissions.
    pub seq: u64,
    /// When it came.
    pub received_at: Timestamp,
}

/// Who waits. Accounts take turns, so that one with a hundred thousand requests delays another by one of them; requests of one
/// account go as they came. A request takes 40 bytes.
#[derive(Debug, Default)]
pub struct Turns {
    lines: HashMap<AccountId, Line>,
    /// The accounts that have requests, the next one first.
    ring: VecDeque<AccountId>,
    waiting: usize,
    /// Requests that were admitted and are being written.
    coming: usize,
}

#[derive(Debug, Default)]
struct Line {
    places: VecDeque<Place>,
    coming: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    seq: u64,
    id: GenerationId,
    received_at: Timestamp,
}

impl Turns {
    /// Keeps room for one more request, if there is any.
    ///
    /// # Errors
    /// With the bound that is reached.
    pub fn admit(&mut self, account: &AccountId, bounds: QueueBounds) -> Result<(), usize> {
        if self.waiting + self.coming >= bounds.of_all {
            return Err(bounds.of_all);
        }
        let held = self.lines.get(account);
        if held.map_or(0, |line| line.places.len() + line.coming) >= bounds.of_account {
            return Err(bounds.of_account);
        }
        self.lines.entry(account.clone()).or_default().coming += 1;
        self.coming += 1;
        Ok(())
    }

    /// The request that room was kept for does not come.
    pub fn withdraw(&mut self, account: &AccountId) {
        if let Some(line) = self.lines.get_mut(account) {
            line.coming = line.coming.saturating_sub(1);
            self.coming = self.coming.saturating_sub(1);
        }
        self.tidy(account);
    }

    /// The request that room was kept for is there.
    pub fn arrive(&mut self, call: WaitingCall) {
        if let Some(line) = self.lines.get_mut(&call.account) {
            line.coming = line.coming.saturating_sub(1);
            self.coming = self.coming.saturating_sub(1);
        }
        self.push(call);
    }

    /// Puts a request into the line of its account, at its place.
    pub fn push(&mut self, call: WaitingCall) {
        let WaitingCall {
            account,
            id,
            seq,
            received_at,
        } = call;
        let line = self.lines.entry(account.clone()).or_default();
        let index = line.places.partition_point(|place| place.seq < seq);
        if line.places.get(index).is_some_and(|place| place.seq == seq) {
            return;
        }
        if line.places.is_empty() {
            self.ring.push_back(account);
        }
        let place = Place {
            seq,
            id,
            received_at,
        };
        line.places.insert(index, place);
        self.waiting += 1;
    }

    /// The next in turn among those whose accounts are not `blocked`.
    #[must_use]
    pub fn first(&self, blocked: &HashSet<AccountId>) -> Option<WaitingCall> {
        let account = self
            .ring
            .iter()
            .find(|account| !blocked.contains(*account))?;
        let place = self.lines.get(account)?.places.front()?;
        Some(WaitingCall {
            account: account.clone(),
            id: place.id,
            seq: place.seq,
            received_at: place.received_at,
        })
    }

    /// Takes a request out, because it is to be dispatched: its account has had its turn. Whether it was there.
    pub fn take(&mut self, account: &AccountId, seq: u64) -> bool {
        let is_there = self.remove(account, seq);
        if is_there
            && let Some(index) = self.ring.iter().position(|other| other == account)
            && let Some(account) = self.ring.remove(index)
        {
            self.ring.push_back(account);
        }
        is_there
    }

    /// Gives a request that was taken its place back, and its account its turn.
    pub fn put_back(&mut self, call: WaitingCall) {
        let account = call.account.clone();
        self.push(call);
        if let Some(index) = self.ring.iter().position(|other| *other == account)
            && let Some(account) = self.ring.remove(index)
        {
            self.ring.push_front(account);
        }
    }

    /// Takes a request out that will not be dispatched. Whether it was there.
    pub fn remove(&mut self, account: &AccountId, seq: u64) -> bool {
        let Some(line) = self.lines.get_mut(account) else {
            return false;
        };
        let Ok(index) = line.places.binary_search_by_key(&seq, |place| place.seq) else {
            return false;
        };
        line.places.remove(index);
        self.waiting -= 1;
        self.tidy(account);
        true
    }

    /// How many requests are dispatched before one, if every account has room; `None` if it does not wait.
    #[must_use]
    pub fn ahead_of(&self, account: &AccountId, seq: u64) -> Option<usize> {
        let own = &self.lines.get(account)?.places;
        let before = own.binary_search_by_key(&seq, |place| place.seq).ok()?;
        let mut ahead = before;
        // An account whose turn comes first has had one turn more by then.
        let mut turns = before + 1;
        for other in &self.ring {
            if other == account {
                turns = before;
                continue;
            }
            let waiting = self.lines.get(other).map_or(0, |line| line.places.len());
            ahead += waiting.min(turns);
        }
        Some(ahead)
    }

    /// At most `limit` requests that were received before a time.
    #[must_use]
    pub fn overdue(&self, received_before: Timestamp, limit: usize) -> Vec<GenerationId> {
        let lines = self.lines.values();
        let late = lines.flat_map(|line| {
            let places = line.places.iter();
            places.take_while(|place| place.received_at < received_before)
        });
        late.take(limit).map(|place| place.id).collect()
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Forgets an account that has nothing.
    fn tidy(&mut self, account: &AccountId) {
        let Some(line) = self.lines.get(account) else {
            return;
        };
        if !line.places.is_empty() {
            return;
        }
        if line.coming == 0 {
            self.lines.remove(account);
        }
        self.ring.retain(|other| other != account);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn account(name: &str) -> AccountId {
        name.parse().expect("a valid id")
    }

    fn call(name: &str, seq: u64) -> WaitingCall {
        WaitingCall {
            account: account(name),
            id: GenerationId(Uuid::from_u128(u128::from(seq))),
            seq,
            received_at: Timestamp::from_second(seq.cast_signed()).expect("in range"),
        }
    }

    fn of(waiting: &[(&str, u64)]) -> Turns {
        let mut turns = Turns::default();
        for (name, seq) in waiting {
            turns.push(call(name, *seq));
        }
        turns
    }

    /// Takes all, in turn.
    fn drain(turns: &mut Turns) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(next) = turns.first(&HashSet::default()) {
            assert!(turns.take(&next.account, next.seq));
            order.push(next.seq);
        }
        order
    }

    const MIXED: [(&str, u64); 7] = [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 4),
        ("c", 5),
        ("c", 6),
        ("a", 7),
    ];

    #[test]
    fn accounts_take_turns_and_an_account_goes_in_its_own_order() {
        assert_eq!(drain(&mut of(&MIXED)), [1, 4, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn the_position_is_the_number_of_requests_that_are_dispatched_before() {
        // From every state that the order passes through.
        let mut turns = of(&MIXED);
        for taken in 0..MIXED.len() {
            let mut rest = of(&[]);
            std::mem::swap(&mut rest, &mut turns);
            let told: Vec<(u64, usize)> = MIXED
                .iter()
                .filter_map(|(name, seq)| Some((*seq, rest.ahead_of(&account(name), *seq)?)))
                .collect();
            assert_eq!(told.len(), MIXED.len() - taken);
            let order = drain(&mut rest);
            for (seq, ahead) in told {
                assert_eq!(order[ahead], seq, "after {taken}");
            }
            turns = of(&MIXED);
            for _ in 0..=taken {
                let next = turns.first(&HashSet::default()).expect("one waits");
                turns.take(&next.account, next.seq);
            }
        }
    }

    #[test]
    fn a_blocked_account_is_passed_over_and_keeps_its_turn() {
        let mut turns = of(&MIXED);
        let blocked = HashSet::from_iter([account("a")]);
        let next = turns.first(&blocked).expect("another waits");
        assert_eq!(next.seq, 4);
        turns.take(&next.account, 4);
        assert_eq!(turns.first(&HashSet::default()).expect("one").seq, 1);
        // One that was taken and has no room is first again.
        turns.take(&account("a"), 1);
        turns.put_back(call("a", 1));
        assert_eq!(drain(&mut turns), [1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn what_is_removed_is_not_counted_and_bounds_hold_while_rows_are_written() {
        let bounds = QueueBounds {
            of_account: 2,
            of_all: 3,
        };
        let mut turns = Turns::default();
        assert_eq!(turns.admit(&account("a"), bounds), Ok(()));
        assert_eq!(turns.admit(&account("a"), bounds), Ok(()));
        assert_eq!(turns.admit(&account("a"), bounds), Err(2));
        assert_eq!(turns.admit(&account("b"), bounds), Ok(()));
        assert_eq!(turns.admit(&account("c"), bounds), Err(3));
        turns.withdraw(&account("b"));
        turns.arrive(call("a", 1));
        turns.arrive(call("a", 2));
        assert_eq!((turns.waiting(), turns.coming), (2, 0));
        assert!(turns.remove(&account("a"), 1));
        assert!(!turns.remove(&account("a"), 1));
        assert_eq!(turns.ahead_of(&account("a"), 2), Some(0));
        assert_eq!(turns.ahead_of(&account("a"), 1), None);
        let late = turns.overdue(Timestamp::from_second(3).expect("in range"), 10);
        assert_eq!(late, [call("a", 2).id]);
        assert_eq!(drain(&mut turns), [2]);
        assert!(turns.lines.is_empty() && turns.ring.is_empty());
    }
}
