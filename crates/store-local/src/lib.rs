//! store-local.
