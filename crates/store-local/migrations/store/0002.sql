-- An installation that came from another store: its id, and the secret that others follow from. One row; without it, both follow
-- from the first of the keys that sign links.
CREATE TABLE moved_installation (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    id BLOB NOT NULL CHECK (length(id) = 16),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;

-- How far each part is of an installation that is or was moved here.
CREATE TABLE transfer_progress (
    part TEXT NOT NULL PRIMARY KEY,
    progress BLOB NOT NULL
) STRICT, WITHOUT ROWID;
