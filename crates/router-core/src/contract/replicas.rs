//! Two processes over one store: what both of them do, in an order that a seed decides, beside a model of what is true.
//!
//! After each step the model knows whose every generation is, what each key stands for and which permits count. Some steps are
//! made by both processes at once; then the answers tell which of them was first, and there is exactly one.

mod waiting;

use std::collections::BTreeMap;

use accounts::contract::Dice;
use futures_util::future::join;

use super::{
    Bytes, CallRecord, Claimed, Dispatched, Ending, FIRST, LASTS, Outcome, OwnerId, SECOND,
    Settled, Stores, Unfinished, account, answer, at, claim, generation, id, kept,
};
use crate::{Admission, GenerationId, KeyClaim, Permit, UsageQuery};

/// How many histories are run, and how many steps each of them has.
const SEEDS: u64 = 24;
const STEPS: usize = 120;

/// What every generation costs, and what the account may have in flight.
const CENTS: u64 = 7;
const MOST_CALLS: u32 = 3;

/// Runs histories of two processes, each on the two handles of a fresh store.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn() -> [Stores; 2]) {
    for seed in 1..=SEEDS {
        let [first, second] = fresh();
        first.open_account().await;
        let mut history = History {
            handles: [first, second],
            dice: Dice::new(seed),
            now: 0,
            next: 1,
            generations: BTreeMap::new(),
            claims: BTreeMap::new(),
            permits: BTreeMap::new(),
        };
        for _ in 0..STEPS {
            history.step().await;
        }
        history.end().await;
        waiting::history(fresh(), seed).await;
    }
}

struct History {
    handles: [Stores; 2],
    dice: Dice,
    now: i64,
    /// The number of the next generation.
    next: u128,
    generations: BTreeMap<u128, Known>,
    /// The last claim of each key that was not dispatched.
    claims: BTreeMap<u8, Claim>,
    /// Owner and lapse of the permits that were given.
    permits: BTreeMap<u128, (usize, i64)>,
}

/// A generation that was dispatched.
#[derive(Clone, Debug)]
struct Known {
    key: Option<u8>,
    owner: usize,
    until: i64,
    /// What it ended with.
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    generation: u128,
    by: usize,
    until: i64,
}

fn owner(handle: usize) -> OwnerId {
    [FIRST, SECOND][handle]
}

