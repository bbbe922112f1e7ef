-- How many of an account's jobs came back to the queue: they stand before jobs that were there, which no new one does. Replicas
-- remember where the queue of an account begins as long as this stays what it was.
ALTER TABLE job_turns ADD COLUMN returns bigint NOT NULL DEFAULT 0;

-- The number of the claim that a run began with: claims are made one after the other, so runs that are newer than a look are
-- behind what it saw. 0 in rows of the version before.
ALTER TABLE job_runs ADD COLUMN claim bigint NOT NULL DEFAULT 0;
DROP INDEX job_runs_by_account;
CREATE INDEX job_runs_by_account ON job_runs (account, claim);
