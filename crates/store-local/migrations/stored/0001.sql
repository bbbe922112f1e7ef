-- How many bytes each account has stored: its records, each by itself, and the bodies of its jobs. Counted with every row that
-- comes or goes, so that a bound costs one look however many rows there are. After those of assets and jobs.
ALTER TABLE jobs ADD COLUMN body_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET body_bytes = ifnull((
    SELECT length(workflow) + length(origin) + ifnull(octet_length(extra_pnginfo), 0)
    FROM job_bodies WHERE job_bodies.seq = jobs.seq), 0);

CREATE TABLE stored_bytes (
    account TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO stored_bytes (account, bytes)
SELECT account, sum(bytes) FROM (
    SELECT account, size_bytes AS bytes FROM assets
    UNION ALL
    SELECT account, body_bytes FROM jobs
) GROUP BY account;

CREATE TRIGGER stored_bytes_come_with_a_record AFTER INSERT ON assets
BEGIN
    INSERT INTO stored_bytes (account, bytes) VALUES (NEW.account, NEW.size_bytes)
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_bytes_go_with_a_record AFTER DELETE ON assets
BEGIN
    UPDATE stored_bytes SET bytes = bytes - OLD.size_bytes WHERE account = OLD.account;
END;
CREATE TRIGGER stored_bytes_come_with_a_job AFTER INSERT ON jobs
BEGIN
    INSERT INTO stored_bytes (account, bytes) VALUES (NEW.account, NEW.body_bytes)
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER stored_bytes_go_with_a_job AFTER DELETE ON jobs
BEGIN
    UPDATE stored_bytes SET bytes = bytes - OLD.body_bytes WHERE account = OLD.account;
END;
