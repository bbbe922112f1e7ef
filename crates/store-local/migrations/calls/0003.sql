-- Generations lie in the order of their ids, which is that of their beginning: another index for it would cost every call.
CREATE TABLE generations_by_id (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
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
) STRICT, WITHOUT ROWID;
INSERT INTO generations_by_id
    SELECT id, account, model, hold_cents, dispatched_at, handle, poll_after_ms, accepted_at, task_id, settled_at, charge_cents,
        bucket, outcome, code, message, content_type, replay
    FROM generations ORDER BY id;
DROP TABLE generations;
ALTER TABLE generations_by_id RENAME TO generations;
CREATE INDEX generations_unfinished ON generations (dispatched_at, id) WHERE settled_at IS NULL;
