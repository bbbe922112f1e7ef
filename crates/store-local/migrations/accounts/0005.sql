-- Budgets of an account; NULL is the installation's. `spent_*_cents` is what its calls were charged in the hour, the day and the
-- month in UTC of its newest charge, which was at `spent_at` (microseconds).
ALTER TABLE accounts ADD COLUMN budgets TEXT;
ALTER TABLE accounts ADD COLUMN spent_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN spent_hour_cents INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN spent_day_cents INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN spent_month_cents INTEGER NOT NULL DEFAULT 0;
UPDATE accounts SET spent_at = charges.newest, spent_hour_cents = charges.hour, spent_day_cents = charges.day,
    spent_month_cents = charges.month
FROM (
    SELECT ledger.account, newest,
        coalesce(sum(-amount_cents) FILTER (
            WHERE strftime('%Y-%m-%dT%H', at / 1000000, 'unixepoch') = strftime('%Y-%m-%dT%H', newest / 1000000, 'unixepoch')
        ), 0) AS hour,
        coalesce(sum(-amount_cents) FILTER (
            WHERE strftime('%Y-%m-%d', at / 1000000, 'unixepoch') = strftime('%Y-%m-%d', newest / 1000000, 'unixepoch')
        ), 0) AS day,
        coalesce(sum(-amount_cents) FILTER (
            WHERE strftime('%Y-%m', at / 1000000, 'unixepoch') = strftime('%Y-%m', newest / 1000000, 'unixepoch')
        ), 0) AS month
    FROM ledger JOIN (
        SELECT account, max(at) AS newest FROM ledger WHERE why = 2 AND amount_cents < 0 GROUP BY account
    ) AS newest_charges ON newest_charges.account = ledger.account
    WHERE why = 2 AND amount_cents < 0 GROUP BY ledger.account
) AS charges
WHERE charges.account = accounts.id;
