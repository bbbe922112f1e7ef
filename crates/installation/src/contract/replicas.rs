//! Two replicas over one installation: who has which turn, and what both sign with, in an order that a seed decides, beside a model
//! of what is true.

use std::collections::BTreeMap;
use std::sync::Arc;

use accounts::contract::{Dice, either};
use futures_util::future::join;
use jiff::Timestamp;

use super::link;
use crate::{SigningKeys, Turns, Work};

/// How many histories run, and how many steps each of them has.
const SEEDS: u64 = 16;
const STEPS: usize = 120;

/// The works of the histories.
const WORKS: [Work; 3] = [Work::Assets, Work::Calls, Work::Webhooks];

/// The ports of one replica.
#[derive(Clone)]
pub struct Replica {
    /// Whose turn it is.
    pub turns: Arc<dyn Turns>,
    /// What signs.
    pub keys: Arc<dyn SigningKeys>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replica")
    }
}

/// Runs histories of two replicas, each on the two handles of a new installation.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn() -> [Replica; 2]) {
    for seed in 1..=SEEDS {
        let handles = fresh();
        let secret = secret(&handles[0]).await;
        let newest = handles[0].sign().await;
        let mut history = History {
            handles,
            dice: Dice::new(seed),
            now: 0,
            turns: Model::default(),
            signed: vec![newest],
            secret,
        };
        for _ in 0..STEPS {
            history.step().await;
        }
    }
}

/// Who has the turn of each work, by its place in [`WORKS`], and until when.
type Model = BTreeMap<usize, (usize, i64)>;

struct History {
    handles: [Replica; 2],
    dice: Dice,
    now: i64,
    turns: Model,
    /// One link as each key signed it that is known, the newest last.
    signed: Vec<String>,
    secret: [u8; 32],
}

async fn secret(replica: &Replica) -> [u8; 32] {
    let secret = replica.keys.installation_secret().await;
    secret.expect("the secret can be read")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// Whether a replica has a turn that it asked for.
fn take(turns: &mut Model, handle: usize, work: usize, now: i64, until: i64) -> bool {
    let other = turns.get(&work);
    let is_free = other.is_none_or(|(by, end)| *by == handle || *end <= now);
    if is_free {
        turns.insert(work, (handle, until));
    }
    is_free
}

impl Replica {
    async fn sign(&self) -> String {
        let keys = self.keys.link_keys().await.expect("the keys can be read");
        keys.sign(&link())
    }

    async fn rotate(&self) {
        let rotated = self.keys.rotate_link_keys().await;
        rotated.expect("a new key");
    }

    async fn take(&self, work: usize, now: i64, until: i64) -> bool {
        let taken = self.turns.take(WORKS[work], at(now), at(until)).await;
        taken.expect("an answer")
    }
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(10) {
            0..=2 => self.take(handle).await,
            3 | 4 => self.take_at_once().await,
            5 => self.give_back(handle).await,
            6 => self.rotate(handle).await,
            7 => self.rotate_at_once().await,
            _ => self.now += i64::try_from(self.dice.roll(30)).expect("few"),
        }
        self.look().await;
    }

    fn asked(&mut self) -> (usize, i64) {
        let lasts = i64::try_from(1 + self.dice.roll(60)).expect("few");
        (self.dice.roll(WORKS.len()), self.now + lasts)
    }

    async fn take(&mut self, handle: usize) {
        let (work, until) = self.asked();
        let taken = self.handles[handle].take(work, self.now, until).await;
        let expected = take(&mut self.turns, handle, work, self.now, until);
        assert_eq!(taken, expected, "{work} by {handle}: {:?}", self.turns);
    }

    /// At most one of both has the turn.
    async fn take_at_once(&mut self) {
        let ((work, until), (_, other)) = (self.asked(), self.asked());
        let (ends, now) = ([until, other], self.now);
        let [left, right] = &self.handles;
        let answers = join(
            left.take(work, now, ends[0]),
            right.take(work, now, ends[1]),
        )
        .await;
        let act = |turns: &mut Model, handle: usize| take(turns, handle, work, now, ends[handle]);
        either(&mut self.turns, act, &answers);
    }

    async fn give_back(&mut self, handle: usize) {
        let work = self.dice.roll(WORKS.len());
        let given = self.handles[handle].turns.give_back(WORKS[work]).await;
        given.expect("an answer");
        if self.turns.get(&work).is_some_and(|(by, _)| *by == handle) {
            self.turns.remove(&work);
        }
    }

    /// The new key counts at the other replica for what is read from then on.
    async fn rotate(&mut self, handle: usize) {
        self.handles[handle].rotate().await;
        let signed = self.handles[1 - handle].sign().await;
        assert!(!self.signed.contains(&signed), "it is another key");
        self.signed.push(signed);
    }

    /// Both rotations count: the key that was the newest before them verifies no more.
    async fn rotate_at_once(&mut self) {
        let [left, right] = &self.handles;
        join(left.rotate(), right.rotate()).await;
        let signed = left.sign().await;
        assert!(!self.signed.contains(&signed), "it is another key");
        // One of both keys was the newest for a moment that nobody saw.
        self.signed.extend([String::new(), signed]);
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        for replica in &self.handles {
            assert_eq!(secret(replica).await, self.secret, "the secret stays");
            let keys = replica.keys.link_keys().await;
            let keys = keys.expect("the keys can be read");
            for (age, signed) in self.signed.iter().rev().enumerate().take(4) {
                let verified = keys.verify(signed, "a.png", Timestamp::UNIX_EPOCH);
                let counts = age < 2 && !signed.is_empty();
                assert_eq!(verified.is_ok(), counts, "a key of age {age}");
            }
            assert_eq!(Some(&keys.sign(&link())), self.signed.last());
        }
    }
}
