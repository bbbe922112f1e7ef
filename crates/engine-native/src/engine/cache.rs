//! Results kept for later runs: least recently used goes first, within a budget of bytes.
//!
//! The holder of an entry keeps it alive, so an entry may go at any time without disturbing a run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use asset_store::{Blob, FilePath};
use serde_json::{Map, Value as Json};
use workflow_core::OutputKind;

use super::memory::{Ledger, Parts};
use crate::Value;

/// What decides a result; equal keys, equal results.
pub(super) type Key = blake3::Hash;

/// A node's result.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Values by output slot.
    pub(super) slots: Vec<Vec<Value>>,
    /// What the node showed, its files apart.
    pub(super) ui: Map<String, Json>,
    /// What it made.
    pub(super) files: Vec<KeptFile>,
}

/// A committed file, as far as committing it again needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptFile {
    pub(super) kind: OutputKind,
    pub(super) temp: bool,
    pub(super) path: FilePath,
    pub(super) content_type: String,
    pub(super) blob: Blob,
    pub(super) shown_under: Option<&'static str>,
}

/// The results of all jobs.
#[derive(Debug)]
pub(super) struct Cache {
    budget_bytes: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Key, (Arc<Entry>, u64)>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    ledger: Ledger,
    /// Bytes besides the values.
    other_bytes: u64,
}

/// About what an entry takes besides its values: key, maps and shells.
const SHELL_BYTES: u64 = 512;

impl Cache {
    pub(super) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            kept: Mutex::default(),
        }
    }

    /// The result of a key, which counts as used now.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        let mut kept = self.kept();
        kept.uses += 1;
        let now = kept.uses;
        let (entry, used) = kept.entries.get_mut(key)?;
        let entry = Arc::clone(entry);
        let before = std::mem::replace(used, now);
        kept.by_use.remove(&before);
        kept.by_use.insert(now, *key);
        Some(entry)
    }

    /// Keeps a result, at the cost of those not used for longest; one that takes more than the whole budget is not kept.
    pub(super) fn insert(&self, key: Key, entry: Entry) {
        if Ledger::total([&entry.parts()]) + entry.other_bytes() > self.budget_bytes {
            return;
        }
        let mut kept = self.kept();
        kept.remove(&key);
        kept.uses += 1;
        let now = kept.uses;
        kept.ledger.add(&entry.parts());
        kept.other_bytes += entry.other_bytes();
        kept.by_use.insert(now, key);
        kept.entries.insert(key, (Arc::new(entry), now));
        while kept.ledger.bytes() + kept.other_bytes > self.budget_bytes {
            let Some((_, &oldest)) = kept.by_use.first_key_value() else {
                break;
            };
            kept.remove(&oldest);
        }
    }

    /// Forgets a result that turned out to be of no use.
    pub(super) fn remove(&self, key: &Key) {
        self.kept().remove(key);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing in here panics halfway: maps and counters only.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: &Key) {
        let Some((entry, used)) = self.entries.remove(key) else {
            return;
        };
        self.by_use.remove(&used);
        self.ledger.remove(&entry.parts());
        self.other_bytes -= entry.other_bytes();
    }
}

impl Entry {
    fn parts(&self) -> Parts {
        Parts::of(self.slots.iter().flatten())
    }

    fn other_bytes(&self) -> u64 {
        let shown = |value: &Json| match value {
            Json::String(text) => text.len(),
            Json::Array(items) => items
                .iter()
                .map(|item| item.as_str().map_or(64, str::len))
                .sum(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => 64,
        };
        let ui: usize = self.ui.values().map(shown).sum();
        let values: usize = self
            .slots
            .iter()
            .map(|slot| slot.len() * size_of::<Value>())
            .sum();
        SHELL_BYTES + (ui + values + self.files.len() * 256) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use images::{Frame, Image};

    fn key(name: &str) -> Key {
        blake3::hash(name.as_bytes())
    }

    fn entry(kilobytes: usize) -> Entry {
        let image = Image::single(Frame::filled(kilobytes, 256, 1, 0.0));
        Entry {
            slots: vec![vec![image.into()]],
            ..Entry::default()
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let cache = Cache::new(10 * 1024);
        for name in ["a", "b", "c"] {
            cache.insert(key(name), entry(2));
        }
        assert!(cache.get(&key("a")).is_some());
        cache.insert(key("d"), entry(3));
        let kept = ["a", "b", "c", "d"].map(|name| cache.get(&key(name)).is_some());
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn what_is_larger_than_the_budget_is_not_kept_and_displaces_nothing() {
        let cache = Cache::new(10 * 1024);
        cache.insert(key("small"), entry(2));
        cache.insert(key("large"), entry(10));
        assert!(cache.get(&key("small")).is_some());
        assert!(cache.get(&key("large")).is_none());
    }

    #[test]
    fn frames_that_entries_share_count_once() {
        let cache = Cache::new(10 * 1024);
        let frame = Arc::new(Frame::filled(6, 256, 1, 0.0));
        for name in ["a", "b", "c"] {
            let image = Image::new(vec![Arc::clone(&frame)]).expect("one frame");
            cache.insert(
                key(name),
                Entry {
                    slots: vec![vec![image.into()]],
                    ..Entry::default()
                },
            );
        }
        assert!(
            ["a", "b", "c"]
                .iter()
                .all(|name| cache.get(&key(name)).is_some())
        );
    }

    #[test]
    fn a_key_that_is_kept_again_counts_once() {
        let cache = Cache::new(5 * 1024);
        cache.insert(key("a"), entry(2));
        cache.insert(key("a"), entry(2));
        cache.insert(key("b"), entry(1));
        assert!(cache.get(&key("a")).is_some() && cache.get(&key("b")).is_some());
    }
}
