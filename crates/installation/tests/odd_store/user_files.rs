//! Saved files whose operations overtake each other.

use std::sync::Arc;

use accounts::AccountId;
use asset_store::FilePath;
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value};
use v1_compat::{FileContent, FileWrite, Renamed, UserFile, UserFiles, UserFilesError};

use crate::jitter::Jitter;

pub(crate) struct OddUserFiles {
    pub(crate) inner: Arc<dyn UserFiles>,
    pub(crate) jitter: Jitter,
}

#[async_trait]
impl UserFiles for OddUserFiles {
    async fn settings(&self, account: &AccountId) -> Result<Map<String, Value>, UserFilesError> {
        self.jitter.around(self.inner.settings(account)).await
    }

    async fn set(
        &self,
        account: &AccountId,
        changes: Map<String, Value>,
    ) -> Result<(), UserFilesError> {
        self.jitter.around(self.inner.set(account, changes)).await
    }

    async fn list(
        &self,
        account: &AccountId,
        folder: Option<&FilePath>,
    ) -> Result<Vec<UserFile>, UserFilesError> {
        self.jitter.around(self.inner.list(account, folder)).await
    }

    async fn read(
        &self,
        account: &AccountId,
        path: &FilePath,
    ) -> Result<Option<Bytes>, UserFilesError> {
        self.jitter.around(self.inner.read(account, path)).await
    }

    async fn write(
        &self,
        account: &AccountId,
        path: &FilePath,
        content: FileContent,
        now: Timestamp,
    ) -> Result<FileWrite, UserFilesError> {
        let written = self.inner.write(account, path, content, now);
        self.jitter.around(written).await
    }

    async fn remove(&self, account: &AccountId, path: &FilePath) -> Result<bool, UserFilesError> {
        self.jitter.around(self.inner.remove(account, path)).await
    }

    async fn rename(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Result<Renamed, UserFilesError> {
        let renamed = self.inner.rename(account, from, to, replace);
        self.jitter.around(renamed).await
    }
}
