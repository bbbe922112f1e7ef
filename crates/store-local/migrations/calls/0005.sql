-- The log of calls lies in files. What is before this place is in the rows, or in the one row of `call_log` that is left for what
-- had not ended then.
CREATE TABLE call_log_place (
    epoch INTEGER NOT NULL,
    "offset" INTEGER NOT NULL
) STRICT;
INSERT INTO call_log_place VALUES (0, 0);
