-- What jobs need of a worker: jobs with equal needs share one row. The text is the domain's; nothing here reads it.
CREATE TABLE requirement_sets (
    requirements INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;
ALTER TABLE jobs ADD COLUMN requirements INTEGER REFERENCES requirement_sets (requirements);
CREATE INDEX jobs_by_requirements ON jobs (requirements);

-- Jobs that are not over have theirs in their placement so far, where nothing reads it from now on. A secret that came with one
-- was in a process that is gone.
CREATE TEMP TABLE live_sets AS
    SELECT seq, json_object(
        'engine', 'native',
        'classes', json((
            SELECT json_group_array(value) FROM (SELECT DISTINCT value FROM json_each(placement, '$.classes') ORDER BY value)
        )),
        'files', json('[]'),
        'secret_at', iif(json_extract(placement, '$.needs_secret'), '00000000-0000-0000-0000-000000000000', NULL)
    ) AS text
    FROM jobs JOIN job_bodies USING (seq) WHERE completed_at IS NULL;
INSERT INTO requirement_sets (text) SELECT DISTINCT text FROM live_sets;
UPDATE jobs SET requirements = (
    SELECT requirement_sets.requirements FROM requirement_sets JOIN live_sets USING (text) WHERE live_sets.seq = jobs.seq
) WHERE completed_at IS NULL;
DROP TABLE live_sets;

-- The number that the last claim of each account got: from the sequence of `jobs.seq`.
CREATE TABLE account_claims (
    account TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
