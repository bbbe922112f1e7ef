//! Admin over HTTP: accounts, keys, credits, holds, sweeps, the catalog and workers, for credentials with the scope `admin`.
//!
//! Every server mounts it below [`BASE`], beside its own API. What a request does is the business of the [`AdminService`],
//! which answers commands over the admin socket as well; here are routes, bodies, credentials and the words of errors.
//! Knows no store and no command line. Start at [`AdminApi`].
//!
#![doc = include_str!("../README.md")]

mod api;
mod body;
mod errors;
mod query;
mod service;

pub mod wire;

pub use api::{AdminApi, BASE, DOCUMENT, OPENAPI};
pub use service::{Actor, AdminService};
