//! Opening calls with their directory: the files, then what the process before left, then the ports.

use std::io;
use std::sync::Arc;

use rusqlite::Connection;

use super::{
    CallLog, Keyed, Owned, Replays, SqliteCalls, UnderWay, Waiting, key_rows, queue_rows, rows,
};
use crate::accounts::SharedAccounts;
use crate::clock::Clock;
use crate::database::{Database, Participant};
use crate::directory::Directory;
use crate::health::Health;
use crate::reserve::Reserve;
use crate::webhooks::Hooks;

/// What the process before left running and waiting.
pub(crate) type Recovered = (UnderWay, Waiting);

/// The files of calls, open before the rows are.
#[derive(Debug)]
pub(crate) struct Opening {
    log: CallLog,
    hooks: Hooks,
    replays: Replays,
    keyed: Keyed,
    directory: Arc<Directory>,
}

impl Opening {
    /// Opens the files, making those of the log where they are missing.
    pub(crate) fn files(
        directory: &Arc<Directory>,
        (health, reserve, hooks): (&Health, &Reserve, &Hooks),
        clock: Clock,
    ) -> io::Result<Self> {
        let replays = Replays::new(Arc::clone(directory), health.clone(), clock);
        let keyed = Keyed::default();
        Ok(Self {
            log: CallLog::open(
                directory.path(),
                (health.clone(), reserve.clone()),
                hooks.clone(),
                (replays.clone(), keyed.clone()),
            )?,
            hooks: hooks.clone(),
            replays,
            keyed,
            directory: Arc::clone(directory),
        })
    }

    /// What writes with each transaction of the rows: the log, then the results that its rows name.
    pub(crate) fn participants(&self) -> [Arc<dyn Participant>; 2] {
        [Arc::new(self.log.clone()), Arc::new(self.replays.clone())]
    }

    /// Brings what the process before left into the rows: before anything reads them, balances among the rest.
    pub(crate) fn recover(&self, rows: &Connection) -> rusqlite::Result<Recovered> {
        self.log.recover(rows, self.directory.path())?;
        recover(rows, &self.hooks, &self.keyed)
    }

    /// The ports, once the rows are open.
    pub(crate) fn ports(
        self,
        database: Database,
        accounts: SharedAccounts,
        under_way: Recovered,
    ) -> SqliteCalls {
        SqliteCalls::new(
            database,
            self.replays,
            (accounts, self.hooks),
            under_way,
            self.log,
        )
    }
}

/// Makes the claims void that the process before did not dispatch, and answers what it left running and waiting.
fn recover(connection: &Connection, hooks: &Hooks, keyed: &Keyed) -> rusqlite::Result<Recovered> {
    key_rows::void_undispatched(connection)?;
    keyed.recover(key_rows::unfinished(connection)?);
    let under_way = UnderWay {
        keyed: keyed.clone(),
        owned: Owned::orphans(rows::unfinished_ids(connection)?),
    };
    Ok((
        under_way,
        Waiting::of(queue_rows::recover(connection, hooks)?),
    ))
}
