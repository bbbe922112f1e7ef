//! What every server is built with: configuration, log, metrics, signals, the answers to health checks, and the commands
//! that operate an installation.
//!
//! Knows no API: a binary brings its own and mounts it behind [`Front`]. Start at [`config::Settings`].
//!
#![doc = include_str!("../README.md")]

pub mod admin;
#[cfg(all(feature = "jemalloc", unix))]
pub mod allocator;
pub mod config;
pub mod keys;
pub mod listing;
pub mod logging;
pub mod machine;
pub mod metrics;
pub mod migrate;
pub mod opening;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod program;
pub mod reload;
pub mod scrub;
pub mod signals;
pub mod store_metrics;
pub mod sweeps;
pub mod threads;
#[cfg(any(feature = "router", feature = "workflow"))]
pub mod timer;
pub mod turns;
pub mod webhooks;

mod front;
mod listening;
mod manual;
mod server;
mod systemd;

pub use front::{Endpoints, Front, Home, HomeEntry, Probe};
pub use listening::{Leave, ListenAddress, ListenError, Listening, MetricsListening};
pub use server::Server;
