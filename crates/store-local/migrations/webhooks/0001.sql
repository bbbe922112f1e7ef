-- Addresses that hear of events of accounts. `kinds` is a bit for each kind of event. The secrets follow from the installation's,
-- the id and `secret_version`; until `previous_until` the version before signs as well. `failures` and the times beside it tell how
-- the receiver does. Times are microseconds.
CREATE TABLE webhooks (
    id BLOB PRIMARY KEY CHECK (length(id) = 16),
    account TEXT NOT NULL REFERENCES accounts (id),
    url TEXT NOT NULL,
    kinds INTEGER NOT NULL,
    secret_version INTEGER NOT NULL,
    previous_until INTEGER,
    disabled_at INTEGER,
    disabled_reason TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    not_before INTEGER,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_by_account ON webhooks (account, id);

-- Events on their way to webhooks, written in the transactions that make them true. A row of a webhook that is gone is deleted
-- soon. `place` grows with every event. `next_at`: it is tried from then on; `delivered_at`: its receiver has it.
CREATE TABLE webhook_deliveries (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook BLOB NOT NULL,
    message BLOB NOT NULL CHECK (length(message) = 16),
    kind TEXT NOT NULL,
    object TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    next_at INTEGER NOT NULL,
    delivered_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    attempted_at INTEGER,
    status INTEGER,
    error TEXT
) STRICT;
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (webhook, next_at, place) WHERE delivered_at IS NULL;
CREATE INDEX webhook_deliveries_by_object ON webhook_deliveries (webhook, object, place) WHERE delivered_at IS NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook, place);
CREATE INDEX webhook_deliveries_delivered ON webhook_deliveries (delivered_at) WHERE delivered_at IS NOT NULL;

-- For which window of a budget its account was told last that it was reached.
CREATE TABLE budgets_reached (
    account TEXT NOT NULL,
    "window" TEXT NOT NULL,
    ends_at INTEGER NOT NULL,
    PRIMARY KEY (account, "window")
) STRICT, WITHOUT ROWID;
