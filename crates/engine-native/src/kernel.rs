//! Pure pixel operations, one file per family; nodes are thin wrappers over them.
