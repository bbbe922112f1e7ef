-- Budgets of keys and labels of an account: a line each, such as `500/hour label:project=posters`. `scoped_spend` is what calls were
-- charged in such a scope in the hour, the day and the month in UTC of its newest charge. `budget_causes` is against which scopes
-- a cause counts whose bill is to come: lines again. Times are microseconds.
ALTER TABLE accounts ADD COLUMN scoped_budgets TEXT;
CREATE TABLE scoped_spend (
    account TEXT NOT NULL,
    scope TEXT NOT NULL,
    spent_at INTEGER NOT NULL,
    spent_hour_cents INTEGER NOT NULL,
    spent_day_cents INTEGER NOT NULL,
    spent_month_cents INTEGER NOT NULL,
    PRIMARY KEY (account, scope)
) STRICT, WITHOUT ROWID;
CREATE TABLE budget_causes (
    account TEXT NOT NULL,
    why INTEGER NOT NULL,
    cause BLOB NOT NULL,
    scopes TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (account, why, cause)
) STRICT, WITHOUT ROWID;
CREATE INDEX budget_causes_by_time ON budget_causes (at);
