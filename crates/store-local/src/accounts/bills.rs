//! Charges of calls: entries of the ledger that commit with what they are for, or follow it many at a time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use accounts::{AccountId, LedgerRef};
use jiff::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::{SharedAccounts, ledger};
use crate::columns::unreadable;
use crate::database::{Insert, Transaction, Values};

/// Bills a cause, if it costs anything and the account is there, and lets its hold go: for rows that commit with the bill.
pub(crate) fn bill(
    rows: &mut Transaction<'_>,
    accounts: &SharedAccounts,
    account: &AccountId,
    cause: LedgerRef,
    charge_cents: u64,
    now: Timestamp,
) -> rusqlite::Result<()> {
    if accounts.knows(account) && charge_cents > 0 {
        let amount_cents = i64::try_from(charge_cents).map_or(i64::MIN, |cents| -cents);
        ledger::post(rows, accounts, account, cause, amount_cents, now)?;
        return Ok(());
    }
    accounts.forget_scopes(rows, account, cause)?;
    let account = account.clone();
    accounts.later(rows, move |index| {
        if let Some(balance) = index.balance(&account) {
            balance.release(cause);
        }
    });
    Ok(())
}

/// A charge whose entry in the ledger is written later than the index hears of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bill<'a> {
    pub(crate) account: &'a str,
    pub(crate) generation: Uuid,
    pub(crate) charge_cents: i64,
    /// Microseconds.
    pub(crate) at: i64,
}

/// Bills a generation in the index alone and lets its hold go. The entry follows with [`post_bills`].
pub(crate) fn bill_ahead(
    accounts: &SharedAccounts,
    account: &AccountId,
    cause: LedgerRef,
    charge_cents: i64,
    now: Timestamp,
) {
    if let Some(balance) = accounts.write().balance(account) {
        match charge_cents {
            0 => balance.release(cause),
            _ => balance.post(cause, -charge_cents, now),
        }
    }
}

/// Adds the entries of bills that the index knows of already, and takes their sums off the balances.
pub(crate) fn post_bills(rows: &Connection, bills: &[Bill<'_>]) -> rusqlite::Result<()> {
    static INSERT: Insert = Insert::new("ledger (account, seq, why, cause, amount_cents, at)", 6);
    let mut newest: BTreeMap<&str, i64> = BTreeMap::new();
    let mut numbered = Vec::with_capacity(bills.len());
    for bill in bills {
        let seq = match newest.entry(bill.account) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(ledger::newest_seq(rows, bill.account)?),
        };
        *seq += 1;
        numbered.push((*seq, bill));
    }
    let values = |(seq, bill): &(i64, &Bill<'_>), values: &mut Values<'_, '_>| {
        let (why, id) = ledger::spell(LedgerRef::Generation(bill.generation));
        values.put(bill.account)?;
        values.put(seq)?;
        values.put(why)?;
        values.put(id)?;
        values.put(-bill.charge_cents)?;
        values.put(bill.at)
    };
    let mut entries: BTreeMap<&str, Vec<(LedgerRef, i64, Timestamp)>> = BTreeMap::new();
    for bill in bills {
        let cause = LedgerRef::Generation(bill.generation);
        let at = Timestamp::from_microsecond(bill.at).map_err(unreadable)?;
        let of_account = entries.entry(bill.account).or_default();
        of_account.push((cause, -bill.charge_cents, at));
    }
    INSERT.all(rows, &numbered, values, |_| {})?;
    for (account, entries) in entries {
        ledger::change_balance(rows, account, &entries)?;
    }
    Ok(())
}
