-- The hash of a result that a key answers again, so that damage of its file is found when it is read. NULL is for what an older
-- program wrote.
ALTER TABLE generations ADD COLUMN replay_hash BLOB;
