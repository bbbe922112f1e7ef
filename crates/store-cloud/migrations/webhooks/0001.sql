-- Addresses that hear of events of accounts. `kinds` is a bit for each kind of event. The secrets follow from the installation's,
-- the id and `secret_version`; until `previous_until` the version before signs as well. `failures` and the times beside it tell how
-- the receiver does. Times are microseconds.
CREATE TABLE webhooks (
    id uuid PRIMARY KEY,
    account text COLLATE "C" NOT NULL REFERENCES accounts (id),
    url text NOT NULL,
    kinds smallint NOT NULL,
    secret_version bigint NOT NULL,
    previous_until bigint,
    disabled_at bigint,
    disabled_reason text,
    failures bigint NOT NULL DEFAULT 0,
    failing_since bigint,
    not_before bigint,
    created_at bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX webhooks_by_account ON webhooks (account, id);

-- Events on their way to webhooks, written in the transactions that make them true. They have no reference, because the removal
-- of a webhook must not keep a job from being taken in: a row of a webhook that is gone is deleted soon. `place` grows with every
-- event of an object. `next_at`: it is tried from then on; `delivered_at`: its receiver has it.
CREATE TABLE webhook_deliveries (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook uuid NOT NULL,
    message uuid NOT NULL,
    kind text NOT NULL,
    object text NOT NULL,
    at bigint NOT NULL,
    data text NOT NULL,
    next_at bigint NOT NULL,
    delivered_at bigint,
    attempts bigint NOT NULL DEFAULT 0,
    failing_since bigint,
    attempted_at bigint,
    status integer,
    error text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (webhook, next_at, place) WHERE delivered_at IS NULL;
CREATE INDEX webhook_deliveries_by_object ON webhook_deliveries (webhook, object, place) WHERE delivered_at IS NULL;
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (webhook, place);
CREATE INDEX webhook_deliveries_delivered ON webhook_deliveries (delivered_at) WHERE delivered_at IS NOT NULL;

-- For which window of a budget its account was told last that it was reached.
CREATE TABLE budgets_reached (
    account text COLLATE "C" NOT NULL,
    "window" text NOT NULL,
    ends_at bigint NOT NULL,
    PRIMARY KEY (account, "window")
);
