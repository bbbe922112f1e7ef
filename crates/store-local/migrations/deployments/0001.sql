-- Deployments: named sets of workers. What a text says is the domain's; `version` is how often a row was written.
CREATE TABLE deployments (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    -- What its workers have, as it was kept last.
    definitions TEXT
) STRICT;

-- What happened to them, numbered for each; the newest ones are kept. Times are microseconds.
CREATE TABLE deployment_events (
    deployment TEXT NOT NULL REFERENCES deployments (name) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (deployment, number)
) STRICT, WITHOUT ROWID;
