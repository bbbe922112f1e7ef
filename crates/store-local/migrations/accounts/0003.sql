-- What an account may store, and how many jobs it may submit in spans of time; NULL is the installation's.
ALTER TABLE accounts ADD COLUMN stored_bytes INTEGER;
ALTER TABLE accounts ADD COLUMN submissions TEXT;
