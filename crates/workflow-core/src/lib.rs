//! workflow-core.
