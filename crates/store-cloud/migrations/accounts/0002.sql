-- Budgets of keys and labels of an account: a line each, such as `500/hour label:project=posters`. `scoped_spend` is what calls were
-- charged in such a scope in the hour, the day and the month in UTC of its newest charge. `budget_causes` is against which scopes
-- a cause counts whose bill is to come. Both are changed while the credits of the account are locked.
ALTER TABLE accounts ADD COLUMN scoped_budgets text;
CREATE TABLE scoped_spend (
    account text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    spent_at bigint NOT NULL,
    spent_hour_cents bigint NOT NULL,
    spent_day_cents bigint NOT NULL,
    spent_month_cents bigint NOT NULL,
    PRIMARY KEY (account, scope)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE TABLE budget_causes (
    account text COLLATE "C" NOT NULL,
    why smallint NOT NULL,
    cause uuid NOT NULL,
    scopes text[] NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (account, why, cause)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX budget_causes_by_time ON budget_causes (at);
