-- The bytes of a small blob. One that has them here has no object.
ALTER TABLE blob_ages ADD COLUMN bytes bytea;
-- Pictures are compressed.
ALTER TABLE blob_ages ALTER COLUMN bytes SET STORAGE EXTERNAL;
-- Rows that are not `placed` are forgotten after a week. A replica of a version before that comes back does not look for bytes when it
-- says so of a put that failed. No row has bytes yet, so none is read for this.
ALTER TABLE blob_ages ADD CONSTRAINT blob_ages_bytes_are_placed CHECK (placed OR bytes IS NULL) NOT VALID;

-- Whether every replica looks for bytes in rows. Those of the versions before do not. In a database that no replica uses yet there are
-- none of them.
CREATE TABLE blob_form (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    in_rows boolean NOT NULL
);
INSERT INTO blob_form (in_rows)
SELECT NOT EXISTS (SELECT FROM blob_ages) AND NOT EXISTS (
    SELECT FROM pg_stat_activity WHERE datname = current_database() AND split_part(application_name, ' - ', 1) IN ('easel', 'easel-2'));
