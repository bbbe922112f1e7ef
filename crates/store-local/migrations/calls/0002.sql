-- What happened to calls and is not in the rows yet: a row for each commit, with its entries one after the other, in their
-- order.
CREATE TABLE call_log (
    seq INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
) STRICT;
