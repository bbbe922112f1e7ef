//! A place in memory that installations move to and from, for tests of moves and of stores.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use asset_store::{BlobStore, MemoryBlobs};
use async_trait::async_trait;
use jiff::Timestamp;

use super::{BLOBS, Note, Part, Progress, Row, TransferSource, TransferTarget, Value, part};
use crate::BoxError;

/// How many rows a page has: few, so that tests meet many pages.
const PAGE: usize = 2;

/// Rows of all parts, and blobs. Clones are the same place.
#[derive(Clone)]
pub struct MemoryPlace {
    inner: Arc<Mutex<Inner>>,
    blobs: MemoryBlobs,
}

#[derive(Default)]
struct Inner {
    rows: BTreeMap<&'static str, Vec<Row>>,
    progress: BTreeMap<&'static str, Progress>,
    note: Option<Note>,
    /// After how many writes each further one fails.
    writes_left: Option<usize>,
}

impl Default for MemoryPlace {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
            blobs: MemoryBlobs::new(|| Timestamp::UNIX_EPOCH),
        }
    }
}

impl MemoryPlace {
    /// Its blobs, to be damaged.
    #[must_use]
    pub fn memory_blobs(&self) -> &MemoryBlobs {
        &self.blobs
    }

    /// Adds rows.
    pub fn put(&self, part: &'static Part, rows: Vec<Row>) {
        self.lock().rows.entry(part.name).or_default().extend(rows);
    }

    /// Notes a move.
    pub fn put_note(&self, note: Option<Note>) {
        self.lock().note = note;
    }

    /// Fails every write after so many.
    pub fn fail_after(&self, writes: Option<usize>) {
        self.lock().writes_left = writes;
    }

    /// The rows of a part, in the order of their keys.
    ///
    /// # Panics
    /// If two rows have one key.
    #[must_use]
    pub fn rows(&self, part: &'static Part) -> Vec<Row> {
        let rows = match part.name {
            BLOBS => self.blobs_of_records(),
            name => self.lock().rows.get(name).cloned().unwrap_or_default(),
        };
        let count = rows.len();
        let by_key = rows
            .into_iter()
            .map(|row| (Key(row[..part.key].to_vec()), row));
        let by_key: BTreeMap<Key, Row> = by_key.collect();
        assert_eq!(
            by_key.len(),
            count,
            "two rows of {} have one key",
            part.name
        );
        by_key.into_values().collect()
    }

    fn blobs_of_records(&self) -> Vec<Row> {
        let assets = part("assets");
        let (hash, size) = (assets.place("hash"), assets.place("size_bytes"));
        let rows = self.rows(assets);
        let blobs = rows.iter().map(|row| {
            let blob = vec![row[hash].clone(), row[size].clone()];
            (Key(vec![row[hash].clone()]), blob)
        });
        let blobs: BTreeMap<Key, Row> = blobs.collect();
        blobs.into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is one call: a panic elsewhere cannot have left it half-made.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys hold no fractions, so their order is total.
#[derive(PartialEq)]
struct Key(Vec<Value>);

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.0.partial_cmp(&other.0);
        order.expect("a key has no fraction")
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[async_trait]
impl TransferSource for MemoryPlace {
    async fn note(&self) -> Result<Option<Note>, BoxError> {
        Ok(self.lock().note.clone())
    }

    async fn set_note(&self, note: &Note) -> Result<(), BoxError> {
        self.lock().note = Some(note.clone());
        Ok(())
    }

    async fn count(&self, part: &'static Part) -> Result<u64, BoxError> {
        Ok(self.rows(part).len() as u64)
    }

    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError> {
        let rows = self.rows(part).into_iter();
        let behind = rows.filter(|row| after.is_none_or(|after| row[..part.key] > *after));
        Ok(behind.take(PAGE.min(part.page)).collect())
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(self.blobs.clone())
    }

    fn undo(&self) -> &'static str {
        "forget the note"
    }
}

#[async_trait]
impl TransferTarget for MemoryPlace {
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError> {
        let progress = self.lock().progress.get(part.name).cloned();
        Ok(progress.unwrap_or_default())
    }

    async fn write(
        &self,
        part: &'static Part,
        rows: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError> {
        let mut inner = self.lock();
        if let Some(left) = &mut inner.writes_left {
            *left = left.checked_sub(1).ok_or("no write is left")?;
        }
        inner.rows.entry(part.name).or_default().extend(rows);
        inner.progress.insert(part.name, progress.clone());
        Ok(())
    }

    async fn finish(&self, note: &Note) -> Result<(), BoxError> {
        self.lock().note = Some(note.clone());
        Ok(())
    }
}
