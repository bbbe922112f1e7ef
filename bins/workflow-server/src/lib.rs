//! workflow-server.
