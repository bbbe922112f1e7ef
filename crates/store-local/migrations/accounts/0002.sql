-- The ledger lies in the order in which it is read, account by account: `seq` grows with every entry of its account. Accounts
-- never go, and whoever adds an entry changes the balance of its account with it, so that nothing else need look one up.
CREATE TABLE ledger_in_order (
    account TEXT NOT NULL,
    seq INTEGER NOT NULL,
    why INTEGER NOT NULL,
    cause BLOB NOT NULL,
    amount_cents INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (account, seq),
    UNIQUE (account, why, cause)
) STRICT, WITHOUT ROWID;
INSERT INTO ledger_in_order SELECT account, seq, why, cause, amount_cents, at FROM ledger ORDER BY account, seq;
DROP TABLE ledger;
ALTER TABLE ledger_in_order RENAME TO ledger;
CREATE TRIGGER ledger_keeps_entries_as_they_are BEFORE UPDATE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'an entry of the ledger does not change');
END;
CREATE TRIGGER ledger_keeps_every_entry BEFORE DELETE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'an entry of the ledger does not go');
END;
