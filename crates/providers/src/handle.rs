//! What names a task at a partner across restarts.
//!
//! JSON with a version. It holds what the partner said and nothing of ours that is secret; what it says about addresses
//! is checked again before anything is asked there.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use router_core::{Handle, MAX_HANDLE_BYTES};
use serde::{Deserialize, Serialize};

use crate::keys::FIRST_KEY;

/// The version of this form; a later one must be able to read it.
const VERSION: u8 = 1;

/// A task, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskHandle {
    version: u8,
    /// The partner's name of it.
    pub(crate) task: String,
    /// What else was kept of the answer to the submission, by name.
    pub(crate) kept: BTreeMap<String, String>,
    /// The generation, which is the idempotency key towards the partner.
    pub(crate) generation: String,
    /// What the partner said at once that it takes, in cents.
    pub(crate) settled_cents: Option<u64>,
    accepted_at_ms: i64,
    /// The number of the partner's key that the task was submitted with, whose account it belongs to.
    #[serde(default = "first_key", skip_serializing_if = "is_first_key")]
    pub(crate) key: u8,
}

fn first_key() -> u8 {
    FIRST_KEY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_first_key(key: &u8) -> bool {
    *key == FIRST_KEY
}

impl TaskHandle {
    /// A task that was accepted at `now`.
    pub(crate) fn new(
        task: String,
        kept: BTreeMap<String, String>,
        generation: String,
        settled_cents: Option<u64>,
        key: u8,
        now: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            task,
            kept,
            generation,
            settled_cents,
            accepted_at_ms: now.as_millisecond(),
            key,
        }
    }

    /// As it is kept; `None` when it is too long to be.
    pub(crate) fn to_handle(&self) -> Option<Handle> {
        let bytes = serde_json::to_vec(self).ok()?;
        (bytes.len() <= MAX_HANDLE_BYTES).then(|| Handle(bytes.into()))
    }

    /// Reads one; `None` when it is not of ours.
    pub(crate) fn from_handle(handle: &Handle) -> Option<Self> {
        let read: Self = serde_json::from_slice(&handle.0).ok()?;
        (read.version == VERSION).then_some(read)
    }

    /// How long ago it was accepted. A clock that was set back makes it young again, never negative.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Duration {
        let passed_ms = now.as_millisecond().saturating_sub(self.accepted_at_ms);
        Duration::from_millis(u64::try_from(passed_ms).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_being_kept() {
        let now = Timestamp::from_second(1_700_000_000).expect("a time");
        let kept = BTreeMap::from([("url".to_owned(), "https://a.b/\"c\"".to_owned())]);
        let task = TaskHandle::new("t".to_owned(), kept, "g".to_owned(), Some(4), 2, now);
        let handle = task.to_handle().expect("it is short");
        assert_eq!(TaskHandle::from_handle(&handle), Some(task.clone()));
        let later = Timestamp::from_second(1_700_000_007).expect("a time");
        assert_eq!(task.elapsed(later), Duration::from_secs(7));
        let before = Timestamp::from_second(1_600_000_000).expect("a time");
        assert_eq!(task.elapsed(before), Duration::ZERO);
    }

    #[test]
    fn a_handle_without_a_key_is_of_the_first() {
        let task = |key| {
            let (kept, now) = (BTreeMap::new(), Timestamp::UNIX_EPOCH);
            TaskHandle::new("t".to_owned(), kept, "g".to_owned(), None, key, now)
        };
        let handle = task(1).to_handle().expect("it is short");
        let text = String::from_utf8(handle.0.to_vec()).expect("it is JSON");
        assert!(!text.contains("key"), "{text}");
        assert_eq!(TaskHandle::from_handle(&handle), Some(task(1)));
        let handle = task(2).to_handle().expect("it is short");
        assert_eq!(TaskHandle::from_handle(&handle), Some(task(2)));
    }

    #[test]
    fn what_is_no_handle_is_none() {
        for bytes in [&b""[..], b"{}", b"null", b"\xff"] {
            assert_eq!(
                TaskHandle::from_handle(&Handle(bytes.to_vec().into())),
                None
            );
        }
        let long = "x".repeat(MAX_HANDLE_BYTES);
        let task = TaskHandle::new(
            long,
            BTreeMap::new(),
            String::new(),
            None,
            1,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(task.to_handle(), None);
    }
}
