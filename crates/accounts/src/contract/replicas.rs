//! Two replicas over one store: what both of them hold, bill, grant and change, in an order that a seed decides, beside a model
//! of what is true.
//!
//! Credits are exact at every replica. Who may do what comes to another replica after a moment: it is asked until it knows, and
//! never goes back. Some steps are made by both replicas at once; then some order of the two explains both answers.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::join;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Dice, Ports, account, at, change, either};
use crate::{
    Account, AccountChange, AccountId, AccountState, AdminError, ApiKey, KeyHash, LedgerRef,
    MintedKey, Reservation, Scopes, Tier,
};

/// How many histories run, and how many steps each of them has.
const SEEDS: u64 = 16;
const STEPS: usize = 150;

/// How long holds last, in seconds.
const LASTS: i64 = 30;

/// How often a replica is asked until it must know what another one changed.
const MOST_LOOKS: usize = 10_000;

/// Runs histories of two replicas, each on the two handles of a fresh store whose installation gives the tier that it is handed.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn(Tier) -> [Ports; 2]) {
    for seed in 1..=SEEDS {
        let handles = fresh(Tier::standard());
        let acme = account(&handles[0], "acme").await;
        change(&handles[1], &acme, &[AccountChange::Billed(true)]).await;
        let mut history = History {
            handles,
            acme,
            dice: Dice::new(seed),
            now: 0,
            next: 1,
            model: Model::default(),
        };
        history.grant_at_once().await;
        for _ in 0..STEPS {
            history.step().await;
        }
        history.end().await;
        super::budgets::history(fresh(Tier::standard()), seed).await;
        super::scoped_budgets::history(fresh(Tier::standard()), seed).await;
    }
}

struct History {
    handles: [Ports; 2],
    acme: AccountId,
    dice: Dice,
    now: i64,
    /// The number of the next grant and of the next key.
    next: u8,
    model: Model,
}

/// What is true of the account, kept in the plainest way.
#[derive(Clone, Default)]
struct Model {
    /// The ledger, the oldest entry first.
    entries: Vec<(LedgerRef, i64)>,
    /// Cents and lapse of the holds.
    holds: HashMap<u128, (u32, i64)>,
    keys: Vec<(ApiKey, KeyHash)>,
    suspended: bool,
}

impl Model {
    fn balance(&self) -> i64 {
        self.entries.iter().map(|(_, cents)| cents).sum()
    }

    fn held(&self, now: i64) -> u64 {
        let live = self.holds.values().filter(|(_, until)| *until > now);
        live.map(|(cents, _)| u64::from(*cents)).sum()
    }

    fn reserve(&mut self, n: u128, cents: u32, now: i64) -> Reservation {
        self.holds.retain(|_, (_, until)| *until > now);
        let held = i64::try_from(self.held(now)).expect("few");
        let available_cents = self.balance() - held;
        if !self.holds.contains_key(&n) && i64::from(cents) > available_cents {
            return Reservation::Insufficient { available_cents };
        }
        let hold = self.holds.entry(n).or_insert((cents, 0));
        hold.1 = now + LASTS;
        Reservation::Held
    }

    /// Adds an entry unless its cause has one; the amount that stands.
    fn post(&mut self, cause: LedgerRef, cents: i64) -> i64 {
        let known = self.entries.iter().find(|(known, _)| *known == cause);
        match known.copied() {
            Some((_, stands)) => stands,
            None => {
                self.entries.push((cause, cents));
                cents
            }
        }
    }

    fn settle(&mut self, n: u128, cents: u32) -> i64 {
        self.holds.remove(&n);
        self.post(generation(n), -i64::from(cents))
    }
}

