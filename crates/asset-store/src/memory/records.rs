//! Records in maps, behind one lock: holding it is a transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use accounts::{AccountId, Fingerprint};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use crate::{
    Admission, Asset, AssetId, AssetQuery, AssetRecords, BlobHash, FileNames, Hold, InsertAsset,
    InsertOutcome, InsertRule, InsertStep, KeptAsset, KeyClaim, RecordFacts, RecordsError,
    ReleasedBlobs, Removal, ScrubState, ScrubStates, SweepName, SweepState, SweepStates,
};

/// A record store that forgets everything with the process. Clones share their records, so that another store in memory can
/// write its own rows and these in one transaction.
#[derive(Clone, Debug, Default)]
pub struct MemoryRecords {
    rows: Arc<Mutex<RecordRows>>,
}

/// The records themselves, as one transaction sees them. There is no undo: code that changes several rows checks first.
#[derive(Debug, Default)]
pub struct RecordRows {
    /// By the order in which they were made: the last is the newest.
    assets: BTreeMap<u64, Asset>,
    positions: HashMap<AssetId, u64>,
    holds: HashMap<AssetId, HashSet<Hold>>,
    keys: HashMap<(AccountId, [u8; 32]), ClaimedKey>,
    released: HashSet<BlobHash>,
    sweeps: HashMap<SweepName, SweepState>,
    scrub: ScrubState,
    made: u64,
    /// Bytes of records, and of what jobs keep beside them.
    stored: HashMap<AccountId, u64>,
}

#[derive(Debug)]
struct ClaimedKey {
    fingerprint: Fingerprint,
    asset: AssetId,
    expires_at: Timestamp,
}

impl MemoryRecords {
    /// A store of no records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs one transaction: nobody else reads or writes until `transaction` returns. It must not call the store again.
    pub fn with<R>(&self, transaction: impl FnOnce(&mut RecordRows) -> R) -> R {
        // A panic inside can leave half a change of a store that dies with its process; going on is better than hanging.
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        transaction(&mut rows)
    }
}

impl RecordRows {
    /// Makes a record under its rule and claims its key.
    pub fn insert(&mut self, insert: InsertAsset, now: Timestamp) -> InsertOutcome {
        let facts = self.facts(&insert, now);
        let (id, account) = (insert.asset.id, insert.asset.account.clone());
        let (id, outcome) = match insert.decide(&facts) {
            InsertStep::Answer(outcome) => return outcome,
            InsertStep::Extend(asset) => {
                let position = self.positions.get(&asset.id);
                if let Some(known) = position.and_then(|position| self.assets.get_mut(position)) {
                    known.expires_at = asset.expires_at;
                }
                (asset.id, InsertOutcome::Existing(asset))
            }
            InsertStep::Make { had_bytes } => {
                let asset = insert.asset;
                self.put(asset.clone());
                (id, InsertOutcome::Created { asset, had_bytes })
            }
        };
        if let Some(claim) = insert.claim {
            let claimed = ClaimedKey {
                fingerprint: claim.fingerprint,
                asset: id,
                expires_at: claim.expires_at,
            };
            self.keys.insert((account, claim.digest), claimed);
        }
        outcome
    }

    fn facts(&self, insert: &InsertAsset, now: Timestamp) -> RecordFacts {
        let asked = &insert.asset;
        let claim = insert.claim.as_ref();
        let of_hash = AssetQuery::Hash(asked.hash);
        let mut newest_first = self.assets.values().rev();
        let same = newest_first.find(|asset| {
            insert.rule == InsertRule::FromHash
                && asset.account == asked.account
                && asset.hash == asked.hash
                && asset.file_path == asked.file_path
                && !asset.is_expired(now)
        });
        let named = asked.file_path.clone().map(AssetQuery::Upload);
        let named = named.filter(|_| insert.rule.is_of_a_name());
        let named = named.and_then(|name| self.find(&asked.account, &name, now));
        RecordFacts {
            named: named.cloned(),
            known_key: claim.and_then(|claim| self.known_key(&asked.account, claim, now)),
            had_bytes: self.find(&asked.account, &of_hash, now).is_some(),
            same: same.cloned(),
            stored_bytes: self.stored_bytes(&asked.account),
        }
    }

    /// How many bytes the account has stored.
    #[must_use]
    pub fn stored_bytes(&self, account: &AccountId) -> u64 {
        self.stored.get(account).copied().unwrap_or(0)
    }

