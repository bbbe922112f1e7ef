//! What an installation remembers of its move, so that it is served in one place at a time.

use std::str::FromStr;

use uuid::Uuid;

/// Which way a move goes, as one of its two places sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It comes here.
    In,
    /// It leaves.
    Out,
}

/// That an installation comes or leaves, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The same in both places.
    pub id: Uuid,
    /// Which way it goes.
    pub direction: Direction,
    /// Whether everything has moved.
    pub is_finished: bool,
    /// The other place, without any secret.
    pub other: String,
}

/// Why an installation is not to be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    /// Not all of it has come.
    #[error(
        "{other} is being moved to {here}, and that is not finished; run `migrate` again with the same --from and --to"
    )]
    Arriving {
        /// The place that was opened.
        here: String,
        /// Where it comes from.
        other: String,
    },
    /// It is on its way to another place.
    #[error(
        "{here} is being moved to {other}; run `migrate` again to finish that, or, to keep it here, delete what was copied there and {undo}"
    )]
    Leaving {
        /// The place that was opened.
        here: String,
        /// Where it goes.
        other: String,
        /// What makes it usable again.
        undo: &'static str,
    },
    /// It is in another place now.
    #[error(
        "{here} was moved to {other}; start the server over that, and not over both, since each would run the same jobs and calls. To go back to what was here before the move, {undo}"
    )]
    Left {
        /// The place that was opened.
        here: String,
        /// Where it is.
        other: String,
        /// What makes it usable again.
        undo: &'static str,
    },
}

/// A text that is no note.
#[derive(Debug, thiserror::Error)]
#[error("the note of a move cannot be read")]
pub struct NoNote;

impl Note {
    /// The same note at the end of the move.
    #[must_use]
    pub fn finished(self) -> Self {
        Self {
            is_finished: true,
            ..self
        }
    }

    /// Whether the installation with this note may be served from `here`; `undo` says what an operator does to use it again.
    ///
    /// # Errors
    /// If it may not, with a sentence that says what to do.
    pub fn allows_opening(&self, here: &str, undo: &'static str) -> Result<(), Unsettled> {
        let (here, other) = (here.to_owned(), self.other.clone());
        match (self.direction, self.is_finished) {
            (Direction::In, true) => Ok(()),
            (Direction::In, false) => Err(Unsettled::Arriving { here, other }),
            (Direction::Out, false) => Err(Unsettled::Leaving { here, other, undo }),
            (Direction::Out, true) => Err(Unsettled::Left { here, other, undo }),
        }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let direction = match self.direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let state = match self.is_finished {
            true => "finished",
            false => "unfinished",
        };
        write!(f, "{direction} {state} {} {}", self.id, self.other)
    }
}

impl FromStr for Note {
    type Err = NoNote;

    fn from_str(text: &str) -> Result<Self, NoNote> {
        let mut words = text.trim_end().splitn(4, ' ');
        let mut next = || words.next().ok_or(NoNote);
        let direction = match next()? {
            "in" => Direction::In,
            "out" => Direction::Out,
            _ => return Err(NoNote),
        };
        let is_finished = match next()? {
            "finished" => true,
            "unfinished" => false,
            _ => return Err(NoNote),
        };
        Ok(Self {
            direction,
            is_finished,
            id: next()?.parse().map_err(|_| NoNote)?,
            other: next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_back_and_says_who_may_serve() {
        for (direction, is_finished, serves) in [
            (Direction::In, true, true),
            (Direction::In, false, false),
            (Direction::Out, true, false),
            (Direction::Out, false, false),
        ] {
            let note = Note {
                id: Uuid::from_u128(7),
                direction,
                is_finished,
                other: "/a place/with words".to_owned(),
            };
            assert_eq!(note.to_string().parse::<Note>().ok(), Some(note.clone()));
            let opened = note.allows_opening("here", "do this");
            assert_eq!(opened.is_ok(), serves, "{opened:?}");
        }
        for damaged in ["", "in finished", "up finished 7 here", "in done x y"] {
            damaged.parse::<Note>().expect_err("it is no note");
        }
    }
}