fn generation(n: u128) -> LedgerRef {
    LedgerRef::Generation(Uuid::from_u128(n))
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(12) {
            0 | 1 => self.reserve(handle).await,
            2 => self.reserve_at_once().await,
            3 => self.renew(handle).await,
            4 => self.settle(handle).await,
            5 => self.settle_at_once().await,
            6 => self.release(handle).await,
            7 => self.grant_at_once().await,
            8 => self.add_key(handle).await,
            9 => self.revoke_at_once().await,
            10 => self.suspend(handle).await,
            _ => self.now += i64::try_from(self.dice.roll(20)).expect("few"),
        }
        self.look().await;
    }

    fn now(&self) -> Timestamp {
        at(self.now)
    }

    fn call(&mut self) -> (u128, u32) {
        let cents = u32::try_from(self.dice.roll(60)).expect("few");
        (self.dice.roll(12) as u128, cents)
    }

    async fn reserve_by(&self, handle: usize, (n, cents): (u128, u32)) -> Reservation {
        let lasts = Duration::from_secs(LASTS.unsigned_abs());
        let accounts = &self.handles[handle].accounts;
        let held = accounts.reserve((&self.acme).into(), generation(n), cents, lasts, self.now());
        held.await.expect("the store answers")
    }

    async fn reserve(&mut self, handle: usize) {
        let (n, cents) = self.call();
        let answer = self.reserve_by(handle, (n, cents)).await;
        assert_eq!(answer, self.model.reserve(n, cents, self.now));
    }

    /// Together they never hold more than there is.
    async fn reserve_at_once(&mut self) {
        let (one, mut other) = (self.call(), self.call());
        if other.0 == one.0 {
            // Two amounts of one call would leave open which of them stands.
            other.1 = one.1;
        }
        let calls = [one, other];
        let answers = join(self.reserve_by(0, calls[0]), self.reserve_by(1, calls[1])).await;
        let now = self.now;
        let act = |model: &mut Model, handle: usize| {
            let (n, cents) = calls[handle];
            model.reserve(n, cents, now)
        };
        either(&mut self.model, act, &answers);
    }

    async fn renew(&mut self, handle: usize) {
        let numbers: Vec<u128> = (0..12).collect();
        let causes = numbers.iter().map(|n| (&self.acme, generation(*n)));
        let causes: Vec<_> = causes.collect();
        let lasts = Duration::from_secs(LASTS.unsigned_abs());
        let accounts = &self.handles[handle].accounts;
        let gone = accounts.renew(&causes, lasts, self.now()).await;
        let gone = gone.expect("the store answers");
        for (position, n) in numbers.iter().enumerate() {
            let hold = self.model.holds.get_mut(n);
            let hold = hold.filter(|(_, until)| *until > self.now);
            assert_eq!(gone.contains(&position), hold.is_none(), "hold {n}");
            if let Some((_, until)) = hold {
                *until = self.now + LASTS;
            }
        }
    }

    async fn settle_by(&self, handle: usize, (n, cents): (u128, u32)) -> i64 {
        let accounts = &self.handles[handle].accounts;
        let settled = accounts.settle(&self.acme, generation(n), cents, self.now());
        settled.await.expect("the account is there").amount_cents
    }

    async fn settle(&mut self, handle: usize) {
        let (n, cents) = self.call();
        let stands = self.settle_by(handle, (n, cents)).await;
        assert_eq!(stands, self.model.settle(n, cents));
    }

    /// Both bill the same call: one amount stands, and both get it.
    async fn settle_at_once(&mut self) {
        let (n, cents) = self.call();
        let bills = [(n, cents), (n, cents + 1)];
        let answers = join(self.settle_by(0, bills[0]), self.settle_by(1, bills[1])).await;
        assert_eq!(answers.0, answers.1);
        let act = |model: &mut Model, handle: usize| model.settle(n, bills[handle].1);
        either(&mut self.model, act, &answers);
    }

    async fn release(&mut self, handle: usize) {
        let (n, _) = self.call();
        let accounts = &self.handles[handle].accounts;
        let released = accounts.release(&self.acme, generation(n)).await;
        released.expect("the store answers");
        self.model.holds.remove(&n);
    }

    /// A grant that is repeated at another replica counts once.
    async fn grant_at_once(&mut self) {
        let cause = LedgerRef::Grant(Uuid::from_u128(self.next.into()));
        self.next += 1;
        let cents = i32::try_from(self.dice.roll(200)).expect("few") - 20;
        let grant = async |handle: usize| {
            let admin = &self.handles[handle].admin;
            let granted = admin.grant(&self.acme, cause, cents, self.now()).await;
            granted.expect("the account is there").credits
        };
        let (first, second) = join(grant(0), grant(1)).await;
        self.model.post(cause, i64::from(cents));
        let balance = self.model.balance();
        assert_eq!(
            (first.balance_cents, second.balance_cents),
            (balance, balance)
        );
    }

    async fn add_key(&mut self, handle: usize) {
        let number = self.next;
        self.next += 1;
        let mut random = [number; MintedKey::RANDOM_BYTES];
        random[MintedKey::RANDOM_BYTES - 1] = 0;
        let minted = MintedKey::new(&random);
        let key = ApiKey {
            id: minted.id.clone(),
            account: self.acme.clone(),
            name: (&self.acme).into(),
            scopes: Scopes::all(),
            created_at: at(i64::from(number)),
            expires_at: None,
            revoked_at: None,
        };
        let added = &self.handles[handle].admin;
        let added = added.add_key(key.clone(), minted.hash()).await;
        added.expect("the key is new");
        let again = &self.handles[1 - handle].admin;
        let again = again.add_key(key.clone(), minted.hash()).await;
        assert!(matches!(again, Err(AdminError::Taken)), "{again:?}");
        self.model.keys.push((key, minted.hash()));
    }

    /// The first of two revocations stands, and both are told its time.
    async fn revoke_at_once(&mut self) {
        let all: Vec<usize> = (0..self.model.keys.len()).collect();
        let Some(place) = self.dice.pick(&all) else {
            return;
        };
        let id = self.model.keys[place].0.id.clone();
        let times = [self.now(), at(self.now + 1)];
        let revoke = async |handle: usize| {
            let revoked = self.handles[handle].admin.revoke_key(&id, times[handle]);
            revoked.await.expect("the key is there").revoked_at
        };
        let answers = join(revoke(0), revoke(1)).await;
        let act = |model: &mut Model, handle: usize| {
            let revoked_at = &mut model.keys[place].0.revoked_at;
            *revoked_at = revoked_at.or(Some(times[handle]));
            *revoked_at
        };
        either(&mut self.model, act, &answers);
    }

    async fn suspend(&mut self, handle: usize) {
        let suspended = self.dice.roll(2) == 0;
        let state = match suspended {
            true => AccountState::Suspended,
            false => AccountState::Active,
        };
        let acme = self.acme.clone();
        change(&self.handles[handle], &acme, &[AccountChange::State(state)]).await;
        self.model.suspended = suspended;
        // The replica that changed it knows at once.
        let own = self.handles[handle].accounts.by_id(&self.acme).await;
        assert_eq!(own.expect("the store answers").is_none(), suspended);
        let taken = Account::new(acme.clone(), (&acme).into(), self.now());
        let taken = self.handles[1 - handle].admin.create(taken).await;
        assert!(matches!(taken, Err(AdminError::Taken)), "{taken:?}");
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        for ports in &self.handles {
            let credits = ports.accounts.credits(&self.acme, self.now()).await;
            let credits = credits.expect("the store answers");
            assert_eq!(
                (credits.balance_cents, credits.held_cents),
                (self.model.balance(), self.model.held(self.now))
            );
            let keys = ports.admin.keys(&self.acme).await;
            let known: Vec<ApiKey> = self.model.keys.iter().map(|(key, _)| key.clone()).collect();
            assert_eq!(keys.expect("the account is there"), known);
            for (key, hash) in &self.model.keys {
                let counts = key.revoked_at.is_none() && !self.model.suspended;
                self.must_know(ports, hash, counts).await;
            }
        }
    }

    /// Asks a replica whether a key counts, until it knows; then it does not forget it.
    async fn must_know(&self, ports: &Ports, hash: &KeyHash, counts: bool) {
        let look = async || {
            let found = ports.accounts.by_key(hash, self.now()).await;
            found.expect("the store answers").is_some()
        };
        let mut looks = 0;
        while look().await != counts {
            looks += 1;
            assert!(looks < MOST_LOOKS, "a change does not come to a replica");
        }
        assert_eq!(look().await, counts, "a replica forgot a change");
    }

    /// Holds lapse, and the ledgers agree entry by entry.
    async fn end(mut self) {
        self.now += LASTS;
        self.look().await;
        assert_eq!(self.model.held(self.now), 0);
        let mut ledgers = Vec::new();
        for ports in &self.handles {
            let entries = ports.accounts.entries(&self.acme, None, 10_000).await;
            let mut entries = entries.expect("the store answers");
            entries.reverse();
            assert!(entries.is_sorted_by(|a, b| a.seq < b.seq), "{entries:?}");
            let told: Vec<(LedgerRef, i64)> = entries
                .iter()
                .map(|entry| (entry.cause, entry.amount_cents))
                .collect();
            assert_eq!(told, self.model.entries);
            ledgers.push(entries);
        }
        assert_eq!(ledgers[0], ledgers[1]);
    }
}
