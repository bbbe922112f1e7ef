-- When blobs of the bucket were last put or touched: S3 can neither renew the age of an object nor delete one by its age. The
-- bucket says which blobs there are; one without a row is as old as its object.
CREATE TABLE blob_ages (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    touched_at bigint NOT NULL,
    -- Whether the object was ever whole in the bucket; not before a put has ended.
    placed boolean NOT NULL
) WITH (fillfactor = 80);

-- What puts that failed left behind. `touched_at` is in no index, so that renewing it rewrites none.
CREATE INDEX blob_ages_unplaced ON blob_ages (hash) WHERE NOT placed;
