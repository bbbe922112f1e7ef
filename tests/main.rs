//! Whole-system tests: real sockets, real files, real processes. Modules by API, then by what they show.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

mod admin;
mod bad_day;
mod cli;
mod cloud;
mod console;
mod cross;
mod deployments;
mod documents;
mod edge;
mod fair;
mod first_steps;
mod memory;
mod models;
mod nodes;
mod partners;
mod platform;
mod providers;
mod router;
#[cfg(feature = "otlp")]
mod traces;
mod v1;
mod v2;
mod webhooks;
mod workers;
