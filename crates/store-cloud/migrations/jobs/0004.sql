-- Whether every replica reads rows of `job_changes` that tell of several jobs and reports: `job` is all zeros then, and `report` is the
-- JSON of a list. Those of the version before do not. In a database that no replica uses yet there are none of them.
CREATE TABLE job_change_form (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    packed boolean NOT NULL
);
INSERT INTO job_change_form (packed)
SELECT NOT is_called AND NOT EXISTS (
    SELECT FROM pg_stat_activity WHERE datname = current_database() AND split_part(application_name, ' - ', 1) = 'easel')
FROM job_change_numbers;
