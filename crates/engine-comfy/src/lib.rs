//! A pool of ComfyUI workers as a [`workflow_core::Engine`]: each is a ComfyUI process that is reached by its address, or started
//! here for a deployment.
//!
//! Knows nothing of rows, accounts or any wire format of ours: it takes a valid graph, stages files by hash, lets a worker run
//! it, and hands what the worker makes to the run's sink. What is decided (what a message means, which worker takes a job, what
//! is sent) is pure and in modules of its own; start at [`ComfyPool`], then at `run`. [`Deployments`] stand on pools.
//!
#![doc = include_str!("../README.md")]

mod address;
#[cfg(feature = "bench")]
pub mod bench;
mod breaker;
mod choose;
mod client;
mod definitions;
mod deployments;
mod durations;
mod frames;
mod headers;
mod history;
mod pool;
mod prompt;
mod run;
mod slots;
mod translate;
mod worker;

pub use address::{InvalidWorkerUrl, WorkerUrl};
pub use breaker::BreakerState;
pub use deployments::{
    DeploymentPorts, DeploymentReport, Deployments, DeploymentsConfig, DeploymentsError,
    ManagedReport, Ownership, WorkerLog,
};
pub use durations::Durations;
pub use headers::{InvalidHeader, WorkerHeaders};
pub use pool::{AddError, COMFYUI, ComfyPool, PoolConfig, WorkerConfig, WorkerReport};
pub use slots::WorkerSlots;
pub use worker::WorkerState;
