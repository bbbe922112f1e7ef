-- Results that are kept: one row for each address that the answer of a generation named. `state`: 0 it waits to be fetched, 1 it is
-- kept, 2 it was given up, with the reason. The address may be signed, and goes as soon as nobody needs it any more. `pointer` is
-- where in the answer it stood. A row that waits is fetched from `due_at` on by whoever takes it; it is `owner`'s until `until`.
CREATE TABLE kept_results (
    generation uuid NOT NULL,
    place bigint NOT NULL,
    account text NOT NULL,
    pointer text NOT NULL,
    address text,
    settled_at bigint NOT NULL,
    state smallint NOT NULL,
    attempts bigint NOT NULL,
    due_at bigint NOT NULL,
    reason text,
    file uuid,
    hash bytea,
    size_bytes bigint,
    content_type text,
    owner uuid,
    until bigint,
    PRIMARY KEY (generation, place)
);
CREATE INDEX kept_results_due ON kept_results (due_at) WHERE state = 0;
CREATE INDEX kept_results_by_age ON kept_results (settled_at);
