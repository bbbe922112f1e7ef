//! What every store of records decides in the same way: whether a record is made, and which records a query means. A store
//! finds out the facts and calls these.

use accounts::Fingerprint;
use jiff::{SignedDuration, Timestamp};

use super::{AssetQuery, InsertAsset, InsertOutcome, InsertRule};
use crate::{Asset, Retention};

/// No run is expected to take longer: a deadline before that might hide an output from its own job.
pub const LONGEST_RUN: SignedDuration = SignedDuration::from_hours(24);

/// What a store finds out before it makes a record, all of it in the transaction of the insert.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFacts {
    /// If the request has a key that was claimed before and whose time is not over: what its request was, and its record, unless
    /// that is gone or expired. Nothing else counts then.
    pub known_key: Option<(Fingerprint, Asset)>,
    /// Whether the account has a live record over these bytes.
    pub had_bytes: bool,
    /// Under [`InsertRule::FromHash`], the account's newest live record of these bytes and this name.
    pub same: Option<Asset>,
    /// Under a rule that [looks at the name](InsertRule::is_of_a_name), the account's newest live record of this name that no job made.
    pub named: Option<Asset>,
    /// Bytes that the account has stored; of no meaning without a bound.
    pub stored_bytes: u64,
}

/// What becomes of an insert. Where something is kept, the key is claimed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertStep {
    /// Nothing is kept; this is the answer.
    Answer(InsertOutcome),
    /// The record that is there gets this deadline, and is the answer ([`InsertOutcome::Existing`]).
    Extend(Asset),
    /// The record is made ([`InsertOutcome::Created`]).
    Make {
        /// Whether the account had these bytes.
        had_bytes: bool,
    },
}

/// Whether an account that has so many bytes stored may have so many more.
#[must_use]
pub fn fits(stored_bytes: u64, bytes: u64, most_bytes: Option<u64>) -> bool {
    most_bytes.is_none_or(|most| stored_bytes.saturating_add(bytes) <= most)
}

impl InsertRule {
    /// Whether it counts which upload has the name.
    #[must_use]
    pub fn is_of_a_name(self) -> bool {
        match self {
            Self::FreeName | Self::InPlaceOf(_) => true,
            Self::Upload | Self::FromHash => false,
        }
    }
}

impl InsertAsset {
    /// What becomes of it. What a key stands for is answered first, then the rule counts, then the bytes of the account, of which a
    /// record that is there takes none.
    #[must_use]
    pub fn decide(&self, facts: &RecordFacts) -> InsertStep {
        if let (Some(claim), Some((fingerprint, asset))) = (&self.claim, &facts.known_key) {
            return InsertStep::Answer(match *fingerprint == claim.fingerprint {
                true => InsertOutcome::Replayed(asset.clone()),
                false => InsertOutcome::KeyReused(asset.id),
            });
        }
        let there = match self.rule {
            InsertRule::Upload => None,
            InsertRule::FreeName => facts.named.as_ref(),
            InsertRule::InPlaceOf(id) => facts.named.as_ref().filter(|there| there.id != id),
            InsertRule::FromHash if !facts.had_bytes => {
                return InsertStep::Answer(InsertOutcome::BlobNotFound);
            }
            InsertRule::FromHash => facts.same.as_ref(),
        };
        match there {
            Some(there) if there.hash == self.asset.hash => {
                return InsertStep::Extend(Asset {
                    expires_at: extended(there, &self.asset),
                    ..there.clone()
                });
            }
            Some(_) => return InsertStep::Answer(InsertOutcome::NameTaken),
            None => {}
        }
        if !fits(facts.stored_bytes, self.asset.size_bytes, self.most_bytes) {
            return InsertStep::Answer(InsertOutcome::QuotaExceeded);
        }
        InsertStep::Make {
            had_bytes: facts.had_bytes,
        }
    }
}

/// The deadline of a record that is asked for again. An output of a job that runs has none, and gets its job's when that ends; what was
/// asked for it is kept if it comes after the end of any run, and then the later of both counts.
fn extended(known: &Asset, asked: &Asset) -> Option<Timestamp> {
    let is_of_a_run = known.job_id.is_some() && known.expires_at.is_none();
    if !is_of_a_run {
        return Retention::extend(known.expires_at, asked.expires_at);
    }
    let over = asked.created_at.saturating_add(LONGEST_RUN);
    let over = over.unwrap_or(Timestamp::MAX);
    asked.expires_at.filter(|expires_at| *expires_at > over)
}

impl AssetQuery {
    /// Whether it means a record, if that is the account's, live, and the newest of those that it means.
    #[must_use]
    pub fn fits(&self, asset: &Asset) -> bool {
        match self {
            Self::Hash(hash) => asset.hash == *hash,
            Self::Path(path) => asset.file_path.as_ref() == Some(path),
            Self::Upload(path) => asset.job_id.is_none() && asset.file_path.as_ref() == Some(path),
            Self::Output(path) => asset.job_id.is_some() && asset.file_path.as_ref() == Some(path),
        }
    }
}
