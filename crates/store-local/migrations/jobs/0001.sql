-- Jobs. `seq` grows with every submission: the order of the queue. Times are microseconds since 1970. A job is live until it
-- has a `completed_at`.
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    account TEXT NOT NULL,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    worker BLOB,
    lost_claims INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    expires_at INTEGER NOT NULL,
    retention INTEGER NOT NULL,
    progress_value REAL NOT NULL,
    nodes_done INTEGER NOT NULL,
    nodes_total INTEGER NOT NULL,
    current_node TEXT,
    current_node_class TEXT,
    step INTEGER,
    steps INTEGER,
    message TEXT,
    error TEXT,
    metadata TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_by_age ON jobs (account, created_at, id);
CREATE INDEX jobs_live ON jobs (seq) WHERE completed_at IS NULL;
CREATE INDEX jobs_by_expiry ON jobs (expires_at) WHERE completed_at IS NOT NULL;

-- What lies beside a job and never changes.
CREATE TABLE job_bodies (
    seq INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
    workflow BLOB NOT NULL,
    files TEXT NOT NULL,
    targets TEXT,
    origin BLOB NOT NULL,
    placement TEXT NOT NULL
) STRICT;

-- What its run wrote.
CREATE TABLE job_logs (
    seq INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
    text TEXT NOT NULL,
    truncated INTEGER NOT NULL,
    captured_at INTEGER NOT NULL,
    complete INTEGER NOT NULL
) STRICT;

-- What it made, in the order of `number`. An output of a node and index is committed once.
CREATE TABLE job_outputs (
    seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    node_id TEXT NOT NULL,
    output INTEGER NOT NULL,
    kind TEXT NOT NULL,
    temp INTEGER NOT NULL,
    path TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    asset BLOB NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (seq, number),
    UNIQUE (seq, node_id, output)
) STRICT, WITHOUT ROWID;

-- Labels once more, for the lists that are narrowed by them.
CREATE TABLE job_labels (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    PRIMARY KEY (account, key, value, created_at, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_labels_by_job ON job_labels (seq);

-- Idempotency keys of submissions. A key lives as long as its job.
CREATE TABLE job_keys (
    account TEXT NOT NULL,
    digest BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    PRIMARY KEY (account, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_keys_by_job ON job_keys (seq);

-- The number that the latest output of a prefix got.
CREATE TABLE output_counters (
    account TEXT NOT NULL,
    counter TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (account, counter)
) STRICT, WITHOUT ROWID;
