-- How many bytes each account has stored: its records, each by itself, and what jobs keep beside them. A transaction that
-- changes records of an account locks this row first.
CREATE TABLE stored_bytes (
    account text COLLATE "C" PRIMARY KEY,
    bytes bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Records over blobs. `seq` grows with every record: the newest is the highest. Times are microseconds since 1970. A file that
-- a job only showed is `temp`.
CREATE TABLE assets (
    id uuid PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    account text COLLATE "C" NOT NULL,
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    size_bytes bigint NOT NULL,
    content_type text NOT NULL,
    file_path text COLLATE "C",
    tags text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    job_id uuid,
    temp boolean NOT NULL
);
CREATE INDEX assets_by_hash ON assets (hash, account, seq);
CREATE INDEX assets_by_path ON assets (account, file_path, seq) WHERE file_path IS NOT NULL;
CREATE INDEX assets_by_expiry ON assets (expires_at) WHERE expires_at IS NOT NULL;

-- What keeps a record: 1 input of a job, 2 output of a job, 3 the operator (whose `job_id` is all zeros). A hold is made while
-- the row of its record is locked, and a record goes only without holds.
CREATE TABLE asset_holds (
    asset uuid NOT NULL,
    kind smallint NOT NULL,
    job_id uuid NOT NULL,
    PRIMARY KEY (asset, kind, job_id)
);
CREATE INDEX asset_holds_by_job ON asset_holds (job_id, kind);

-- Idempotency keys of uploads. A key goes with its record.
CREATE TABLE asset_keys (
    account text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    fingerprint bytea NOT NULL,
    asset uuid NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (account, digest)
);
CREATE INDEX asset_keys_by_asset ON asset_keys (asset);
CREATE INDEX asset_keys_by_expiry ON asset_keys (expires_at);

-- Names of outputs that are counted: the last number that an account gave to each.
CREATE TABLE output_counters (
    account text COLLATE "C" NOT NULL,
    counter text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (account, counter)
);

-- Blobs that a record named and does not name any more: those that may go, even if they are most of all blobs. A blob that
-- neither a record nor a row here knows is what a crash left, or what is left of rows that were lost.
CREATE TABLE released_blobs (
    hash bytea PRIMARY KEY
);

-- What sweeps remember, one row for each.
CREATE TABLE sweeps (
    name text COLLATE "C" PRIMARY KEY,
    last_at bigint,
    hold_left bigint NOT NULL,
    confirmed boolean NOT NULL
);

-- How far the pass is that compares blobs with their hashes; one row.
CREATE TABLE blob_scrub (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    began_at bigint,
    position bytea,
    completed_at bigint
);

-- Blobs whose bytes were not those of their hashes when they were compared last.
CREATE TABLE damaged_blobs (
    hash bytea PRIMARY KEY
);
