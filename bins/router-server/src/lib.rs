//! A server of partner models: one call to any of them, with keys that pay once and limits that hold.
//!
//! [`assemble`] wires store, catalog, router and API; [`App::run`] serves. [`RouterStack`] is what another server mounts
//! beside its own.
//!
#![doc = include_str!("../README.md")]

mod app;
mod caller;
mod catalog;
mod commands;
mod config;
mod control;
mod files;
mod keeping;
mod leases;
mod metrics;
pub mod program;
mod published;
mod queue;
mod stack;
mod store;

pub use app::{App, AssembleError, HOME_ENTRIES, assemble};
pub use caller::{Caller, InnerCall};
pub use catalog::{CatalogFaults, offer};
pub use commands::{commands, run};
pub use config::{Config, KEYS, LIMITS, PartnerConfig, ROUTER_KEYS, RouterSettings};
pub use published::{ModelMaker, OwnModels};
pub use stack::{Background, RouterStack, RouterStackError};
