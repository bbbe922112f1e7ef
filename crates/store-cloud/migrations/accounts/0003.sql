-- Whether the files that results name are kept: 0 or 1, NULL is the installation's.
ALTER TABLE accounts ADD COLUMN keep_results smallint;
