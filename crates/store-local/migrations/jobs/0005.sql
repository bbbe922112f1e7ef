-- Jobs that ended without success are few among those that are kept, and lists ask for them alone.
CREATE INDEX jobs_unsuccessful ON jobs (account, created_at, id) WHERE completed_at IS NOT NULL AND status <> 'succeeded';
