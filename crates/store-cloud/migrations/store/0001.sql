-- What there is one of in an installation: its id, its secrets.
CREATE TABLE installation (
    -- One row.
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL,
    -- 32 random bytes that other secrets follow from.
    secret bytea NOT NULL,
    -- What signs links now, and what did before.
    link_key bytea NOT NULL,
    link_key_before bytea,
    -- Counts the keys that signed.
    link_key_number bigint NOT NULL DEFAULT 1
);

-- That the installation is moved to or from another store, or was; at most one row.
CREATE TABLE transfer (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    note text NOT NULL
);

-- How far each part is of an installation that is or was moved here.
CREATE TABLE transfer_progress (
    part text PRIMARY KEY,
    progress bytea NOT NULL
);
