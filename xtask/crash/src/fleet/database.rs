//! The database of a campaign: a server that takes writes, and a standby that may take its place.
//!
//! Processes name both servers, as an operator would, so they find the one that takes writes. Each server hears of the other one's
//! changes through a proxy, so that the network between the two can be cut.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use store_cloud::testing::PostgresServer;
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::proxy::{Network, Proxy, Upstream};

/// Whether commits wait for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Standby {
    /// They do: nothing that was acknowledged may be lost with the primary.
    Synchronous,
    /// They do not: what is lost is counted.
    Asynchronous,
}

/// What a promotion took, and what it cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promotion {
    /// From the end of the primary until the standby took writes.
    pub(super) took: Duration,
    /// How much of the primary's log the standby had not got when the primary was ended.
    pub(super) behind: u64,
}

/// The two servers.
#[derive(Debug)]
pub(super) struct Database {
    standby: Standby,
    servers: [Arc<PostgresServer>; 2],
    /// How the other one reaches each server.
    links: [Proxy; 2],
    primary: AtomicUsize,
    promotions: Mutex<Vec<Promotion>>,
    trouble: Arc<tokio::sync::Mutex<()>>,
}

/// The right to make trouble for the database: one trouble at a time.
pub(super) type Turn = OwnedMutexGuard<()>;

/// A server that was stopped where it is.
pub(super) struct Silent(Arc<PostgresServer>);

impl Silent {
    /// Has it go on.
    pub(super) async fn wake(self) {
        let _ = spawn_blocking(move || self.0.wake()).await;
    }
}

/// What a crash of PostgreSQL takes does not depend on the disk, which stays. A standby whose network was cut comes back soon, and
/// finds the log that it needs.
const SETTINGS: [&str; 4] = [
    "fsync=off",
    "full_page_writes=off",
    "wal_keep_size=1GB",
    "wal_retrieve_retry_interval=100ms",
];

impl Database {
    /// Starts both.
    pub(super) async fn start(standby: Standby) -> io::Result<Self> {
        let first = spawn_blocking(|| PostgresServer::start(&SETTINGS)).await?;
        let to_first = Proxy::start(Upstream::Unix(first.socket())).await?;
        let address = to_first.address;
        let second = spawn_blocking(move || PostgresServer::standby(address, &SETTINGS)).await?;
        let to_second = Proxy::start(Upstream::Unix(second.socket())).await?;
        first
            .wait_for_standby(standby == Standby::Synchronous)
            .await;
        Ok(Self {
            standby,
            servers: [Arc::new(first), Arc::new(second)],
            links: [to_first, to_second],
            primary: AtomicUsize::new(0),
            promotions: Mutex::default(),
            trouble: Arc::default(),
        })
    }

    /// Where both listen.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        let servers = self.servers.iter();
        servers.map(|server| server.socket()).collect()
    }

    /// The one that takes writes.
    pub(super) fn primary(&self) -> Arc<PostgresServer> {
        Arc::clone(&self.servers[self.primary.load(Ordering::Relaxed)])
    }

    /// The promotions so far.
    pub(super) fn promotions(&self) -> Vec<Promotion> {
        let promotions = self.promotions.lock();
        promotions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The right to make trouble, unless somebody has it.
    pub(super) fn take(&self) -> Option<Turn> {
        Arc::clone(&self.trouble).try_lock_owned().ok()
    }

    /// Stops the primary with this signal and starts it again.
    pub(super) async fn restart(&self, signal: &'static str, _: &Turn) {
        let primary = self.primary();
        // As below, about a panic.
        let _ = spawn_blocking(move || primary.restart(signal)).await;
    }

    /// Stops the primary where it is.
    pub(super) async fn silence(&self, _: &Turn) -> Silent {
        let primary = self.primary();
        let silent = Arc::clone(&primary);
        // As above, about a panic.
        let _ = spawn_blocking(move || silent.silence()).await;
        Silent(primary)
    }

    /// Changes the network over which the standby hears of changes.
    pub(super) fn set_link(&self, network: Network, _: &Turn) {
        self.links[self.primary.load(Ordering::Relaxed)].set(network);
    }

    /// Ends the primary as a crash does and has its standby take its place, then makes what is left of it a standby of the new one.
    /// If nothing waits for the standby, it heard nothing for `deaf` before.
    pub(super) async fn promote(&self, deaf: Duration, turn: &Turn) {
        let (old, new) = match self.primary.load(Ordering::Relaxed) {
            0 => (0, 1),
            _ => (1, 0),
        };
        let [primary, standby] = [old, new].map(|place| Arc::clone(&self.servers[place]));
        match self.standby {
            // A server whose connections were ended shows what no standby may have yet, until the standby has it.
            Standby::Synchronous => primary.wait_for_standby(true).await,
            Standby::Asynchronous => {
                self.set_link(Network::Refused, turn);
                sleep(deaf).await;
            }
        }
        let flushed = primary.value("SELECT pg_current_wal_flush_lsn()").await;
        let began = Instant::now();
        // These wait for processes. If one panics, the campaign cannot go on, and every request after it says so.
        let stopped = spawn_blocking(move || {
            primary.stop("QUIT");
            primary
        });
        let Ok(primary) = stopped.await else { return };
        self.set_link(Network::Whole, turn);
        let behind = format!("SELECT greatest('{flushed}' - pg_last_wal_receive_lsn(), 0)");
        let behind = standby.value(&behind).await;
        let to_promote = Arc::clone(&standby);
        if spawn_blocking(move || to_promote.promote()).await.is_err() {
            return;
        }
        self.primary.store(new, Ordering::Relaxed);
        let promotion = Promotion {
            took: began.elapsed(),
            behind: behind.parse().unwrap_or(0),
        };
        let promotions = self.promotions.lock();
        promotions
            .unwrap_or_else(PoisonError::into_inner)
            .push(promotion);
        let link = self.links[new].address;
        if spawn_blocking(move || primary.follow(link)).await.is_ok() {
            let is_synchronous = self.standby == Standby::Synchronous;
            standby.wait_for_standby(is_synchronous).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use store_cloud::testing::has_postgres;

    use super::*;

    #[tokio::test]
    async fn a_promoted_standby_has_what_was_committed_and_gets_a_standby() {
        if !has_postgres() {
            return;
        }
        let database = Database::start(Standby::Synchronous).await.expect("a port");
        let turn = database.take().expect("nobody else makes trouble");
        assert!(database.take().is_none(), "one trouble at a time");
        database
            .primary()
            .execute("postgres", "CREATE TABLE t AS SELECT 0 AS n")
            .await;
        for n in 1..=2 {
            let insert = format!("INSERT INTO t VALUES ({n})");
            database.primary().execute("postgres", &insert).await;
            database.promote(Duration::ZERO, &turn).await;
            let sum = database.primary().value("SELECT max(n) FROM t").await;
            assert_eq!(sum, n.to_string());
        }
        let promotions = database.promotions();
        assert_eq!(promotions.len(), 2);
        assert!(
            promotions.iter().all(|one| one.behind == 0),
            "{promotions:?}"
        );
        // A commit waits while the standby hears nothing.
        database.set_link(Network::Refused, &turn);
        let primary = database.primary();
        let insert = tokio::spawn(async move {
            primary
                .execute("postgres", "INSERT INTO t VALUES (3)")
                .await;
        });
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while database.primary().value(waits).await == "0" {
            tokio::task::yield_now().await;
        }
        assert!(!insert.is_finished());
        database.set_link(Network::Whole, &turn);
        insert.await.expect("it is committed");
    }
}
