//! What fails.
