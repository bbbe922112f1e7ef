-- Versions of models that operators published. What a text says is its maker's; `calls` are the ids of models, with spaces between
-- them. `changed` is the number of the change that wrote the row: the largest one is that of the newest change. Times are
-- microseconds.
CREATE TABLE published_models (
    model TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    calls TEXT NOT NULL,
    changed INTEGER NOT NULL,
    published_at INTEGER NOT NULL,
    withdrawn_at INTEGER,
    PRIMARY KEY (model, version)
) STRICT;
CREATE INDEX published_models_changed ON published_models (changed);
