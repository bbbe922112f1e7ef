-- Accounts: suspended, never deleted. A limit that is NULL is the installation's. `balance_cents` is the sum of the
-- account's ledger. Times and spans are microseconds.
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    suspended INTEGER NOT NULL,
    subscribed INTEGER NOT NULL,
    router INTEGER NOT NULL,
    billed INTEGER NOT NULL,
    balance_cents INTEGER NOT NULL,
    concurrent_jobs INTEGER,
    queued_jobs INTEGER,
    streams INTEGER,
    upload_bytes INTEGER,
    upload_retention INTEGER,
    job_retention INTEGER,
    concurrent_calls INTEGER,
    committed_spend_cents INTEGER,
    windows TEXT,
    entitlements TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- API keys, by their hashes alone. Revoked ones stay, so that it can be told what became of them.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    account TEXT NOT NULL REFERENCES accounts (id),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- Credits. Why: 1 a grant, 2 a generation; with its id, the cause of one entry.
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (id),
    why INTEGER NOT NULL,
    cause BLOB NOT NULL,
    amount_cents INTEGER NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (account, why, cause)
) STRICT;
CREATE INDEX ledger_by_account ON ledger (account, seq);
CREATE TRIGGER ledger_keeps_entries_as_they_are BEFORE UPDATE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'an entry of the ledger does not change');
END;
CREATE TRIGGER ledger_keeps_every_entry BEFORE DELETE ON ledger
BEGIN
    SELECT RAISE(ABORT, 'an entry of the ledger does not go');
END;
