//! The workflow API over HTTP: requests to calls on jobs and assets, and their answers back.
//!
//! Decides nothing about a job or an asset; it reads what came, asks the services below, and spells the answer. Every wire
//! word of Family B stands in [`v2`], every one of Family C in [`v1`], and every error becomes a response in one file there. It starts no task: a stream of
//! events is polled by its connection. Start at [`routes`], which mounts a [`WorkflowService`].
//!
#![doc = include_str!("../README.md")]

mod access;
mod address;
mod api;
mod credential;
mod cursor;
mod deployments;
mod links;
mod memory;
mod pieces;
mod service;
mod streams;
mod uploads;
mod v1;
mod v2;

pub use api::{WorkflowApi, routes};
pub use links::output_url;
pub use service::{DeploymentJobs, WorkflowConfig, WorkflowService};
pub use v1::{LogReaders, OPENAPI as OPENAPI_V1, V1Service, WebPage};
pub use v1_compat::preview_method;
pub use v2::OPENAPI;

#[cfg(test)]
mod tests;