    /// Counts bytes that a job keeps beside the records of its account.
    pub fn add_stored(&mut self, account: &AccountId, bytes: u64) {
        *self.stored.entry(account.clone()).or_default() += bytes;
    }

    /// Counts bytes no more that went.
    pub fn take_stored(&mut self, account: &AccountId, bytes: u64) {
        if let Some(stored) = self.stored.get_mut(account) {
            *stored -= bytes;
        }
    }

    /// Makes the record of a job's output; a record of the same id stays as it is, since a repeated output is the same one.
    pub fn insert_output(&mut self, asset: Asset) {
        self.put(asset);
    }

    /// Settles when the record of an output expires, once its job has ended: then, unless a later time was asked for.
    pub fn expire_output(&mut self, id: AssetId, expires_at: Timestamp) {
        let asset = self
            .positions
            .get(&id)
            .and_then(|position| self.assets.get_mut(position));
        if let Some(asset) = asset {
            asset.expires_at = asset.expires_at.max(Some(expires_at));
        }
    }

    /// A live record by id.
    #[must_use]
    pub fn get(&self, account: &AccountId, id: AssetId, now: Timestamp) -> Option<&Asset> {
        self.by_id(id)
            .filter(|asset| asset.account == *account && !asset.is_expired(now))
    }

    /// The newest live record that fits.
    #[must_use]
    pub fn find(&self, account: &AccountId, query: &AssetQuery, now: Timestamp) -> Option<&Asset> {
        let fits = |asset: &&Asset| {
            query.fits(asset) && asset.account == *account && !asset.is_expired(now)
        };
        self.assets.values().rev().find(fits)
    }

    /// Adds the hold to a record, or takes it away; `false` if there is no such record.
    pub fn hold(&mut self, id: AssetId, hold: Hold, held: bool) -> bool {
        if !self.positions.contains_key(&id) {
            return false;
        }
        let holds = self.holds.entry(id).or_default();
        if held {
            holds.insert(hold);
        } else {
            holds.remove(&hold);
        }
        true
    }

    /// Takes the hold away from every record that has it.
    pub fn release(&mut self, hold: Hold) {
        for holds in self.holds.values_mut() {
            holds.remove(&hold);
        }
    }

    fn kept(&self, id: AssetId, limit: usize) -> Option<KeptAsset> {
        let asset = self.by_id(id)?.clone();
        let mut holds = Vec::from_iter(self.holds.get(&id).into_iter().flatten().copied());
        holds.sort_unstable();
        holds.truncate(limit);
        Some(KeptAsset { asset, holds })
    }

    fn remove(&mut self, account: &AccountId, id: AssetId, now: Timestamp) -> Removal {
        if self.get(account, id, now).is_none() {
            Removal::Absent
        } else if self.is_held(id) {
            Removal::Held
        } else {
            self.forget(id);
            Removal::Removed
        }
    }

    fn expire(&mut self, now: Timestamp, limit: usize) -> usize {
        let over = self
            .assets
            .values()
            .filter(|asset| asset.is_expired(now) && !self.is_held(asset.id));
        let ids: Vec<AssetId> = over.map(|asset| asset.id).take(limit).collect();
        for id in &ids {
            self.forget(*id);
        }
        self.keys.retain(|_, key| key.expires_at > now);
        ids.len()
    }

    fn unreferenced(&self, hashes: &[BlobHash]) -> Vec<BlobHash> {
        let referenced: HashSet<BlobHash> = self.assets.values().map(|asset| asset.hash).collect();
        let free = hashes.iter().filter(|hash| !referenced.contains(hash));
        free.copied().collect()
    }

    /// The request and the record of a key that was claimed before; `None` if nobody claimed it, or its time or its record is
    /// over.
    fn known_key(
        &self,
        account: &AccountId,
        claim: &KeyClaim,
        now: Timestamp,
    ) -> Option<(Fingerprint, Asset)> {
        let key = self.keys.get(&(account.clone(), claim.digest))?;
        let asset = self.get(account, key.asset, now)?;
        (key.expires_at > now).then(|| (key.fingerprint, asset.clone()))
    }

    fn put(&mut self, asset: Asset) {
        if !self.positions.contains_key(&asset.id) {
            self.made += 1;
            self.positions.insert(asset.id, self.made);
            self.add_stored(&asset.account, asset.size_bytes);
            self.assets.insert(self.made, asset);
        }
    }

