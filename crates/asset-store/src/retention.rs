//! How long a record is kept.

use jiff::{SignedDuration, Timestamp};

/// Retention of uploads where a request says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long an upload is kept.
    pub uploads: SignedDuration,
    /// How long an unreferenced blob is left alone before it is swept: longer than the longest upload may take, because
    /// between the blob and its record nothing refers to it.
    pub grace: SignedDuration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            uploads: SignedDuration::from_hours(24),
            grace: SignedDuration::from_hours(24),
        }
    }
}

impl Retention {
    /// The deadline of an upload made `now`, with the caller's `expires_in` where there was one.
    #[must_use]
    pub fn deadline(&self, now: Timestamp, expires_in: Option<SignedDuration>) -> Timestamp {
        now.saturating_add(expires_in.unwrap_or(self.uploads))
            .unwrap_or(Timestamp::MAX)
    }

    /// The later of two deadlines; referring to content again extends its time and never shortens it.
    #[must_use]
    pub fn extend(held: Option<Timestamp>, asked: Option<Timestamp>) -> Option<Timestamp> {
        Some(held?.max(asked?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_extended_and_never_shortened() {
        let early = Timestamp::from_second(10).expect("in range");
        let late = Timestamp::from_second(20).expect("in range");
        assert_eq!(Retention::extend(Some(early), Some(late)), Some(late));
        assert_eq!(Retention::extend(Some(late), Some(early)), Some(late));
        assert_eq!(Retention::extend(None, Some(early)), None);
        assert_eq!(Retention::extend(Some(late), None), None);
    }
}
