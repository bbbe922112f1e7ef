-- Blobs that a record named and does not name any more: those that may go, even if they are most of all blobs. A blob that
-- neither a record nor a row here knows is what a crash left, or what is left of rows that were lost.
CREATE TABLE released_blobs (
    hash BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER assets_release AFTER DELETE ON assets BEGIN
    INSERT OR IGNORE INTO released_blobs (hash) VALUES (OLD.hash);
END;

-- What sweeps remember, one row for each. Times are microseconds since 1970.
CREATE TABLE sweeps (
    name TEXT NOT NULL PRIMARY KEY,
    last_at INTEGER,
    hold_left INTEGER NOT NULL,
    confirmed INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- In a database of an earlier version, the newest record tells when it was last in use.
INSERT INTO sweeps (name, last_at, hold_left, confirmed)
    SELECT name, newest, 0, 0 FROM (SELECT max(created_at) AS newest FROM assets),
        (SELECT 'assets' AS name UNION ALL SELECT 'calls')
    WHERE newest IS NOT NULL;
