//! What an account may hold at once.

/// The limits of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Jobs that may run at the same time.
    pub concurrent_jobs: u32,
    /// Jobs that may wait in the queue.
    pub queued_jobs: u32,
    /// Event streams that may be open.
    pub streams: u32,
    /// Largest upload.
    pub upload_bytes: u64,
}
