//! Two replicas over one store: what both of them put, name, hold, delete and sweep, in an order that a seed decides, beside a
//! model of what is true.
//!
//! Some steps are made by both replicas at once; then some order of the two explains both answers.

mod model;

use std::collections::HashSet;
use std::sync::Arc;

use accounts::contract::{Dice, either};
use accounts::{AccountId, Fingerprint};
use bytes::Bytes;
use futures_util::future::join;
use jiff::SignedDuration;
use uuid::Uuid;

use super::records::account;
use super::{TestClock, start};
use crate::{
    Asset, AssetId, AssetQuery, AssetRecords, Assets, Blob, BlobHash, BlobStore, Hold, InsertAsset,
    InsertOutcome, InsertRule, KeyClaim, ReleasedBlobs, Retention, SpaceClass, SweepName,
    SweepStates, read_all,
};
use model::Model;

/// The ports of one replica.
#[derive(Clone)]
pub struct Replica {
    /// The bytes.
    pub blobs: Arc<dyn BlobStore>,
    /// The records over them.
    pub records: Arc<dyn AssetRecords>,
    /// Blobs that lost a record.
    pub released: Arc<dyn ReleasedBlobs>,
    /// Whether sweeps may delete.
    pub sweeps: Arc<dyn SweepStates>,
}

/// How many histories are run, and how many steps each of them has.
const SEEDS: u64 = 12;
const STEPS: usize = 120;

/// Different contents: so few that sweeps take blobs without rows for what crashes leave.
const CONTENTS: usize = 6;

/// How long an unreferenced blob is left alone, in seconds.
const GRACE: i64 = 60;

/// Most bytes that an account may have stored, where a request names a bound.
const MOST_BYTES: u64 = 60;

/// Runs histories of two replicas, each on the two handles of a fresh store, which must tell the time by the clock it is given.
///
/// # Panics
/// If the store breaks a rule.
pub async fn replicas(fresh: impl Fn(TestClock) -> [Replica; 2]) {
    for seed in 1..=SEEDS {
        let clock = TestClock::at(start());
        let mut history = History {
            handles: fresh(clock.clone()),
            clock,
            dice: Dice::new(seed),
            next: 1,
            model: Model::default(),
        };
        for _ in 0..STEPS {
            history.step().await;
        }
        history.end().await;
    }
}

struct History {
    handles: [Replica; 2],
    clock: TestClock,
    dice: Dice,
    /// The number of the next record.
    next: u128,
    model: Model,
}

/// The bytes of a content; no two have the same number of them.
fn content(n: usize) -> Vec<u8> {
    vec![u8::try_from(n).expect("few"); n + 5]
}

impl History {
    async fn step(&mut self) {
        let handle = self.dice.roll(2);
        match self.dice.roll(13) {
            0 | 1 => self.upload(handle).await,
            2 => self.upload_at_once().await,
            3 => self.name_again(handle).await,
            4 | 5 => self.hold(handle).await,
            6 => self.remove_and_hold_at_once().await,
            7 => self.expire_at_once().await,
            8 => self.sweep(handle).await,
            9 => self.sweep_and_put_at_once(handle).await,
            10 => self.admit_at_once().await,
            _ => {
                let seconds = i64::try_from(self.dice.roll(30)).expect("few");
                self.clock.advance(SignedDuration::from_secs(seconds));
            }
        }
        self.look().await;
    }

    fn some_content(&mut self) -> Vec<u8> {
        content(self.dice.roll(CONTENTS))
    }

    async fn put(&self, handle: usize, bytes: &[u8]) -> Blob {
        let blobs = &self.handles[handle].blobs;
        let mut writer = blobs.begin(SpaceClass::Spare).await.expect("a writer");
        let written = writer.write(Bytes::copy_from_slice(bytes)).await;
        written.expect("room");
        writer.finish().await.expect("an end");
        writer.commit().await.expect("a blob")
    }

    /// A record over a content, perhaps with a key and a bound.
    fn record(&mut self, bytes: &[u8], rule: InsertRule) -> InsertAsset {
        let (id, now) = (AssetId(Uuid::from_u128(self.next)), self.clock.now());
        self.next += 1;
        let seconds = i64::try_from(20 + self.dice.roll(100)).expect("few");
        let name = ["a.png", "b.png"][self.dice.roll(2)];
        let asset = Asset {
            id,
            account: account(["acme", "other"][self.dice.roll(2)]),
            hash: BlobHash::of(bytes),
            size_bytes: bytes.len() as u64,
            content_type: "image/png".to_owned(),
            file_path: (self.dice.roll(3) > 0).then(|| name.parse().expect("a valid name")),
            tags: Vec::new(),
            created_at: now,
            expires_at: Some(now + SignedDuration::from_secs(seconds)),
            job_id: None,
        };
        let key = u8::try_from(self.dice.roll(3)).expect("few");
        let claim = (self.dice.roll(2) == 0).then(|| KeyClaim {
            digest: [key; 32],
            fingerprint: Fingerprint([u8::from(self.dice.roll(4) == 0); 32]),
            expires_at: now + SignedDuration::from_secs(80),
        });
        InsertAsset {
            asset,
            rule,
            claim,
            most_bytes: (self.dice.roll(2) == 0).then_some(MOST_BYTES),
        }
    }

