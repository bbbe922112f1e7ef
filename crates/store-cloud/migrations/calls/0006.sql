-- Accounts take turns when results are fetched: the next account and its results that are due are found by this.
DROP INDEX kept_results_due;
CREATE INDEX kept_results_due ON kept_results (account, due_at, generation, place) WHERE state = 0;
