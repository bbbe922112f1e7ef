-- The condition is always true, but the planner concludes it from `account = ...` alone. So a look by ids cannot take these indexes.
-- While few jobs live, the planner thinks that they are short, whatever vacuum left in them.
DROP INDEX jobs_by_age;
CREATE INDEX jobs_by_age ON jobs (account, created_at, id) WHERE account IS NOT NULL;
DROP INDEX job_runs_by_account;
CREATE INDEX job_runs_by_account ON job_runs (account, claim) WHERE account IS NOT NULL;
