//! asset-store.
