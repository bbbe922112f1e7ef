//! What every store must do with an installation that moves: rows of every kind go in and come out again as they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use asset_store::{BlobStore, SpaceClass};
use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::transfer::{
    MemoryPlace, Note, PARTS, Part, Progress, Row, TransferOptions, TransferSource, TransferStore,
    TransferTarget, Value, arriving, transfer,
};
use crate::{BoxError, OpenOptions, ReserveOptions};

mod samples;

const OPTIONS: TransferOptions = TransferOptions {
    leave_damaged: false,
};

/// Moves an installation with rows of every kind from memory into `store`, which must be empty, and back.
///
/// # Panics
/// At the assertion that states the broken rule.
pub async fn transfers(store: &dyn TransferStore) {
    let origin = MemoryPlace::default();
    let bytes = [Bytes::from_static(b"a picture"), Bytes::new()];
    for content in &bytes {
        let mut writer = origin.blobs().begin(SpaceClass::Spare).await.expect("room");
        writer.write(content.clone()).await.expect("it is taken");
        writer.finish().await.expect("it ends");
        writer.commit().await.expect("it is kept");
    }
    for part in PARTS.iter().filter(|part| part.name != "blobs") {
        origin.put(part, samples::of(part, &bytes));
        assert!(!origin.rows(part).is_empty(), "a sample of {}", part.name);
    }
    let fresh = arriving(Uuid::from_u128(1), "memory");
    let mut moved = None;
    // Each attempt but the last one ends early, at another place.
    for writes in [0, 3, 10, 29, usize::MAX] {
        let target = store.target(&fresh).await.expect("it is being moved here");
        let limited = Limited {
            inner: Arc::clone(&target),
            left: AtomicUsize::new(writes),
        };
        let attempt = transfer((&origin, "memory"), (&limited, "store"), OPTIONS, &|_| ()).await;
        let is_last = writes == usize::MAX;
        assert!(attempt.is_ok() || !is_last, "{:?}", attempt.err());
        moved = attempt.ok();
        drop((limited, target));
        if moved.is_none() {
            let opened = store.open(options()).await.err();
            let refused = opened.expect("not all is there").to_string();
            assert!(refused.contains("that is not finished"), "{refused}");
        }
    }
    let moved = moved.expect("it moves in the end");
    assert_eq!(moved.blobs, 2);
    let target = store.target(&fresh).await.expect("it was moved here");
    let again = transfer((&origin, "memory"), (&*target, "store"), OPTIONS, &|_| ()).await;
    assert_eq!(again.ok(), Some(moved), "once more it says the same");
    drop(target);
    let refused = store.target(&arriving(Uuid::from_u128(2), "memory")).await;
    if let Ok(target) = refused {
        let other = MemoryPlace::default();
        let refused = transfer((&other, "memory"), (&*target, "store"), OPTIONS, &|_| ()).await;
        let refused = refused.expect_err("it holds an installation").to_string();
        assert!(
            refused.contains("holds an installation already"),
            "{refused}"
        );
    }

    let back = MemoryPlace::default();
    back.put_note(Some(arriving(Uuid::from_u128(3), "store")));
    let source = store.source().await.expect("nobody has it");
    let returned = transfer((&*source, "store"), (&back, "memory"), OPTIONS, &|_| ()).await;
    assert_eq!(returned.expect("it moves back"), moved);
    for part in PARTS {
        let (before, after) = (origin.rows(part), back.rows(part));
        assert_eq!(before.len(), after.len(), "{}", part.name);
        for (before, after) in before.iter().zip(&after) {
            for (place, column) in part.columns.iter().enumerate() {
                if column.is_compared {
                    let name = format!("{} of {}", column.name, part.name);
                    assert_eq!(before[place], after[place], "{name}");
                }
            }
        }
    }
    drop(source);
    let left = store.open(options()).await.err();
    let left = left.expect("it is elsewhere").to_string();
    assert!(left.contains("was moved to memory"), "{left}");
}

fn options() -> OpenOptions {
    OpenOptions {
        tier: accounts::Tier::standard(),
        reserve: ReserveOptions::NONE,
        fresh: false,
    }
}

/// A target that fails every write after so many.
struct Limited {
    inner: Arc<dyn TransferTarget>,
    left: AtomicUsize,
}

#[async_trait]
impl TransferSource for Limited {
    async fn note(&self) -> Result<Option<Note>, BoxError> {
        self.inner.note().await
    }

    async fn set_note(&self, note: &Note) -> Result<(), BoxError> {
        self.inner.set_note(note).await
    }

    async fn count(&self, part: &'static Part) -> Result<u64, BoxError> {
        self.inner.count(part).await
    }

    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError> {
        self.inner.read(part, after).await
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.inner.blobs()
    }

    fn undo(&self) -> &'static str {
        self.inner.undo()
    }
}

#[async_trait]
impl TransferTarget for Limited {
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError> {
        self.inner.progress(part).await
    }

    async fn write(
        &self,
        part: &'static Part,
        rows: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError> {
        let taken = |left: usize| left.checked_sub(1);
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken);
        left.map_err(|_| "no write is left")?;
        self.inner.write(part, rows, progress).await
    }

    async fn finish(&self, note: &Note) -> Result<(), BoxError> {
        self.inner.finish(note).await
    }
}
