-- Jobs. Times are microseconds since 1970. Waiting jobs, running ones and those that are over are in tables of their own, so that
-- what claims read stays small however many jobs are kept. Texts that may hold any character are `bytea` or JSON.

-- Numbers of submissions and of claims: what the turns of accounts follow from.
CREATE SEQUENCE job_numbers;

-- How many jobs of an account ever waited. Its row is locked by whoever adds one. `entered - departed` are waiting.
CREATE TABLE job_accounts (
    account text COLLATE "C" PRIMARY KEY,
    entered bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How many of them wait no more, and the number of the account's last claim (of its first submission, before any). Its row is
-- locked by whoever takes one out of the queue or puts it back.
CREATE TABLE job_turns (
    account text COLLATE "C" PRIMARY KEY,
    departed bigint NOT NULL,
    last_claim bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What jobs need of a worker: jobs with equal needs share one row, named by the hash of its text. The text is the domain's.
-- `seen_at` is a time within an hour before its last submission.
CREATE TABLE requirement_sets (
    requirements uuid PRIMARY KEY,
    text text NOT NULL,
    seen_at bigint NOT NULL
);

-- Jobs that are not over.
CREATE TABLE jobs (
    id uuid NOT NULL,
    account text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    requirements uuid NOT NULL,
    account_room bigint NOT NULL,
    stored_bytes bigint,
    body_bytes bigint NOT NULL,
    revision bigint NOT NULL,
    status text NOT NULL,
    epoch bigint NOT NULL,
    worker uuid,
    lost_claims bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    started_at bigint,
    completed_at bigint,
    expires_at bigint NOT NULL,
    retention bigint NOT NULL,
    progress_value double precision NOT NULL,
    progress text NOT NULL,
    -- How many outputs it has.
    outputs bigint NOT NULL,
    error text,
    metadata text NOT NULL
);

-- Jobs that are over.
CREATE TABLE jobs_over (LIKE jobs);

ALTER TABLE jobs ADD PRIMARY KEY (id);
ALTER TABLE jobs SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX jobs_by_age ON jobs (account, created_at, id);

ALTER TABLE jobs_over ADD PRIMARY KEY (id);
CREATE INDEX jobs_over_by_age ON jobs_over (account, created_at, id);
CREATE INDEX jobs_over_by_expiry ON jobs_over (expires_at);

-- The places of jobs that wait. A job that is queued again keeps its number.
CREATE TABLE job_queue (
    requirements uuid NOT NULL,
    account text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    job uuid NOT NULL,
    account_room bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (requirements, account, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX job_queue_by_age ON job_queue (created_at);

-- The claims that count: of jobs that run.
CREATE TABLE job_runs (
    job uuid PRIMARY KEY,
    account text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    lease_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX job_runs_by_account ON job_runs (account);

-- Until when each worker counts as present.
CREATE TABLE job_workers (
    worker uuid PRIMARY KEY,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- What lies beside a job and never changes. There is a row as long as there is the job, so it is what keeps ids apart.
CREATE TABLE job_bodies (
    job uuid PRIMARY KEY,
    requirements uuid NOT NULL,
    workflow bytea NOT NULL,
    files text NOT NULL,
    targets text,
    extra_pnginfo bytea NOT NULL,
    origin bytea NOT NULL
);
CREATE INDEX job_bodies_by_requirements ON job_bodies (requirements);

-- What its run wrote.
CREATE TABLE job_logs (
    job uuid PRIMARY KEY,
    text bytea NOT NULL,
    truncated boolean NOT NULL,
    captured_at bigint NOT NULL,
    complete boolean NOT NULL,
    report text NOT NULL
);

-- What it made, in the order of `number`.
CREATE TABLE job_outputs (
    job uuid NOT NULL,
    number bigint NOT NULL,
    document text NOT NULL,
    PRIMARY KEY (job, number)
);

-- Hashes of labels, key and value, for the lists that are narrowed by them.
CREATE TABLE job_labels (
    account text COLLATE "C" NOT NULL,
    label uuid NOT NULL,
    created_at bigint NOT NULL,
    job uuid NOT NULL,
    PRIMARY KEY (account, label, created_at, job)
);
CREATE INDEX job_labels_by_job ON job_labels (job);

-- Idempotency keys of submissions. A key lives as long as its job.
CREATE TABLE job_keys (
    account text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    fingerprint bytea NOT NULL,
    job uuid NOT NULL,
    PRIMARY KEY (account, digest)
);
CREATE INDEX job_keys_by_job ON job_keys (job);

-- What replicas changed, for the others: a saved revision, or what a run reported. The newest ones are kept.
CREATE TABLE job_changes (
    number bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME job_change_numbers) PRIMARY KEY,
    replica uuid NOT NULL,
    job uuid NOT NULL,
    account text COLLATE "C" NOT NULL,
    revision bigint,
    status text,
    report text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
