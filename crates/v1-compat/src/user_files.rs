//! The port to the settings and saved workflows of accounts, and its twin in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use accounts::AccountId;
use asset_store::{BoxError, FilePath};
use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// What an account may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFilesBounds {
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Bytes of all files.
    pub total_bytes: u64,
    /// Files.
    pub files: usize,
    /// Bytes of all settings, as JSON.
    pub settings_bytes: usize,
}

/// A saved file, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFile {
    /// Its name.
    pub path: FilePath,
    /// How many bytes.
    pub size_bytes: u64,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last saved.
    pub modified_at: Timestamp,
}

/// What a file is to hold.
pub enum FileContent {
    /// These bytes, unless there is a file of this name.
    New(Bytes),
    /// These bytes, whatever there is.
    Set(Bytes),
    /// What is made of the bytes that are there: nobody else changes the file in between.
    Edited(Box<dyn FnOnce(Option<Bytes>) -> Bytes + Send>),
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileWrite {
    /// It is saved.
    Saved(UserFile),
    /// There is one of this name, and it was not to be replaced.
    Exists,
}

/// What became of a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It has the new name.
    Renamed(UserFile),
    /// There is no such file.
    Absent,
    /// There is one of the new name, and it was not to be replaced.
    Exists,
}

/// Why something was not kept.
#[derive(Debug, thiserror::Error)]
pub enum UserFilesError {
    /// It is larger than one file, or all settings, may be.
    #[error("this is larger than the {limit} bytes that are kept; save less")]
    TooLarge {
        /// Most bytes.
        limit: u64,
    },
    /// The account keeps as much as it may.
    #[error("the account keeps as many files as it may; delete some")]
    Full,
    /// Reading or writing failed.
    #[error("settings and saved files are unavailable")]
    Unavailable(#[source] BoxError),
}

impl UserFilesBounds {
    /// 16 MiB a file, 256 MiB and 5,000 files in all, 1 MiB of settings: far more than a person saves.
    pub const DEFAULT: Self = Self {
        file_bytes: 16 << 20,
        total_bytes: 256 << 20,
        files: 5_000,
        settings_bytes: 1 << 20,
    };
}

/// Settings and saved files by account.
///
/// **Contract.** Every method is one transaction and durable when it returns; another account's files are absent. A change
/// that would go beyond the bounds changes nothing. Files are listed in the order of their paths' bytes.
#[async_trait]
pub trait UserFiles: Send + Sync + 'static {
    /// All settings, in the order in which they were first set.
    async fn settings(&self, account: &AccountId) -> Result<Map<String, Value>, UserFilesError>;

    /// Sets these settings; others stay as they are.
    async fn set(
        &self,
        account: &AccountId,
        changes: Map<String, Value>,
    ) -> Result<(), UserFilesError>;

    /// All files, or those below a folder.
    async fn list(
        &self,
        account: &AccountId,
        folder: Option<&FilePath>,
    ) -> Result<Vec<UserFile>, UserFilesError>;

    /// A file's bytes.
    async fn read(
        &self,
        account: &AccountId,
        path: &FilePath,
    ) -> Result<Option<Bytes>, UserFilesError>;

    /// Saves a file.
    async fn write(
        &self,
        account: &AccountId,
        path: &FilePath,
        content: FileContent,
        now: Timestamp,
    ) -> Result<FileWrite, UserFilesError>;

    /// Deletes a file; whether there was one.
    async fn remove(&self, account: &AccountId, path: &FilePath) -> Result<bool, UserFilesError>;

