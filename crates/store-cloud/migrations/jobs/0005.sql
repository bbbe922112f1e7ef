-- That an account is there tells nothing of a job, and only looks for the jobs of an account say it. So looks for jobs by their ids
-- cannot take these indexes, of which the planner thinks that they are short while few jobs live, whatever vacuum left in them.
DROP INDEX jobs_by_age;
CREATE INDEX jobs_by_age ON jobs (account, created_at, id) WHERE account IS NOT NULL;
DROP INDEX job_runs_by_account;
CREATE INDEX job_runs_by_account ON job_runs (account, claim) WHERE account IS NOT NULL;
