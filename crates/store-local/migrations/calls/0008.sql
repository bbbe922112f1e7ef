-- Requests that were submitted to the queue. One waits while it is neither dispatched nor ended. `dispatched` 1: its row in
-- `generations` tells the rest. `ended_at`: it ended without having been dispatched; `failure` is then `cancelled`, `waited` or a
-- bucket. The body is here or, if it is large, in the file of this name below `replays`; it goes with the dispatch. In `call_keys`
-- the key of a request that was not dispatched yet has `dispatched` 2. Times are microseconds.
CREATE TABLE queued_calls (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    account TEXT NOT NULL,
    model TEXT NOT NULL,
    "query" TEXT NOT NULL,
    key BLOB NOT NULL CHECK (length(key) = 32),
    received_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    dispatched INTEGER NOT NULL DEFAULT 0,
    cancelled_at INTEGER,
    ended_at INTEGER,
    failure TEXT,
    message TEXT,
    body_file BLOB,
    body BLOB
) STRICT;
CREATE INDEX queued_calls_waiting ON queued_calls (seq) WHERE dispatched = 0 AND ended_at IS NULL;
CREATE INDEX queued_calls_by_account ON queued_calls (account, model, seq);
CREATE INDEX queued_calls_by_file ON queued_calls (body_file) WHERE body_file IS NOT NULL;
