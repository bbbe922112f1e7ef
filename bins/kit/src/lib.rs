//! What every server is built with: configuration, log, metrics, signals, the answers to health checks, and the commands
//! that operate an installation.
//!
//! Knows no API and no store: a binary brings those and mounts them behind [`Front`]. Start at [`config::Settings`].

pub mod admin;
pub mod config;
pub mod keys;
pub mod logging;
pub mod metrics;
pub mod program;
pub mod signals;

mod front;
mod listening;

pub use front::{Front, Probe};
pub use listening::{Leave, ListenError, Listening};
