-- The API key that submitted a queued request: the request counts against its budgets.
ALTER TABLE queued_calls ADD COLUMN api_key TEXT;
