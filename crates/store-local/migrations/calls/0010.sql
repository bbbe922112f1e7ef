-- The labels of calls: a JSON object of texts. Most calls have none. `request` is the id of the call, which is that of the
-- generation that it began and of the request that it queued. Written with the first of these; times are microseconds.
CREATE TABLE call_labels (
    received_at INTEGER NOT NULL,
    request BLOB NOT NULL CHECK (length(request) = 16),
    labels TEXT NOT NULL,
    PRIMARY KEY (received_at, request)
) STRICT, WITHOUT ROWID;
