//! all-in-one.
