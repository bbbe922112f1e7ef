-- Calls of the model router. Times are microseconds since 1970. Texts that partners wrote are bytes: they may hold U+0000.

-- Generations that run: one piece of work at a partner, each its owner's until its lease lapses. Small, since what ends leaves;
-- nothing that is renewed has an index.
CREATE TABLE generations_running (
    id uuid PRIMARY KEY,
    account text NOT NULL,
    model text NOT NULL,
    key bytea,
    hold_cents bigint NOT NULL,
    received_at bigint NOT NULL,
    dispatched_at bigint NOT NULL,
    owner uuid NOT NULL,
    lease_until bigint NOT NULL,
    handle bytea,
    poll_after_ms bigint,
    accepted_at bigint,
    task_id bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Generations that ended. `outcome` is `answered`, `refused`, `content`, `policy`, `policy_detail`, `failed` or `released`.
-- `replay_bytes` is how many bytes of the partner are in `call_replays`; NULL if they were not kept.
CREATE TABLE generations (
    id uuid PRIMARY KEY,
    account text NOT NULL,
    model text NOT NULL,
    key bytea,
    hold_cents bigint NOT NULL,
    received_at bigint NOT NULL,
    dispatched_at bigint NOT NULL,
    accepted_at bigint,
    task_id bytea,
    settled_at bigint NOT NULL,
    settled_by uuid NOT NULL,
    charge_cents bigint NOT NULL,
    bucket text,
    outcome text NOT NULL,
    code bytea,
    message bytea,
    content_type text,
    replay_bytes bigint
);
CREATE INDEX generations_by_end ON generations (settled_at);
CREATE INDEX generations_by_account ON generations (account, received_at);

-- Who serves a generation whose call names its providers, and who failed to before: JSON that the router writes and reads. Most
-- generations have none.
CREATE TABLE call_servings (
    generation uuid PRIMARY KEY,
    received_at bigint NOT NULL,
    serving text NOT NULL
);
CREATE INDEX call_servings_by_time ON call_servings (received_at);

-- The bytes that keys answer again, in pieces, which go with the key.
CREATE TABLE call_replays (
    generation uuid NOT NULL,
    piece integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (generation, piece)
);
ALTER TABLE call_replays ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Idempotency keys, by their digests alone. A claim that was not dispatched stands until `claimed_until`.
CREATE TABLE call_keys (
    account text NOT NULL,
    key bytea NOT NULL,
    fingerprint bytea NOT NULL,
    generation uuid NOT NULL,
    is_dispatched boolean NOT NULL DEFAULT false,
    claimed_until bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (account, key)
) WITH (fillfactor = 80);
CREATE INDEX call_keys_by_expiry ON call_keys (expires_at);
CREATE INDEX call_keys_undispatched ON call_keys (generation) WHERE NOT is_dispatched;

-- Calls: one for each HTTP request, replays and pick-ups included, naming its generation.
CREATE TABLE calls (
    received_at bigint NOT NULL,
    request uuid NOT NULL,
    account text NOT NULL,
    model text,
    key bytea,
    generation uuid,
    bucket text,
    replayed boolean NOT NULL,
    answered_at bigint NOT NULL,
    delivered boolean NOT NULL,
    PRIMARY KEY (received_at, request)
);
CREATE INDEX calls_by_account ON calls (account, received_at, request);

-- Requests that were submitted to the queue. `state`: 0 it waits, 1 a process took it to dispatch it, 2 it was dispatched and its
-- generation tells the rest, 3 it ended without; `failure` is then `cancelled`, `waited` or a bucket. `changed` is the number of
-- the last change of `state` among those of all requests.
CREATE TABLE queued_calls (
    id uuid PRIMARY KEY,
    seq bigint NOT NULL,
    changed bigint NOT NULL,
    state smallint NOT NULL,
    account text NOT NULL,
    model text NOT NULL,
    query text NOT NULL,
    key bytea NOT NULL,
    received_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    body_bytes bigint NOT NULL,
    taken_by uuid,
    taken_until bigint,
    cancelled_at bigint,
    ended_at bigint,
    failure text,
    message bytea
);
CREATE UNIQUE INDEX queued_calls_waiting ON queued_calls (seq) WHERE state < 2;
CREATE UNIQUE INDEX queued_calls_changed ON queued_calls (changed);
CREATE INDEX queued_calls_by_account ON queued_calls (account, model, seq);
CREATE INDEX queued_calls_by_expiry ON queued_calls (expires_at);
-- Drawn under the lock of the queue, so that the numbers become visible in their order.
CREATE SEQUENCE queued_calls_changes;

-- The bodies of those that wait, in pieces.
CREATE TABLE queued_bodies (
    generation uuid NOT NULL,
    piece integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (generation, piece)
);
ALTER TABLE queued_bodies ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- What is locked while calls of an account are admitted.
CREATE TABLE call_quotas (account text PRIMARY KEY);

-- The room that calls in flight take.
CREATE TABLE call_permits (
    account text NOT NULL,
    generation uuid NOT NULL,
    owner uuid NOT NULL,
    hold_cents bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (account, generation)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The requests of an account in its current windows: quota, seconds, number of the window and count, one window after the other.
CREATE TABLE call_windows (
    account text PRIMARY KEY,
    counts bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
