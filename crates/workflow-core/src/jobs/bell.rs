//! The ring that a new job is due, also if whoever submits it stops waiting.
//!
//! A client may leave while its row is on its way to the disk, and nothing stops the row then. A worker that heard nothing would
//! look for it a second later.

use crate::Hub;

/// Rings when it is dropped: a job may be there by then.
pub(super) struct Bell<'a>(Option<&'a Hub>);

impl<'a> Bell<'a> {
    pub(super) fn of(hub: &'a Hub) -> Self {
        Self(Some(hub))
    }

    /// There is no new job.
    pub(super) fn put_away(&mut self) {
        self.0 = None;
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        if let Some(hub) = self.0 {
            hub.ring();
        }
    }
}
