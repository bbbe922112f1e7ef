-- Generations: one piece of work at a partner, billed once. `outcome` is NULL while it runs; then `answered`, `refused`,
-- `content`, `policy`, `policy_detail`, `failed` or `released`. `replay`: 0 there is no body to tell again, 1 it is in a file,
-- 2 it was not kept. Times are microseconds.
CREATE TABLE generations (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    account TEXT NOT NULL,
    model TEXT NOT NULL,
    hold_cents INTEGER NOT NULL,
    dispatched_at INTEGER NOT NULL,
    handle BLOB,
    poll_after_ms INTEGER,
    accepted_at INTEGER,
    task_id TEXT,
    settled_at INTEGER,
    charge_cents INTEGER,
    bucket TEXT,
    outcome TEXT,
    code TEXT,
    message TEXT,
    content_type TEXT,
    replay INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX generations_unfinished ON generations (dispatched_at, id) WHERE settled_at IS NULL;

-- Idempotency keys, by their digests alone. What was not dispatched when the process ended is void.
CREATE TABLE call_keys (
    account TEXT NOT NULL,
    key BLOB NOT NULL CHECK (length(key) = 32),
    fingerprint BLOB NOT NULL,
    generation BLOB NOT NULL,
    dispatched INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (account, key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX call_keys_by_generation ON call_keys (generation);
CREATE INDEX call_keys_by_expiry ON call_keys (expires_at);
CREATE INDEX call_keys_undispatched ON call_keys (generation) WHERE dispatched = 0;

-- Calls: one per HTTP request, replays and pick-ups included, naming its generation.
CREATE TABLE calls (
    received_at INTEGER NOT NULL,
    request BLOB NOT NULL CHECK (length(request) = 16),
    account TEXT NOT NULL,
    model TEXT,
    key BLOB,
    generation BLOB,
    bucket TEXT,
    replayed INTEGER NOT NULL,
    answered_at INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    PRIMARY KEY (received_at, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_account ON calls (account, received_at, request);