    fn by_id(&self, id: AssetId) -> Option<&Asset> {
        self.assets.get(self.positions.get(&id)?)
    }

    fn is_held(&self, id: AssetId) -> bool {
        self.holds.get(&id).is_some_and(|holds| !holds.is_empty())
    }

    fn forget(&mut self, id: AssetId) {
        if let Some(position) = self.positions.remove(&id)
            && let Some(asset) = self.assets.remove(&position)
        {
            self.take_stored(&asset.account, asset.size_bytes);
            self.released.insert(asset.hash);
        }
        self.holds.remove(&id);
        self.keys.retain(|_, key| key.asset != id);
    }
}

#[async_trait]
impl FileNames for MemoryRecords {
    async fn named(
        &self,
        account: &AccountId,
        made_by_jobs: bool,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Asset>, RecordsError> {
        let listed = |asset: &&Asset| {
            let seen = asset.account == *account && !asset.is_expired(now);
            seen && asset.file_path.is_some() && asset.job_id.is_some() == made_by_jobs
        };
        Ok(self.with(|rows| {
            let found = rows.assets.values().rev().filter(listed);
            found.take(limit).cloned().collect()
        }))
    }
}

#[async_trait]
impl AssetRecords for MemoryRecords {
    async fn insert(
        &self,
        insert: InsertAsset,
        now: Timestamp,
    ) -> Result<InsertOutcome, RecordsError> {
        Ok(self.with(|rows| rows.insert(insert, now)))
    }

    async fn stored_bytes(&self, account: &AccountId) -> Result<u64, RecordsError> {
        Ok(self.with(|rows| rows.stored_bytes(account)))
    }

    async fn get(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        Ok(self.with(|rows| rows.get(account, id, now).cloned()))
    }

    async fn find(
        &self,
        account: &AccountId,
        query: &AssetQuery,
        now: Timestamp,
    ) -> Result<Option<Asset>, RecordsError> {
        Ok(self.with(|rows| rows.find(account, query, now).cloned()))
    }

    async fn hold(&self, id: AssetId, hold: Hold, held: bool) -> Result<bool, RecordsError> {
        Ok(self.with(|rows| rows.hold(id, hold, held)))
    }

    async fn kept(&self, id: AssetId, limit: usize) -> Result<Option<KeptAsset>, RecordsError> {
        Ok(self.with(|rows| rows.kept(id, limit)))
    }

    async fn remove(
        &self,
        account: &AccountId,
        id: AssetId,
        now: Timestamp,
    ) -> Result<Removal, RecordsError> {
        Ok(self.with(|rows| rows.remove(account, id, now)))
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, RecordsError> {
        Ok(self.with(|rows| rows.expire(now, limit)))
    }

    async fn unreferenced(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        Ok(self.with(|rows| rows.unreferenced(hashes)))
    }
}

#[async_trait]
impl ReleasedBlobs for MemoryRecords {
    async fn among(&self, hashes: &[BlobHash]) -> Result<Vec<BlobHash>, RecordsError> {
        Ok(self.with(|rows| {
            let released = hashes.iter().filter(|hash| rows.released.contains(hash));
            released.copied().collect()
        }))
    }

    async fn forget(&self, hashes: &[BlobHash]) -> Result<(), RecordsError> {
        self.with(|rows| rows.released.retain(|hash| !hashes.contains(hash)));
        Ok(())
    }
}

#[async_trait]
impl SweepStates for MemoryRecords {
    async fn admit(
        &self,
        sweep: SweepName,
        now: Timestamp,
        running: SignedDuration,
    ) -> Result<Admission, RecordsError> {
        Ok(self.with(|rows| rows.sweeps.entry(sweep).or_default().admit(now, running)))
    }

    async fn confirm(&self) -> Result<(), RecordsError> {
        self.with(|rows| {
            for sweep in SweepName::ALL {
                rows.sweeps.entry(sweep).or_default().confirmed = true;
            }
        });
        Ok(())
    }
}

#[async_trait]
impl ScrubStates for MemoryRecords {
    async fn load_scrub(&self) -> Result<ScrubState, RecordsError> {
        Ok(self.with(|rows| rows.scrub.clone()))
    }

    async fn save_scrub(&self, state: &ScrubState) -> Result<(), RecordsError> {
        self.with(|rows| rows.scrub.clone_from(state));
        Ok(())
    }
}
