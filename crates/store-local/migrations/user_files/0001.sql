-- Settings of an account: one JSON object, in the order in which its keys were first set.
CREATE TABLE user_settings (
    account TEXT PRIMARY KEY,
    settings TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Saved files of an account. Times are microseconds since 1970.
CREATE TABLE user_files (
    account TEXT NOT NULL,
    path TEXT NOT NULL,
    bytes BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    UNIQUE (account, path)
) STRICT;
