//! Family A over HTTP: requests to questions of the router, and its answers back.
//!
//! Decides nothing about a call; it reads what came, asks [`router_core::Router`], and spells the answer. Every wire word of
//! the family stands in `wire` and `headers`, every error becomes a response in one file. The one task that it starts is
//! what is left of a call when its connection goes; the host of the API joins those. Start at [`routes`],
//! which mounts a [`RouterService`].
//!
#![doc = include_str!("../README.md")]

mod access;
mod api;
mod call;
mod catalog;
mod delivery;
mod dialect;
mod errors;
mod estimate;
mod generations;
mod headers;
mod origins;
mod query;
mod reply;
mod requests;
mod routes;
mod service;
mod stream;
mod usage;
mod wire;

pub use access::{Observed, Observer};
pub use api::{OPENAPI, RouterApi, routes};
pub use call::detach;
pub use generations::ResultFiles;
pub use service::{RouterHttpConfig, RouterService};

#[cfg(test)]
mod tests;
