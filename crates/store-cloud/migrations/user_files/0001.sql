-- Settings of an account: one JSON object, in the order in which its keys were first set. A transaction that changes settings or
-- files of an account locks this row first.
CREATE TABLE user_settings (
    account text COLLATE "C" PRIMARY KEY,
    settings text NOT NULL
);

-- Saved files of an account. Times are microseconds since 1970.
CREATE TABLE user_files (
    account text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    bytes bytea NOT NULL,
    size_bytes bigint GENERATED ALWAYS AS (octet_length(bytes)) STORED,
    created_at bigint NOT NULL,
    modified_at bigint NOT NULL,
    PRIMARY KEY (account, path)
);
