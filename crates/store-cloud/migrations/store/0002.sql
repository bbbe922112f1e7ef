-- Whose turn it is to do what one process does for all.
CREATE TABLE turns (
    work text PRIMARY KEY,
    -- A process.
    holder uuid NOT NULL,
    -- When it is over unless it is kept.
    until bigint NOT NULL
) WITH (fillfactor = 50);
