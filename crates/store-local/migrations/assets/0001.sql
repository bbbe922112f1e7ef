-- Records over blobs. `seq` grows with every record: the newest is the highest. Times are microseconds since 1970.
CREATE TABLE assets (
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    account TEXT NOT NULL,
    hash BLOB NOT NULL,
    size_bytes INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    file_path TEXT,
    tags TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    job_id BLOB
) STRICT;
CREATE INDEX assets_by_hash ON assets (hash, account);
CREATE INDEX assets_by_path ON assets (account, file_path) WHERE file_path IS NOT NULL;
CREATE INDEX assets_by_expiry ON assets (expires_at) WHERE expires_at IS NOT NULL;

-- What keeps a record: 1 input of a job, 2 output of a job, 3 the operator (whose `job_id` is all zeros).
CREATE TABLE asset_holds (
    asset BLOB NOT NULL REFERENCES assets (id) ON DELETE CASCADE,
    kind INTEGER NOT NULL,
    job_id BLOB NOT NULL,
    PRIMARY KEY (asset, kind, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX asset_holds_by_job ON asset_holds (job_id, kind);

-- Idempotency keys of uploads. A key goes with its record.
CREATE TABLE asset_keys (
    account TEXT NOT NULL,
    digest BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    asset BLOB NOT NULL REFERENCES assets (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (account, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX asset_keys_by_asset ON asset_keys (asset);
CREATE INDEX asset_keys_by_expiry ON asset_keys (expires_at);
