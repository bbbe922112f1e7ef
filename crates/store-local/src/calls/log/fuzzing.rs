//! Entries of the log that are fuzzed: any bytes at all come into the rows or are an error that changes nothing.

use std::cell::RefCell;

use rusqlite::Connection;

use super::super::event;
use super::flush::{FlushTargets, flush};
use crate::schema::SCHEMA;
use crate::webhooks::Hooks;

thread_local! {
    static ROWS: RefCell<Connection> = RefCell::new(rows());
}

fn rows() -> Connection {
    let rows = Connection::open_in_memory().expect("memory");
    for (_, files) in SCHEMA {
        for sql in *files {
            rows.execute_batch(sql).expect("a schema");
        }
    }
    rows
}

/// Entries one behind the other.
///
/// # Panics
/// If an entry is read that would be written in another way.
pub(crate) fn entries(bytes: &[u8]) {
    for event in event::read(bytes).map_while(Result::ok) {
        let mut written = Vec::new();
        event.write(&mut written);
        let again = event::read(&written).next();
        let again = again.expect("an entry").expect("it can be read");
        assert_eq!(format!("{event:?}"), format!("{again:?}"));
    }
    ROWS.with_borrow_mut(|rows| {
        let transaction = rows.transaction().expect("memory");
        let hooks = Hooks::default();
        let targets = FlushTargets {
            hooks: &hooks,
            replays: None,
        };
        // An entry that is none, or whose texts break a rule of the rows, is an error.
        if let Ok(waiting) = flush(&transaction, targets, bytes, 256) {
            assert!(waiting.entries <= 2 * bytes.len());
        }
        transaction.rollback().expect("memory");
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::event::{Begun, Event};
    use super::*;
    use crate::fuzzed::feed;

    #[test]
    fn any_entries_come_in_or_are_an_error() {
        let begun = |at| {
            Event::Begun(Begun {
                id: uuid::Uuid::from_u128(at),
                account: "acme",
                model: "bfl/flux-2",
                hold_cents: 7,
                at: 1_790_000_000_000_000,
            })
        };
        let mut seed = Vec::new();
        (1..4).for_each(|n| begun(n).write(&mut seed));
        feed(&[seed, b"\x02".to_vec()], 2_000, entries);
    }
}
