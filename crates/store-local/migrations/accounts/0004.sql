-- Who is signed in on a web page, by the hash of the browser's token. `credential` is the hash of the API key or of the
-- installation's token that was shown; if `scopes` is not NULL, it is the fingerprint of the key that verified a JSON Web
-- Token, and `scopes` is what that token allowed. Times are microseconds.
CREATE TABLE sessions (
    token BLOB PRIMARY KEY CHECK (length(token) = 32),
    account TEXT NOT NULL REFERENCES accounts (id),
    credential BLOB NOT NULL CHECK (length(credential) = 32),
    scopes TEXT,
    began_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_account ON sessions (account, ends_at);
CREATE INDEX sessions_by_end ON sessions (ends_at);
CREATE INDEX sessions_by_credential ON sessions (credential);
