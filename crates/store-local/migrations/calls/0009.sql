-- Who serves a generation whose call names its providers, and who failed to before: JSON that the router writes and reads. Most
-- generations have none. It is written with the generation, before each attempt, and goes with it.
CREATE TABLE call_servings (
    generation BLOB PRIMARY KEY CHECK (length(generation) = 16),
    serving TEXT NOT NULL
) STRICT, WITHOUT ROWID;
