//! What a pool and its workers are made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::address::WorkerUrl;
use crate::headers::WorkerHeaders;
use crate::slots::WorkerSlots;

/// What a pool is made of.
#[derive(Clone)]
pub struct PoolConfig {
    /// Which previews workers make, as ComfyUI calls it: `auto`, `latent2rgb`, `taesd` or `none`.
    pub preview_method: String,
    /// Which previews a submission asked for, in what the API that took it remembers; nothing leaves them to the pool.
    pub asked_previews: fn(&Bytes) -> Option<&'static str>,
    /// The folder in which definitions are kept, so that a graph can be judged before its worker is there; none keeps none.
    pub folder: Option<PathBuf>,
    /// Names our sockets at workers: with the same name at every start, prompts that ran on are heard again.
    pub socket_name: Option<String>,
    /// Authorities to trust beside the usual ones: the content of a PEM file.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// How many jobs a worker may have at once that names no number of its own.
    pub slots: WorkerSlots,
    /// Told when a job may run that could not before.
    pub bell: Arc<dyn Fn() + Send + Sync>,
}

/// A worker to be added.
#[derive(Clone)]
pub struct WorkerConfig {
    /// What it is called; two workers of a pool have different names.
    pub name: String,
    /// Where it is.
    pub url: WorkerUrl,
    /// Headers that every request to it has, such as a credential for a proxy in front of it.
    pub headers: WorkerHeaders,
    /// Authorities to trust for it beside those of the pool: the content of a PEM file.
    pub ca_pem: Option<Vec<u8>>,
    /// How many jobs it may have at once; as the pool says if nothing is said.
    pub slots: Option<WorkerSlots>,
    /// Whether what it has is kept in the pool's folder.
    pub keeps_definitions: bool,
}

/// The authorities of a pool and of a worker together.
pub(super) fn authorities(pool: &Option<Vec<u8>>, worker: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match (pool, worker) {
        (None, worker) => worker,
        (pool, None) => pool.clone(),
        (Some(pool), Some(worker)) => Some([pool, &b"\n"[..], &worker].concat()),
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConfig")
            .field("preview_method", &self.preview_method)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WorkerConfig {
    /// Without headers, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerConfig")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
