//! workflow-http.