    async fn insert(&self, handle: usize, insert: InsertAsset) -> InsertOutcome {
        let records = &self.handles[handle].records;
        let inserted = records.insert(insert, self.clock.now()).await;
        inserted.expect("the store answers")
    }

    async fn upload(&mut self, handle: usize) {
        let bytes = self.some_content();
        let blob = self.put(handle, &bytes).await;
        self.model.blobs.insert(blob.hash, self.clock.now());
        let rule = [InsertRule::Upload, InsertRule::FreeName][self.dice.roll(2)];
        let insert = self.record(&bytes, rule);
        let outcome = self.insert(handle, insert.clone()).await;
        assert_eq!(outcome, self.model.insert(insert, self.clock.now()));
    }

    /// The same bytes at once, and then two records, perhaps with one key or where one is too many.
    async fn upload_at_once(&mut self) {
        let bytes = self.some_content();
        let (blob, same) = join(self.put(0, &bytes), self.put(1, &bytes)).await;
        assert_eq!(blob, same);
        self.model.blobs.insert(blob.hash, self.clock.now());
        let mut asked = [(); 2].map(|()| self.record(&bytes, InsertRule::Upload));
        // Of two names, so that it does not matter which record is the newer one.
        for (insert, name) in asked.iter_mut().zip(["a.png", "b.png"]) {
            insert.asset.file_path = Some(name.parse().expect("a valid name"));
        }
        let [first, second] = asked.clone();
        let answers = join(self.insert(0, first), self.insert(1, second)).await;
        let now = self.clock.now();
        either(
            &mut self.model,
            |model, handle| model.insert(asked[handle].clone(), now),
            &answers,
        );
    }

    async fn name_again(&mut self, handle: usize) {
        let bytes = self.some_content();
        let hash = BlobHash::of(&bytes);
        let touched = self.handles[handle].blobs.touch(&hash).await;
        let touched = touched.expect("the store answers");
        let is_there = self.model.blobs.contains_key(&hash);
        assert_eq!(touched, is_there.then_some(bytes.len() as u64));
        if is_there {
            self.model.blobs.insert(hash, self.clock.now());
            let insert = self.record(&bytes, InsertRule::FromHash);
            let outcome = self.insert(handle, insert.clone()).await;
            assert_eq!(outcome, self.model.insert(insert, self.clock.now()));
        }
    }

    fn some_record(&mut self) -> Option<(AccountId, AssetId)> {
        let all: Vec<u64> = self.model.records.keys().copied().collect();
        let known = &self.model.records[&self.dice.pick(&all)?];
        Some((known.asset.account.clone(), known.asset.id))
    }

    fn some_hold(&mut self) -> Hold {
        match self.dice.roll(3) {
            0 => Hold::Operator,
            1 => Hold::Input(Uuid::from_u128(1)),
            _ => Hold::Output(Uuid::from_u128(2)),
        }
    }

    async fn hold(&mut self, handle: usize) {
        let Some((_, id)) = self.some_record() else {
            return;
        };
        let (hold, held) = (self.some_hold(), self.dice.roll(5) < 2);
        let answer = self.handles[handle].records.hold(id, hold, held).await;
        let expected = self.model.hold(id, hold, held);
        assert_eq!(answer.expect("the store answers"), expected);
    }

    /// One takes a record away and the other holds it: either it is held, or gone before.
    async fn remove_and_hold_at_once(&mut self) {
        let Some((account, id)) = self.some_record() else {
            return;
        };
        let (hold, now) = (self.some_hold(), self.clock.now());
        let [one, other] = &self.handles;
        let (removed, held) = join(
            one.records.remove(&account, id, now),
            other.records.hold(id, hold, true),
        )
        .await;
        let removed = removed.expect("the store answers");
        let held = held.expect("the store answers");
        let answers = (format!("{removed:?}"), format!("{held:?}"));
        let act = |model: &mut Model, handle| match handle {
            0 => format!("{:?}", model.remove(&account, id, now)),
            _ => format!("{:?}", model.hold(id, hold, true)),
        };
        either(&mut self.model, act, &answers);
    }

    /// What is past its time goes once, whoever looks.
    async fn expire_at_once(&mut self) {
        let now = self.clock.now();
        let [one, other] = &self.handles;
        let gone = join(
            one.records.expire(now, 1_000),
            other.records.expire(now, 1_000),
        )
        .await;
        let gone = gone.0.expect("an answer") + gone.1.expect("an answer");
        assert_eq!(gone, self.model.expire(now));
    }

