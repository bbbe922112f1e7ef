-- Deployments: named sets of workers. What a text says is the domain's; `version` is how often a row was written. Times are
-- microseconds since 1970.
CREATE TABLE deployments (
    name text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    text text NOT NULL,
    -- What its workers have, as it was kept last.
    definitions text
);

-- What happened to them, numbered for each; the newest ones are kept.
CREATE TABLE deployment_events (
    deployment text COLLATE "C" NOT NULL REFERENCES deployments (name) ON DELETE CASCADE,
    number bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (deployment, number)
);
