-- Versions of models that operators published. What a text says is its maker's; `calls` are the ids of models, with spaces between
-- them. `changed` is the number of the change that wrote the row: the largest one is that of the newest change. Times are
-- microseconds since 1970.
CREATE TABLE published_models (
    model text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    text text NOT NULL,
    calls text NOT NULL,
    changed bigint NOT NULL,
    published_at bigint NOT NULL,
    withdrawn_at bigint,
    PRIMARY KEY (model, version)
);
CREATE INDEX published_models_changed ON published_models (changed);
