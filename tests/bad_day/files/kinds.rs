//! Every kind of file of a data directory, and what each damage of it comes to.

use Content::{Kept, Lost};
use Damage::{Cut, Emptied, Flipped, Old, ReadOnly, Removed};
use Kind::{
    AdminSocket, Ballast, CallLog, Installation, LargeBlob, LargeResult, Leftover, Lock, Rows,
    RowsIndex, RowsLog, SmallBlob, SmallResults,
};
use Then::{Refused, Serves};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Rows,
    RowsLog,
    RowsIndex,
    Installation,
    Lock,
    Ballast,
    AdminSocket,
    CallLog,
    /// An upload.
    LargeBlob,
    /// The output of a job, whose bytes are in the journal of blobs, too.
    SmallBlob,
    SmallResults,
    LargeResult,
    /// What a killed upload left.
    Leftover,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Damage {
    Emptied,
    Removed,
    Cut,
    Flipped,
    ReadOnly,
    /// Swapped with the one of an earlier day.
    Old,
}

/// What a start comes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// It fails with exit code 1 and this on standard error.
    Refused(&'static str),
    /// It serves, and tells this in its log; nothing if it is empty.
    Serves(&'static str),
}

/// Whether what lies in the damaged file reads as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Kept,
    Lost,
}

const CLOSED: &str = "cannot be read and written by this user; run `chmod";
const MISSING: &str = "main.db is missing or empty; restore main.db from a backup";
const LOG_DAMAGED: &str = "main.db-wal in";
const CALLS_DAMAGED: &str = "a file calls-0.log or calls-1.log is damaged";
const BLOB_DAMAGED: &str = "a blob is damaged and read no more";
const RESULT_DAMAGED: &str = "a result that a key answers again is damaged or gone";

/// A damage, and what it comes to.
pub(super) type Row = (Damage, Then, Content);

/// What each damage of each kind comes to.
pub(super) const KINDS: &[(Kind, &[Row])] = &[
    (
        Rows,
        &[
            (Emptied, Refused(MISSING), Lost),
            (Removed, Refused(MISSING), Lost),
            (
                Cut,
                Refused("the database in the data directory cannot be opened"),
                Lost,
            ),
            (
                Flipped,
                Refused("the database in the data directory cannot be opened"),
                Lost,
            ),
            (ReadOnly, Refused(CLOSED), Kept),
            (
                Old,
                Refused("belongs to another main.db, as after restoring only one of the two"),
                Lost,
            ),
        ],
    ),
    (
        RowsLog,
        &[
            (Emptied, Refused(LOG_DAMAGED), Lost),
            (Removed, Refused(LOG_DAMAGED), Lost),
            (Cut, Refused(LOG_DAMAGED), Lost),
            (Flipped, Refused(LOG_DAMAGED), Lost),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Refused(LOG_DAMAGED), Lost),
        ],
    ),
    (
        // SQLite makes it anew from the log.
        RowsIndex,
        &[
            (Emptied, Serves(""), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves(""), Kept),
            (Flipped, Serves(""), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            // It tells of another log.
            (Old, Refused(LOG_DAMAGED), Lost),
        ],
    ),
    (
        Installation,
        &[
            (Emptied, Serves("the file `installation` is damaged"), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves("the file `installation` is damaged"), Kept),
            (Flipped, Serves("the file `installation` is damaged"), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            // It never changes.
            (Old, Serves(""), Kept),
        ],
    ),
    (
        Lock,
        &[
            (Emptied, Serves(""), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves(""), Kept),
            (Flipped, Serves(""), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Serves(""), Kept),
        ],
    ),
    (
        Ballast,
        &[
            (Emptied, Serves(""), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves(""), Kept),
            (Flipped, Serves(""), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Serves(""), Kept),
        ],
    ),
    // A socket has no content.
    (AdminSocket, &[(Removed, Serves(""), Kept)]),
    (
        CallLog,
        &[
            (Emptied, Serves(CALLS_DAMAGED), Kept),
            (Removed, Serves(CALLS_DAMAGED), Kept),
            (Cut, Serves(CALLS_DAMAGED), Kept),
            (Flipped, Serves(CALLS_DAMAGED), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Serves(CALLS_DAMAGED), Kept),
        ],
    ),
    (
        LargeBlob,
        &[
            (Emptied, Serves(BLOB_DAMAGED), Lost),
            (Removed, Serves("the file of a blob is missing"), Lost),
            (Cut, Serves(BLOB_DAMAGED), Lost),
            (Flipped, Serves(BLOB_DAMAGED), Lost),
            // It is never written again.
            (ReadOnly, Serves(""), Kept),
            (Old, Serves(BLOB_DAMAGED), Lost),
        ],
    ),
    (
        // The journal brings it back.
        SmallBlob,
        &[
            (Emptied, Serves(""), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves(""), Kept),
            (Flipped, Serves(""), Kept),
            (ReadOnly, Serves(""), Kept),
            (Old, Serves(""), Kept),
        ],
    ),
    (
        SmallResults,
        &[
            (Emptied, Serves(RESULT_DAMAGED), Lost),
            (Removed, Serves(RESULT_DAMAGED), Lost),
            (Cut, Serves(RESULT_DAMAGED), Lost),
            (Flipped, Serves(RESULT_DAMAGED), Lost),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Serves(RESULT_DAMAGED), Lost),
        ],
    ),
    (
        LargeResult,
        &[
            (Emptied, Serves(RESULT_DAMAGED), Lost),
            (Removed, Serves(RESULT_DAMAGED), Lost),
            (Cut, Serves(RESULT_DAMAGED), Lost),
            (Flipped, Serves(RESULT_DAMAGED), Lost),
            (ReadOnly, Serves(""), Kept),
            (Old, Serves(RESULT_DAMAGED), Lost),
        ],
    ),
    (
        Leftover,
        &[
            (Emptied, Serves(""), Kept),
            (Removed, Serves(""), Kept),
            (Cut, Serves(""), Kept),
            (Flipped, Serves(""), Kept),
            (ReadOnly, Refused(CLOSED), Kept),
            (Old, Serves(""), Kept),
        ],
    ),
];
