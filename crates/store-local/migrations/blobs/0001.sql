-- Bytes of small blobs whose files may not be on the disk yet. A row may go once they are.
CREATE TABLE blob_journal (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
