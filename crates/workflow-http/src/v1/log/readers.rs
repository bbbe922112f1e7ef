//! Which open sockets hear of their account's log: the page asks by the id of its client, and not over the socket itself.
//!
//! What is kept belongs to open sockets alone and goes with them, so it is bounded by what bounds those.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use accounts::AccountId;

/// The open sockets by account. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LogReaders {
    /// Whether another replica may answer what a client asks of its sockets here.
    has_others: bool,
    open: Arc<Mutex<HashMap<AccountId, Vec<Seat>>>>,
}

#[derive(Debug)]
struct Seat {
    client: String,
    hears: Arc<Hears>,
}

/// Why a socket hears of the log.
#[derive(Debug, Default)]
struct Hears {
    /// Its client asked here for it.
    asked: AtomicBool,
    /// Its client may have asked another replica.
    always: AtomicBool,
}

/// One open socket; forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct LogReader {
    readers: LogReaders,
    account: AccountId,
    hears: Arc<Hears>,
}

impl LogReaders {
    /// Those of a process, beside which others may serve the installation.
    #[must_use]
    pub fn new(has_others: bool) -> Self {
        Self {
            has_others,
            ..Self::default()
        }
    }

    /// Takes down a socket. It does not hear of the log yet.
    pub(super) fn open(&self, account: &AccountId, client: &str) -> LogReader {
        let hears = Arc::<Hears>::default();
        let seat = Seat {
            client: client.to_owned(),
            hears: Arc::clone(&hears),
        };
        self.lock().entry(account.clone()).or_default().push(seat);
        LogReader {
            readers: self.clone(),
            account: account.clone(),
            hears,
        }
    }

    /// Lets the account's sockets of this client hear of the log, or no longer.
    pub(super) fn set(&self, account: &AccountId, client: &str, hears: bool) {
        let open = self.lock();
        let seats = open.get(account).into_iter().flatten();
        for seat in seats.filter(|seat| seat.client == client) {
            seat.hears.asked.store(hears, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Vec<Seat>>> {
        // Every change is one seat: a panic elsewhere cannot have left the map half-changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogReader {
    /// Notes that a page is at the other end, which knows messages of the log and passes them over while its panel is closed. Where
    /// what it asks for may reach another replica than its socket, it always hears.
    pub(super) fn is_of_a_page(&self) {
        let always = self.readers.has_others;
        self.hears.always.store(always, Ordering::Relaxed);
    }

    /// Whether the socket hears of the log now.
    pub(super) fn hears(&self) -> bool {
        let Hears { asked, always } = &*self.hears;
        asked.load(Ordering::Relaxed) || always.load(Ordering::Relaxed)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut open = self.readers.lock();
        let Some(seats) = open.get_mut(&self.account) else {
            return;
        };
        seats.retain(|seat| !Arc::ptr_eq(&seat.hears, &self.hears));
        if seats.is_empty() {
            open.remove(&self.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_hears_if_its_account_and_its_client_asked() {
        let readers = LogReaders::default();
        let (a, b) = ("a".parse().expect("an id"), "b".parse().expect("an id"));
        let asked = readers.open(&a, "one");
        let same = readers.open(&a, "one");
        let others = [readers.open(&a, "two"), readers.open(&b, "one")];
        readers.set(&a, "one", true);
        assert!(asked.hears() && same.hears());
        assert!(others.iter().all(|other| !other.hears()));
        readers.set(&a, "one", false);
        assert!(!asked.hears() && !same.hears());
        drop((asked, same, others));
        assert!(readers.lock().is_empty(), "nothing stays behind");
        readers.set(&a, "one", true);
        assert!(readers.lock().is_empty(), "nor is anything kept of others");
        let later = readers.open(&a, "one");
        assert!(!later.hears(), "a new socket asks for itself");
    }

    #[test]
    fn a_page_hears_without_asking_where_another_replica_may_be_asked() {
        let a = "a".parse().expect("an id");
        for has_others in [false, true] {
            let readers = LogReaders::new(has_others);
            let (page, script) = (readers.open(&a, "page"), readers.open(&a, "script"));
            page.is_of_a_page();
            assert_eq!((page.hears(), script.hears()), (has_others, false));
            // It closes its panel here, and may open it again elsewhere.
            readers.set(&a, "page", true);
            readers.set(&a, "page", false);
            assert_eq!(page.hears(), has_others);
        }
    }
}
