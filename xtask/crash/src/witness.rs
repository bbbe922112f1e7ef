//! Faults that a campaign brings about itself, to show that its oracle reports them.

use std::io;
use std::path::Path;

use super::calls::Calls;
use super::database::Sqlite;
use super::tally::Kind;

/// A fault that no kill may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Fault {
    /// An entry of the ledger is lost.
    Bill,
    /// A call that was answered is dispatched once more.
    Dispatch,
}

impl Fault {
    /// What the oracle has to report.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Bill => Kind::Money,
            Self::Dispatch => Kind::Duplicated,
        }
    }

    /// Brings it about while no server runs; whether there was something to do it to.
    pub(super) fn inject(
        self,
        calls: Option<&Calls>,
        sqlite: Option<&Sqlite>,
        data_dir: &Path,
    ) -> io::Result<bool> {
        match (self, calls) {
            (Self::Bill, _) => match sqlite {
                Some(sqlite) => sqlite.lose_bill(data_dir),
                None => Err(io::Error::other(
                    "a bill is lost with sqlite3, which is not installed",
                )),
            },
            (Self::Dispatch, None) => Ok(false),
            (Self::Dispatch, Some(calls)) => {
                let answered = |name: &&String| {
                    let call = &calls.calls[*name];
                    call.end.as_ref().is_some_and(|end| end.status == 200)
                };
                let Some(name) = calls.calls.keys().find(answered) else {
                    return Ok(false);
                };
                let call = &calls.calls[name];
                let generation = "01900000-0000-7000-8000-000000000000";
                calls
                    .book
                    .submitted(&call.order, generation, call.is_polled);
                Ok(true)
            }
        }
    }
}
