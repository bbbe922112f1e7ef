//! What is true of the assets of two replicas, kept in the plainest way.

use std::collections::{BTreeMap, HashMap, HashSet};

use accounts::{AccountId, Fingerprint};
use jiff::{SignedDuration, Timestamp};

use super::GRACE;
use crate::{
    Asset, AssetId, BlobHash, Hold, InsertAsset, InsertOutcome, InsertStep, RecordFacts, Removal,
    SweepName, SweepState,
};

#[derive(Clone, Default)]
pub(super) struct Model {
    /// By the order in which they were made.
    pub(super) records: BTreeMap<u64, Known>,
    made: u64,
    keys: HashMap<(AccountId, [u8; 32]), (Fingerprint, AssetId, Timestamp)>,
    /// When each blob was put or touched.
    pub(super) blobs: BTreeMap<BlobHash, Timestamp>,
    pub(super) sweeps: HashMap<SweepName, SweepState>,
}

#[derive(Clone)]
pub(super) struct Known {
    pub(super) asset: Asset,
    pub(super) holds: HashSet<Hold>,
}

impl Model {
    pub(super) fn live<'m>(
        &'m self,
        of: &'m AccountId,
        now: Timestamp,
    ) -> impl DoubleEndedIterator<Item = &'m Known> {
        let live = self.records.values();
        live.filter(move |known| known.asset.account == *of && !known.asset.is_expired(now))
    }

    pub(super) fn stored_bytes(&self, of: &AccountId) -> u64 {
        let records = self.records.values();
        let mine = records.filter(|known| known.asset.account == *of);
        mine.map(|known| known.asset.size_bytes).sum()
    }

    pub(super) fn insert(&mut self, insert: InsertAsset, now: Timestamp) -> InsertOutcome {
        let account = insert.asset.account.clone();
        let asked = &insert.asset;
        let known_key = insert.claim.as_ref().and_then(|claim| {
            let key = self.keys.get(&(account.clone(), claim.digest))?;
            let (fingerprint, id, expires_at) = *key;
            let known = self
                .live(&account, now)
                .find(|known| known.asset.id == id)?;
            (expires_at > now).then(|| (fingerprint, known.asset.clone()))
        });
        let has_name = |known: &Known| known.asset.file_path == asked.file_path;
        let same = |known: &&Known| known.asset.hash == asked.hash && has_name(known);
        let facts = RecordFacts {
            known_key,
            had_bytes: self
                .live(&account, now)
                .any(|known| known.asset.hash == asked.hash),
            same: self
                .live(&account, now)
                .rfind(same)
                .map(|known| known.asset.clone()),
            named: self
                .live(&account, now)
                .rfind(|known| known.asset.file_path.is_some() && has_name(known))
                .map(|known| known.asset.clone()),
            stored_bytes: self.stored_bytes(&account),
        };
        let (id, outcome) = match insert.decide(&facts) {
            InsertStep::Answer(outcome) => return outcome,
            InsertStep::Extend(asset) => {
                let known = self.records.values_mut();
                for known in known.filter(|known| known.asset.id == asset.id) {
                    known.asset = asset.clone();
                }
                (asset.id, InsertOutcome::Existing(asset))
            }
            InsertStep::Make { had_bytes } => {
                self.made += 1;
                let (asset, holds) = (insert.asset, HashSet::new());
                let known = Known {
                    asset: asset.clone(),
                    holds,
                };
                self.records.insert(self.made, known);
                (asset.id, InsertOutcome::Created { asset, had_bytes })
            }
        };
        if let Some(claim) = insert.claim {
            let key = (claim.fingerprint, id, claim.expires_at);
            self.keys.insert((account, claim.digest), key);
        }
        outcome
    }

    pub(super) fn hold(&mut self, id: AssetId, hold: Hold, held: bool) -> bool {
        let mut records = self.records.values_mut();
        let Some(known) = records.find(|known| known.asset.id == id) else {
            return false;
        };
        match held {
            true => known.holds.insert(hold),
            false => known.holds.remove(&hold),
        };
        true
    }

    pub(super) fn remove(&mut self, of: &AccountId, id: AssetId, now: Timestamp) -> Removal {
        let mut live = self.live(of, now);
        let Some(known) = live.find(|known| known.asset.id == id) else {
            return Removal::Absent;
        };
        if !known.holds.is_empty() {
            return Removal::Held;
        }
        drop(live);
        self.records.retain(|_, known| known.asset.id != id);
        Removal::Removed
    }

    pub(super) fn expire(&mut self, now: Timestamp) -> usize {
        let before = self.records.len();
        let stays = |known: &Known| !known.asset.is_expired(now) || !known.holds.is_empty();
        self.records.retain(|_, known| stays(known));
        before - self.records.len()
    }

    /// The blobs that a sweep leaves.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.expire(now);
        let named: HashSet<BlobHash> = self.hashes();
        let untouched_since = now - SignedDuration::from_secs(GRACE);
        let stays = |hash: &BlobHash, touched_at: Timestamp| {
            named.contains(hash) || touched_at >= untouched_since
        };
        self.blobs
            .retain(|hash, touched_at| stays(hash, *touched_at));
    }

    pub(super) fn hashes(&self) -> HashSet<BlobHash> {
        let records = self.records.values();
        records.map(|known| known.asset.hash).collect()
    }
}
