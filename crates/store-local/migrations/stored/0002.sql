-- Whoever inserts a record or a job counts its bytes in a statement of its own, which is cheaper. Rows also go by cascades and in
-- bulk, which triggers go on counting.
DROP TRIGGER stored_bytes_come_with_a_record;
DROP TRIGGER stored_bytes_come_with_a_job;
