//! A place that an installation moves to and from, which gives rows out in odd pages and blobs in odd pieces.

use std::path::Path;
use std::sync::Arc;

use asset_store::BlobStore;
use async_trait::async_trait;
use installation::transfer::{
    MemoryPlace, Note, Part, Progress, Row, TransferSource, TransferStore, TransferTarget, Value,
};
use installation::{
    BoxError, Contents, CopyError, Installation, InstallationStore, OpenError, OpenOptions,
};
use router_core::Usage;

use crate::OddStore;
use crate::assets::OddBlobs;
use crate::jitter::Jitter;

/// The store of programs with the place behind it: it opens when the place may be used.
pub(crate) struct OddTransfers {
    pub(crate) store: OddStore,
    pub(crate) place: OddPlace,
}

#[derive(Clone)]
pub(crate) struct OddPlace {
    pub(crate) inner: MemoryPlace,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl InstallationStore for OddTransfers {
    async fn open(&self, options: OpenOptions) -> Result<Installation, OpenError> {
        if let Some(note) = self.place.note().await.map_err(OpenError::Failed)? {
            let allowed = note.allows_opening(&self.location(), self.place.undo());
            allowed.map_err(|unsettled| OpenError::Failed(unsettled.into()))?;
        }
        self.store.open(options).await
    }

    async fn exists(&self) -> bool {
        self.store.exists().await
    }

    async fn usage(&self) -> Result<Arc<dyn Usage>, OpenError> {
        self.store.usage().await
    }

    async fn back_up(&self, target: &Path) -> Result<Contents, CopyError> {
        self.store.back_up(target).await
    }

    async fn inspect(&self) -> Result<(Contents, Vec<String>), CopyError> {
        self.store.inspect().await
    }

    fn location(&self) -> String {
        self.store.location()
    }
}

#[async_trait]
impl TransferStore for OddTransfers {
    async fn source(&self) -> Result<Arc<dyn TransferSource>, OpenError> {
        Ok(Arc::new(self.place.clone()))
    }

    async fn target(&self, fresh: &Note) -> Result<Arc<dyn TransferTarget>, OpenError> {
        if self
            .place
            .note()
            .await
            .map_err(OpenError::Failed)?
            .is_none()
        {
            self.place.inner.put_note(Some(fresh.clone()));
        }
        Ok(Arc::new(self.place.clone()))
    }
}

#[async_trait]
impl TransferSource for OddPlace {
    async fn note(&self) -> Result<Option<Note>, BoxError> {
        self.jitter.around(self.inner.note()).await
    }

    async fn set_note(&self, note: &Note) -> Result<(), BoxError> {
        self.jitter.around(self.inner.set_note(note)).await
    }

    async fn count(&self, part: &'static Part) -> Result<u64, BoxError> {
        let count = self.jitter.around(self.inner.count(part)).await?;
        // It is shown, and nothing depends on it.
        Ok(count / 2)
    }

    async fn read(
        &self,
        part: &'static Part,
        after: Option<&[Value]>,
    ) -> Result<Vec<Row>, BoxError> {
        let mut rows = self.jitter.around(self.inner.read(part, after)).await?;
        rows.truncate(1 + self.jitter.roll(3));
        Ok(rows)
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(OddBlobs {
            inner: self.inner.blobs(),
            jitter: self.jitter.clone(),
        })
    }

    fn undo(&self) -> &'static str {
        self.inner.undo()
    }
}

#[async_trait]
impl TransferTarget for OddPlace {
    async fn progress(&self, part: &'static Part) -> Result<Progress, BoxError> {
        self.jitter.around(self.inner.progress(part)).await
    }

    async fn write(
        &self,
        part: &'static Part,
        rows: Vec<Row>,
        progress: &Progress,
    ) -> Result<(), BoxError> {
        let written = self.inner.write(part, rows, progress);
        self.jitter.around(written).await
    }

    async fn finish(&self, note: &Note) -> Result<(), BoxError> {
        self.jitter.around(self.inner.finish(note)).await
    }
}