fn lasts() -> i64 {
    i64::try_from(LASTS.as_secs()).expect("few")
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(12) {
            0 => self.claim(handle).await,
            1 => self.claim_at_once().await,
            2 | 3 => self.dispatch(handle).await,
            4 => self.dispatch_without_key(handle).await,
            5 => self.settle(handle).await,
            6 => self.settle_at_once().await,
            7 => self.renew(handle).await,
            8 => self.take_over(handle).await,
            9 => self.take_over_at_once().await,
            10 => self.admit().await,
            _ => self.now += i64::try_from(self.dice.roll(20)).expect("few"),
        }
        self.look().await;
    }

    fn fresh(&mut self) -> u128 {
        self.next += 1;
        self.next - 1
    }

    fn key_claim(&mut self, key: u8) -> (u128, KeyClaim) {
        let n = self.fresh();
        (n, claim(key, n))
    }

    /// The generation that a key stands for, running or ended.
    fn of_key(&self, key: u8) -> Option<(u128, &Known)> {
        let mut of_key = self
            .generations
            .iter()
            .filter(|(_, known)| known.key == Some(key));
        let found = of_key.next();
        assert!(of_key.next().is_none(), "two generations for key {key}");
        found.map(|(n, known)| (*n, known))
    }

    /// Compares the answer of a claim with what the key stands for.
    fn claimed(&mut self, handle: usize, key: u8, n: u128, answer: &Claimed) {
        let principal = self.claims.get(&key).filter(|claim| claim.until > self.now);
        let expected = match (self.of_key(key), principal) {
            (Some((n, known)), _) => match &known.outcome {
                Some(outcome) => Claimed::Replay(id(n), outcome.clone()),
                None => Claimed::PickUp(id(n)),
            },
            (None, Some(_)) => Claimed::InFlight,
            (None, None) => Claimed::Fresh,
        };
        assert_eq!(*answer, expected, "key {key}");
        if expected == Claimed::Fresh {
            let claim = Claim {
                generation: n,
                by: handle,
                until: self.now + lasts(),
            };
            self.claims.insert(key, claim);
        }
    }

    async fn claim(&mut self, handle: usize) {
        let key = self.key();
        let (n, claim) = self.key_claim(key);
        let answer = self.handles[handle].claim(claim, self.now).await;
        self.claimed(handle, key, n, &answer);
    }

    async fn claim_at_once(&mut self) {
        let key = self.key();
        let ((a, first), (b, second)) = (self.key_claim(key), self.key_claim(key));
        let [left, right] = &self.handles;
        let (one, other) = join(left.claim(first, self.now), right.claim(second, self.now)).await;
        // The one that is fresh was first.
        if other == Claimed::Fresh {
            self.claimed(1, key, b, &other);
            self.claimed(0, key, a, &one);
        } else {
            self.claimed(0, key, a, &one);
            self.claimed(1, key, b, &other);
        }
    }

    /// A process dispatches what it claimed, also when its claim may have lapsed.
    async fn dispatch(&mut self, handle: usize) {
        let mine: Vec<(u8, Claim)> = self
            .claims
            .iter()
            .map(|(key, claim)| (*key, *claim))
            .collect();
        let mut mine = mine.into_iter().filter(|(_, claim)| claim.by == handle);
        let Some((key, claim)) = mine.next() else {
            return;
        };
        let begun = self.begin(handle, claim.generation, Some(key)).await;
        // Nobody took the key, or this would not be its last claim.
        assert_eq!(begun, Dispatched::Begun);
        self.claims.remove(&key);
        // One that another claim replaced is refused.
        let stale = self.fresh();
        let refused = self.begin(1 - handle, stale, Some(key)).await;
        assert_eq!(refused, Dispatched::ClaimLost);
    }

    async fn dispatch_without_key(&mut self, handle: usize) {
        let n = self.fresh();
        assert_eq!(self.begin(handle, n, None).await, Dispatched::Begun);
    }

    async fn begin(&mut self, handle: usize, n: u128, key: Option<u8>) -> Dispatched {
        let generation = crate::Generation {
            dispatched_at: at(self.now),
            labels: accounts::Labels::NONE,
            serving: None,
            ..generation(n, CENTS)
        };
        let begun = self.handles[handle]
            .dispatch_by(owner(handle), key, generation)
            .await;
        if begun == Dispatched::Begun {
            let known = Known {
                key,
                owner: handle,
                until: self.now + lasts(),
                outcome: None,
            };
            self.generations.insert(n, known);
        }
        begun
    }

    fn any(&mut self) -> Option<u128> {
        let all: Vec<u128> = self.generations.keys().copied().collect();
        // The newest ones: most of the others have ended.
        let newest = &all[all.len().saturating_sub(6)..];
        (!newest.is_empty()).then(|| newest[self.dice.roll(newest.len())])
    }

    fn ending(&mut self, handle: usize, n: u128) -> (Outcome, Ending) {
        let body = format!("{handle} of {n} at {}", self.now);
        let outcome = Outcome::Answered(answer(Bytes::from(body)));
        (outcome.clone(), kept(outcome, CENTS))
    }

    async fn settle(&mut self, handle: usize) {
        let Some(n) = self.any() else { return };
        let (outcome, ending) = self.ending(handle, n);
        let settled = self.handles[handle]
            .settle_by(owner(handle), "acme", n, ending)
            .await;
        self.settled(handle, n, outcome, settled);
    }

    /// Both think that a generation is theirs.
    async fn settle_at_once(&mut self) {
        let Some(n) = self.any() else { return };
        let ((a, first), (b, second)) = (self.ending(0, n), self.ending(1, n));
        let [left, right] = &self.handles;
        let (one, other) = join(
            left.settle_by(owner(0), "acme", n, first),
            right.settle_by(owner(1), "acme", n, second),
        )
        .await;
        self.settled(0, n, a, one);
        self.settled(1, n, b, other);
    }

    fn settled(&mut self, handle: usize, n: u128, outcome: Outcome, settled: Settled) {
        let known = self.generations.get_mut(&n).expect("it was dispatched");
        let counts = known.owner == handle && known.outcome.is_none();
        assert_eq!(
            settled == Settled::Now,
            counts,
            "{n} by {handle}: {known:?}"
        );
        if counts {
            known.outcome = Some(outcome);
        }
    }

    async fn renew(&mut self, handle: usize) {
        let ids: Vec<GenerationId> = self.generations.keys().map(|n| id(*n)).collect();
        let lost = self.handles[handle]
            .renew(owner(handle), &ids, self.now)
            .await;
        for (n, known) in &mut self.generations {
            let is_kept = known.owner == handle && known.outcome.is_none();
            assert_eq!(
                lost.contains(&id(*n)),
                !is_kept,
                "{n} by {handle}: {known:?}"
            );
            if is_kept {
                known.until = self.now + lasts();
            }
        }
    }

    fn lapsed(&self) -> Vec<u128> {
        let lapsed = self.generations.iter();
        let lapsed = lapsed.filter(|(_, one)| one.outcome.is_none() && one.until <= self.now);
        lapsed.map(|(n, _)| *n).collect()
    }

    async fn take_over(&mut self, handle: usize) {
        let (lapsed, limit) = (self.lapsed(), self.dice.roll(4));
        let taken = self.handles[handle]
            .take_over(owner(handle), limit, self.now)
            .await;
        assert_eq!(taken.len(), lapsed.len().min(limit));
        self.taken(handle, &lapsed, &taken);
    }

    async fn take_over_at_once(&mut self) {
        let lapsed = self.lapsed();
        let [left, right] = &self.handles;
        let (one, other) = join(
            left.take_over(owner(0), 100, self.now),
            right.take_over(owner(1), 100, self.now),
        )
        .await;
        // Each of them has one taker.
        assert_eq!(one.len() + other.len(), lapsed.len());
        self.taken(0, &lapsed, &one);
        let left: Vec<u128> = self.lapsed();
        self.taken(1, &left, &other);
        assert_eq!(self.lapsed(), []);
    }

    fn taken(&mut self, handle: usize, lapsed: &[u128], taken: &[Unfinished]) {
        for one in taken {
            let n = one.generation.id.0.as_u128();
            assert!(lapsed.contains(&n), "{n} is not to be taken over");
            let known = self.generations.get_mut(&n).expect("it was dispatched");
            (known.owner, known.until) = (handle, self.now + lasts());
        }
    }

    /// Both ask for room at once, for calls of their own.
    async fn admit(&mut self) {
        let asked = [self.fresh(), self.fresh()];
        let acme = account("acme");
        let limits = accounts::RouterLimits {
            concurrent_calls: MOST_CALLS,
            committed_spend_cents: u64::from(MOST_CALLS) * CENTS,
            ..accounts::RouterLimits::standard()
        };
        let permit = |n| Permit {
            account: &acme,
            generation: id(n),
            hold_cents: CENTS,
        };
        let now = at(self.now);
        let ask = async |handle: usize| {
            let generation = crate::Generation {
                dispatched_at: now,
                ..generation(asked[handle], CENTS)
            };
            let stores = &self.handles[handle];
            stores.ask_room(owner(handle), &generation, &limits).await
        };
        let (one, other) = join(ask(0), ask(1)).await;
        let free = usize::try_from(MOST_CALLS).expect("few") - self.live().len();
        let answers = [one, other];
        let admitted = answers.iter().filter(|one| **one == Admission::Admitted);
        assert_eq!(admitted.count(), free.min(2));
        for (handle, n) in asked.into_iter().enumerate() {
            if answers[handle] == Admission::Admitted {
                self.permits.insert(n, (handle, self.now + lasts()));
            }
        }
        // The oldest is given back, by each: only its owner's counts.
        if let Some((n, (by, _))) = self.live().into_iter().next()
            && self.dice.roll(2) == 0
        {
            for handle in [1 - by, by] {
                let released = self.handles[handle]
                    .quota
                    .release(permit(n), owner(handle))
                    .await;
                released.expect("the store answers");
                let load = self.handles[by].quota.load(&acme, now).await;
                let load = load.expect("the store answers").calls as usize;
                assert_eq!(load, self.live().len() - usize::from(handle == by));
            }
            self.permits.remove(&n);
        }
    }

    /// The permits that count.
    fn live(&self) -> Vec<(u128, (usize, i64))> {
        let live = self
            .permits
            .iter()
            .filter(|(_, (_, until))| *until > self.now);
        live.map(|(n, permit)| (*n, *permit)).collect()
    }

    fn key(&mut self) -> u8 {
        u8::try_from(self.dice.roll(4)).expect("few")
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        let running = self
            .generations
            .iter()
            .filter(|(_, one)| one.outcome.is_none());
        let running: Vec<u128> = running.map(|(n, _)| *n).collect();
        for stores in &self.handles {
            let unfinished = stores.usage.unfinished().await.expect("the store answers");
            let mut seen: Vec<u128> = unfinished
                .iter()
                .map(|one| one.generation.id.0.as_u128())
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, running);
            let load = stores.quota.load(&account("acme"), at(self.now)).await;
            let load = load.expect("the store answers");
            let live = u32::try_from(self.live().len()).expect("few");
            assert_eq!(
                (load.calls, load.committed_cents),
                (live, u64::from(live) * CENTS)
            );
        }
    }

    /// Everything ends where it is, and was billed once.
    async fn end(mut self) {
        self.now += lasts();
        self.take_over_at_once().await;
        for n in self.generations.keys().copied().collect::<Vec<_>>() {
            for handle in [0, 1] {
                let (outcome, ending) = self.ending(handle, n);
                let settled = self.handles[handle].settle_by(owner(handle), "acme", n, ending);
                let settled = settled.await;
                self.settled(handle, n, outcome, settled);
            }
        }
        let count = self.generations.len();
        let cents = i64::try_from(count as u64 * CENTS).expect("few");
        for stores in &self.handles {
            assert_eq!(stores.credits().await.balance_cents, -cents);
            let entries = stores
                .accounts
                .entries(&account("acme"), None, 10_000)
                .await;
            assert_eq!(entries.expect("the store answers").len(), count);
        }
        // What one records the other reads.
        let [first, second] = &self.handles;
        if let Some(n) = self.generations.keys().next() {
            let record: CallRecord = super::record(*n, 0);
            first.record(record.clone());
            let page = second.usage.page(&UsageQuery::default(), None, 10).await;
            let page = page.expect("the store answers");
            assert_eq!(page.first().map(|row| &row.call), Some(&record));
        }
    }
}
