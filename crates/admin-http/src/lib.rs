//! Admin over HTTP, for credentials with the scope `admin`: accounts, keys, credits, holds, sweeps, the catalog, jobs, workers,
//! deployments and webhooks. Webhooks of an account are managed by the account itself, too.
//!
//! Every server mounts it below [`BASE`], beside its own API. What a request does is the business of the [`AdminService`],
//! which answers commands over the admin socket as well; here are routes, bodies, credentials and the words of errors.
//! Knows no store and no command line. Start at [`AdminApi`].
//!
#![doc = include_str!("../README.md")]

mod api;
mod body;
mod deployments;
mod errors;
mod models;
mod query;
mod routes;
mod service;
mod webhooks;

pub mod wire;

pub use api::{AdminApi, OPENAPI};
pub use routes::{BASE, DOCUMENT, OWN_WEBHOOKS};
pub use service::{Actor, AdminService};
