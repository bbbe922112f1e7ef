-- Accounts: suspended, never deleted. A limit that is NULL is the installation's. Times and spans are microseconds. Ids are
-- ordered by their bytes.
CREATE TABLE accounts (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    suspended boolean NOT NULL,
    subscribed boolean NOT NULL,
    router boolean NOT NULL,
    billed boolean NOT NULL,
    concurrent_jobs bigint,
    queued_jobs bigint,
    streams bigint,
    upload_bytes bigint,
    stored_bytes bigint,
    submissions text,
    upload_retention bigint,
    job_retention bigint,
    concurrent_calls bigint,
    committed_spend_cents bigint,
    budgets text,
    windows text,
    entitlements text,
    created_at bigint NOT NULL
);

-- What each account has: the sum of its ledger, and the number of its newest entry. `spent_*_cents` is what its calls were
-- charged in the hour, the day and the month in UTC of its newest charge, which was at `spent_at`. Apart from the account,
-- which is read often and changes seldom. A transaction that bills or reserves locks this row first.
CREATE TABLE credits (
    account text COLLATE "C" PRIMARY KEY,
    balance_cents bigint NOT NULL,
    newest_seq bigint NOT NULL,
    spent_at bigint NOT NULL DEFAULT 0,
    spent_hour_cents bigint NOT NULL DEFAULT 0,
    spent_day_cents bigint NOT NULL DEFAULT 0,
    spent_month_cents bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- API keys, by their hashes alone. Revoked ones stay, so that it can be told what became of them.
CREATE TABLE api_keys (
    id text COLLATE "C" PRIMARY KEY,
    hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    account text COLLATE "C" NOT NULL REFERENCES accounts (id),
    name text NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);
CREATE INDEX api_keys_by_account ON api_keys (account);

-- Entries of credits, which neither change nor go. Why: 1 a grant, 2 a generation; with its id, the cause of one entry. `seq`
-- grows with every entry of its account.
CREATE TABLE ledger (
    account text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    why smallint NOT NULL,
    cause uuid NOT NULL,
    amount_cents bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (account, seq),
    UNIQUE (account, why, cause)
);

-- What is set aside for what is under way. From `until` on, a row counts no more.
CREATE TABLE credit_holds (
    account text COLLATE "C" NOT NULL,
    why smallint NOT NULL,
    cause uuid NOT NULL,
    cents bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (account, why, cause)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who is signed in on a web page, by the hash of the browser's token. `credential` is the hash of the API key or of the
-- installation's token that was shown; if `scopes` is not NULL, it is the fingerprint of the key that verified a JSON Web
-- Token, and `scopes` is what that token allowed.
CREATE TABLE sessions (
    token bytea PRIMARY KEY CHECK (octet_length(token) = 32),
    account text COLLATE "C" NOT NULL REFERENCES accounts (id),
    credential bytea NOT NULL CHECK (octet_length(credential) = 32),
    scopes text,
    began_at bigint NOT NULL,
    ends_at bigint NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account, ends_at);
CREATE INDEX sessions_by_end ON sessions (ends_at);
CREATE INDEX sessions_by_credential ON sessions (credential);
