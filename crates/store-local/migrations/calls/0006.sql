-- When the call came that began a generation: with the id, the place of that call's row. A crash may have kept that from being
-- written; then it is when the generation was dispatched. NULL is for what an older program left in the log.
ALTER TABLE generations ADD COLUMN received_at INTEGER;
CREATE INDEX calls_by_request ON calls (request, received_at);
UPDATE generations SET received_at =
    coalesce((SELECT c.received_at FROM calls c WHERE c.request = generations.id), dispatched_at);
DROP INDEX calls_by_request;
