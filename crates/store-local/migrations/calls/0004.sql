-- Small results share files. `replay` 3: in the file of the hour that ends at `replay_hour`, in seconds since 1970; so many bytes
-- from there on.
ALTER TABLE generations ADD COLUMN replay_hour INTEGER;
ALTER TABLE generations ADD COLUMN replay_offset INTEGER;
ALTER TABLE generations ADD COLUMN replay_length INTEGER;
