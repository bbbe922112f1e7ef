-- Results that are kept: one row for each address that the answer of a generation named. `state`: 0 it waits to be fetched, 1 it is
-- kept, 2 it was given up, with the reason. The address may be signed, and goes as soon as nobody needs it any more. `pointer` is
-- where in the answer it stood. A row that waits is fetched from `due_at` on; who fetches it is known in memory alone. Times are
-- microseconds.
CREATE TABLE kept_results (
    generation BLOB NOT NULL CHECK (length(generation) = 16),
    place INTEGER NOT NULL,
    account TEXT NOT NULL,
    pointer TEXT NOT NULL,
    address TEXT,
    settled_at INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    reason TEXT,
    file BLOB,
    hash BLOB,
    size_bytes INTEGER,
    content_type TEXT,
    PRIMARY KEY (generation, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_results_due ON kept_results (due_at) WHERE state = 0;
CREATE INDEX kept_results_by_age ON kept_results (settled_at);
