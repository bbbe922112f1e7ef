//! A server of workflows: the v2 and v1 APIs over jobs, assets and the native engine, in one data directory.
//!
//! Chooses the adapters and wires them together; decides nothing about a job or a file. Embed it whole with [`assemble`], or
//! without HTTP with [`Stack`].
//!
#![doc = include_str!("../README.md")]

pub mod copies;
pub mod nodes;
pub mod program;

mod app;
mod background;
mod config;
mod deployments;
mod maintenance;
mod metrics;
mod operator_jobs;
mod role;
mod scrub;
mod stack;
mod store;
mod worker_metrics;
mod worker_tables;
mod workers;

pub use app::{App, AssembleError, HOME_ENTRIES, api, assemble, home, probe};
pub use background::Background;
pub use config::{Config, KEYS, LIMITS, WorkflowLimits};
pub use role::Role;
pub use stack::{Stack, StackError};
pub use store::{movable_at, store_at};
pub use worker_tables::{HeaderSource, WorkerHeader, WorkerTable, WorkerTables};
pub use workers::{Preference, PreviewMethod, WorkerSettings};
