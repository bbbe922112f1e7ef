//! accounts.