    /// Gives a file another name, in place of one of that name if that is wanted.
    async fn rename(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Result<Renamed, UserFilesError>;
}

/// Settings and files that are forgotten with the process.
#[derive(Debug)]
pub struct MemoryUserFiles {
    bounds: UserFilesBounds,
    accounts: Mutex<HashMap<AccountId, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    settings: Map<String, Value>,
    files: BTreeMap<FilePath, (UserFile, Bytes)>,
}

impl MemoryUserFiles {
    /// Nothing yet.
    #[must_use]
    pub fn new(bounds: UserFilesBounds) -> Self {
        Self {
            bounds,
            accounts: Mutex::default(),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<AccountId, Kept>> {
        // Every change below is one insert or remove of something whole.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserFilesBounds {
    /// Checks settings as they would be.
    ///
    /// # Errors
    /// If they are more than may be kept.
    pub fn check_settings(&self, settings: &Map<String, Value>) -> Result<(), UserFilesError> {
        let bytes = serde_json::to_vec(settings).map_or(usize::MAX, |bytes| bytes.len());
        if bytes > self.settings_bytes {
            let limit = self.settings_bytes as u64;
            return Err(UserFilesError::TooLarge { limit });
        }
        Ok(())
    }

    /// Checks a file beside the others as they are.
    ///
    /// # Errors
    /// If it is larger than one may be, or one more than may be kept.
    pub fn check_file(
        &self,
        bytes: usize,
        other_files: usize,
        other_bytes: u64,
    ) -> Result<(), UserFilesError> {
        if bytes > self.file_bytes {
            let limit = self.file_bytes as u64;
            return Err(UserFilesError::TooLarge { limit });
        }
        if other_files >= self.files || other_bytes + bytes as u64 > self.total_bytes {
            return Err(UserFilesError::Full);
        }
        Ok(())
    }
}

#[async_trait]
impl UserFiles for MemoryUserFiles {
    async fn settings(&self, account: &AccountId) -> Result<Map<String, Value>, UserFilesError> {
        let accounts = self.accounts();
        let kept = accounts.get(account);
        Ok(kept.map(|kept| kept.settings.clone()).unwrap_or_default())
    }

    async fn set(
        &self,
        account: &AccountId,
        changes: Map<String, Value>,
    ) -> Result<(), UserFilesError> {
        let mut accounts = self.accounts();
        let kept = accounts.entry(account.clone()).or_default();
        let mut settings = kept.settings.clone();
        settings.extend(changes);
        self.bounds.check_settings(&settings)?;
        kept.settings = settings;
        Ok(())
    }

    async fn list(
        &self,
        account: &AccountId,
        folder: Option<&FilePath>,
    ) -> Result<Vec<UserFile>, UserFilesError> {
        let accounts = self.accounts();
        let files = accounts
            .get(account)
            .into_iter()
            .flat_map(|kept| &kept.files);
        let below = |path: &FilePath| {
            folder.is_none_or(|folder| {
                let rest = path.as_str().strip_prefix(folder.as_str());
                rest.is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let files = files.filter(|(path, _)| below(path));
        Ok(files.map(|(_, (file, _))| file.clone()).collect())
    }

    async fn read(
        &self,
        account: &AccountId,
        path: &FilePath,
    ) -> Result<Option<Bytes>, UserFilesError> {
        let accounts = self.accounts();
        let file = accounts.get(account).and_then(|kept| kept.files.get(path));
        Ok(file.map(|(_, bytes)| bytes.clone()))
    }

    async fn write(
        &self,
        account: &AccountId,
        path: &FilePath,
        content: FileContent,
        now: Timestamp,
    ) -> Result<FileWrite, UserFilesError> {
        let mut accounts = self.accounts();
        let kept = accounts.entry(account.clone()).or_default();
        let before = kept.files.get(path).map(|(file, _)| file.clone());
        let bytes = match content {
            FileContent::New(_) if before.is_some() => return Ok(FileWrite::Exists),
            FileContent::New(bytes) | FileContent::Set(bytes) => bytes,
            FileContent::Edited(edit) => edit(kept.files.get(path).map(|(_, bytes)| bytes.clone())),
        };
        let others = kept.files.values().filter(|(file, _)| file.path != *path);
        let (count, total) = others.fold((0, 0), |(count, total), (file, _)| {
            (count + 1, total + file.size_bytes)
        });
        self.bounds.check_file(bytes.len(), count, total)?;
        let file = UserFile {
            path: path.clone(),
            size_bytes: bytes.len() as u64,
            created_at: before.map_or(now, |before| before.created_at),
            modified_at: now,
        };
        kept.files.insert(path.clone(), (file.clone(), bytes));
        Ok(FileWrite::Saved(file))
    }

    async fn remove(&self, account: &AccountId, path: &FilePath) -> Result<bool, UserFilesError> {
        let mut accounts = self.accounts();
        let kept = accounts.get_mut(account);
        Ok(kept.is_some_and(|kept| kept.files.remove(path).is_some()))
    }

    async fn rename(
        &self,
        account: &AccountId,
        from: &FilePath,
        to: &FilePath,
        replace: bool,
    ) -> Result<Renamed, UserFilesError> {
        let mut accounts = self.accounts();
        let kept = accounts.entry(account.clone()).or_default();
        if !kept.files.contains_key(from) {
            return Ok(Renamed::Absent);
        }
        if from != to && kept.files.contains_key(to) && !replace {
            return Ok(Renamed::Exists);
        }
        let Some((file, bytes)) = kept.files.remove(from) else {
            return Ok(Renamed::Absent);
        };
        let file = UserFile {
            path: to.clone(),
            ..file
        };
        kept.files.insert(to.clone(), (file.clone(), bytes));
        Ok(Renamed::Renamed(file))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contract;

    #[tokio::test]
    async fn files_in_memory_keep_the_contract() {
        contract::user_files(|bounds| Arc::new(MemoryUserFiles::new(bounds))).await;
    }

    #[tokio::test]
    async fn memory_keeps_the_contract_of_replicas() {
        contract::replicas(|bounds| {
            let files = Arc::new(MemoryUserFiles::new(bounds));
            [files.clone(), files]
        })
        .await;
    }
}
