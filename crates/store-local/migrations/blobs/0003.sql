-- How far the pass is that compares blobs with their hashes; one row. Times are microseconds since 1970.
CREATE TABLE blob_scrub (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    began_at INTEGER,
    position BLOB,
    completed_at INTEGER
) STRICT;

-- Blobs whose bytes were not those of their hashes when they were compared last.
CREATE TABLE damaged_blobs (
    hash BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
