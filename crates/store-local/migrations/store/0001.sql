-- Keys that sign links; the one with the highest id signs.
CREATE TABLE link_keys (
    id INTEGER PRIMARY KEY,
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
