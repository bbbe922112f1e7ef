-- The API key that a call came with, and that of the call which began a generation; NULL of tokens, and of what was written before.
ALTER TABLE calls ADD COLUMN api_key TEXT;
ALTER TABLE generations ADD COLUMN api_key TEXT;
