//! Reading and writing picture formats.