    async fn sweep_by(&self, handle: usize) {
        let replica = &self.handles[handle];
        let retention = Retention {
            uploads: SignedDuration::from_secs(100),
            grace: SignedDuration::from_secs(GRACE),
        };
        let assets = Assets::new(replica.blobs.clone(), replica.records.clone(), retention);
        let swept = assets
            .sweep(&*replica.released, self.clock.now(), false)
            .await;
        swept.expect("the store answers");
    }

    async fn sweep(&mut self, handle: usize) {
        self.sweep_by(handle).await;
        self.model.sweep(self.clock.now());
    }

    /// A blob that one replica puts, and will name in a moment, stays while the other sweeps.
    async fn sweep_and_put_at_once(&mut self, handle: usize) {
        let bytes = self.some_content();
        let (blob, ()) = join(self.put(handle, &bytes), self.sweep_by(1 - handle)).await;
        self.model.blobs.insert(blob.hash, self.clock.now());
        self.model.sweep(self.clock.now());
    }

    /// A confirmation admits one pass of each sweep, whichever replica makes it.
    async fn admit_at_once(&mut self) {
        if self.dice.roll(2) == 0 {
            let confirmed = self.handles[self.dice.roll(2)].sweeps.confirm().await;
            confirmed.expect("the store answers");
            for sweep in SweepName::ALL {
                self.model.sweeps.entry(sweep).or_default().confirmed = true;
            }
        }
        let (sweep, now) = (SweepName::ALL[self.dice.roll(2)], self.clock.now());
        let ran = SignedDuration::from_secs(1);
        let [one, other] = &self.handles;
        let (first, second) = join(
            one.sweeps.admit(sweep, now, ran),
            other.sweeps.admit(sweep, now, ran),
        )
        .await;
        let answers = (first.expect("an answer"), second.expect("an answer"));
        let act = |model: &mut Model, _| model.sweeps.entry(sweep).or_default().admit(now, ran);
        either(&mut self.model, act, &answers);
    }

    /// Both see the same, and what is true.
    async fn look(&self) {
        let now = self.clock.now();
        for replica in &self.handles {
            for known in self.model.records.values() {
                let Asset { account, id, .. } = &known.asset;
                let found = replica.records.get(account, *id, now).await;
                let expected = (!known.asset.is_expired(now)).then(|| known.asset.clone());
                assert_eq!(found.expect("the store answers"), expected);
            }
            for name in ["acme", "other"] {
                let of = account(name);
                let stored = replica.records.stored_bytes(&of).await;
                let stored = stored.expect("the store answers");
                assert_eq!(stored, self.model.stored_bytes(&of));
                let query = AssetQuery::Path("a.png".parse().expect("a valid name"));
                let found = replica.records.find(&of, &query, now).await;
                let found = found.expect("the store answers").map(|asset| asset.id);
                let mut live = self.model.live(&of, now);
                let newest = live.rfind(|known| query.fits(&known.asset));
                assert_eq!(found, newest.map(|known| known.asset.id));
            }
            let listed = replica.blobs.list(None, 100).await.expect("a list");
            let listed: Vec<BlobHash> = listed.iter().map(|blob| blob.hash).collect();
            let expected: Vec<BlobHash> = self.model.blobs.keys().copied().collect();
            assert_eq!(listed, expected);
            let all: Vec<BlobHash> = (0..CONTENTS).map(|n| BlobHash::of(&content(n))).collect();
            let free = replica.records.unreferenced(&all).await;
            let free: HashSet<BlobHash> = free.expect("an answer").into_iter().collect();
            let named = self.model.hashes();
            let expected = all.into_iter().filter(|hash| !named.contains(hash));
            assert_eq!(free, expected.collect());
        }
        // What one put, the other reads.
        for n in 0..CONTENTS {
            let bytes = content(n);
            let (hash, size_bytes) = (BlobHash::of(&bytes), bytes.len() as u64);
            if self.model.blobs.contains_key(&hash) {
                let blobs = &self.handles[n % 2].blobs;
                let read = read_all(&**blobs, &Blob { hash, size_bytes }).await;
                assert_eq!(read.expect("the bytes"), bytes);
            }
        }
    }

    /// Without holds everything goes in the end.
    async fn end(mut self) {
        let records: Vec<(AssetId, HashSet<Hold>)> = self
            .model
            .records
            .values()
            .map(|known| (known.asset.id, known.holds.clone()))
            .collect();
        for (id, holds) in records {
            for hold in holds {
                let released = self.handles[0].records.hold(id, hold, false).await;
                assert!(released.expect("the store answers"));
                self.model.hold(id, hold, false);
            }
        }
        self.clock.advance(SignedDuration::from_secs(1_000));
        self.sweep(1).await;
        self.look().await;
        assert_eq!(self.model.blobs.len() + self.model.records.len(), 0);
    }
}
